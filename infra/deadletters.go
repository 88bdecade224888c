package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// poisonPrefix returns the prefix of the poison records that the function stores. It contains the scope: an object is
// named by the record's owner, and a record has the same owner in two scopes.
func poisonPrefix(scope string) string { return "poison/" + scope }

// batchPrefix is the prefix of the batches that Lambda gives up. Lambda chooses it (Lambda Developer Guide, "Retain
// discarded batch records for a Kinesis Data Streams event source").
const batchPrefix = "aws/lambda"

// newDeadLetterBucket makes the bucket of dead letters. A letter that is not done never expires, because it is the only
// copy.
func newDeadLetterBucket(
	scope constructs.Construct, key awskms.IKey, doneExpiry time.Duration, disposable bool,
) awss3.Bucket {
	props := &awss3.BucketProps{
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		EnforceSSL:        jsii.Bool(true),
		Versioned:         jsii.Bool(true),
		RemovalPolicy:     keepUnlessRolledBack(disposable),
		LifecycleRules:    expireDoneLetters(doneExpiry),
	}
	if key != nil {
		props.Encryption, props.EncryptionKey, props.BucketKeyEnabled = awss3.BucketEncryption_KMS, key, jsii.Bool(true)
	}
	bucket := awss3.NewBucket(scope, jsii.String("DeadLetterBucket"), props)
	bucket.Policy().ApplyRemovalPolicy(keepUnlessRolledBack(disposable)) // the policy stays with the bucket
	return bucket
}

// expireDoneLetters returns rules that delete the letters that redrive has tagged, with their versions, and the delete
// markers that are left. S3 takes no tag in a rule about delete markers (API reference, LifecycleExpiration).
func expireDoneLetters(after time.Duration) *[]*awss3.LifecycleRule {
	if after == 0 {
		return nil
	}
	return &[]*awss3.LifecycleRule{
		{
			Id:                          jsii.String("done-letters"),
			TagFilters:                  &map[string]any{deadletter.DoneTag: deadletter.DoneValue},
			Expiration:                  awscdk.Duration_Days(jsii.Number(after / day)),
			NoncurrentVersionExpiration: awscdk.Duration_Days(jsii.Number(1)),
		},
		{Id: jsii.String("delete-markers"), ExpiredObjectDeleteMarker: jsii.Bool(true)},
	}
}

const (
	day             = 24 * time.Hour
	longestDoneDays = 3650
)

// checkDoneExpiry checks when letters that are done expire.
func (p RecordDedupeProps) checkDoneExpiry(wrong *problems) {
	expiry := wrong.of("DoneLetterExpiry")
	switch {
	case p.DoneLetterExpiry == 0:
	case p.DoneLetterExpiry < day || p.DoneLetterExpiry > longestDoneDays*day || p.DoneLetterExpiry%day != 0:
		wrong.add("%s is %s; choose whole days from 1d to %dd", expiry, text(p.DoneLetterExpiry), longestDoneDays)
	case p.DeadLetterBucket != nil:
		wrong.add("%s is for the bucket that the stack makes; give the bucket of %s the lifecycle rules of docs/redrive.md, "+
			"\"Done letters expire\"", expiry, wrong.of("DeadLetterBucket"))
	}
}

// newNotifyQueue makes the queue that gets a message for each new dead letter of the function. Messages stay for 14
// days, the longest that SQS offers. The objects stay for ever.
func newNotifyQueue(scope constructs.Construct, key awskms.IKey) awssqs.Queue {
	props := &awssqs.QueueProps{
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:      jsii.Bool(true),
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
	}
	if key != nil {
		props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, key
	}
	return awssqs.NewQueue(scope, jsii.String("NotifyQueue"), props)
}
