package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// poisonPrefix returns the prefix of the poison records that the function stores. It contains the scope: an object is
// named by the record's owner, and a record has the same owner in two scopes.
func poisonPrefix(scope string) string { return "poison/" + scope }

// batchPrefix is the prefix of the batches that Lambda gives up. Lambda chooses it (Lambda Developer Guide, "Retain
// discarded batch records for a Kinesis Data Streams event source").
const batchPrefix = "aws/lambda"

// newDeadLetterBucket makes the bucket of dead letters. No object expires, because it is the only copy.
func newDeadLetterBucket(scope constructs.Construct, key awskms.IKey, disposable bool) awss3.Bucket {
	props := &awss3.BucketProps{
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		EnforceSSL:        jsii.Bool(true),
		Versioned:         jsii.Bool(true),
		RemovalPolicy:     keepUnlessRolledBack(disposable),
	}
	if key != nil {
		props.Encryption, props.EncryptionKey, props.BucketKeyEnabled = awss3.BucketEncryption_KMS, key, jsii.Bool(true)
	}
	bucket := awss3.NewBucket(scope, jsii.String("DeadLetterBucket"), props)
	bucket.Policy().ApplyRemovalPolicy(keepUnlessRolledBack(disposable)) // the policy stays with the bucket
	return bucket
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
