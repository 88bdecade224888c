package infra

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

// defaultObjectPrefix is the prefix of objects if DestinationPrefix is empty. The dead letters have others.
const defaultObjectPrefix = "records"

func (p RecordDedupeProps) objectPrefix() string {
	if p.DestinationPrefix == "" {
		return defaultObjectPrefix
	}
	return strings.Trim(p.DestinationPrefix, "/")
}

// checkObjects refuses props that cannot be used with objects as the destination.
func (p RecordDedupeProps) checkObjects(wrong *problems) {
	if p.DestinationBucket == nil {
		if p.DestinationPrefix != "" {
			wrong.add("%s needs %s", wrong.of("DestinationPrefix"), wrong.of("DestinationBucket"))
		}
		return
	}
	if p.Mapping.Parallelization != 1 {
		wrong.add("%s is %d, and must be 1 with %s: an object says which records are done by the first and the last one",
			wrong.of("Parallelization"), p.Mapping.Parallelization, wrong.of("DestinationBucket"))
	}
}

// objectPlace returns the value of the variable ONCEBOX_SINK.
func (p RecordDedupeProps) objectPlace() string {
	return "s3://" + *p.DestinationBucket.BucketName() + "/" + p.objectPrefix()
}

// writeObjects allows the calls of the object sink. Without s3:ListBucket, S3 answers 403 if an object does not
// exist, and the function could not distinguish that from a missing permission (S3 API reference, "HeadObject"). A
// condition on the prefix would have the same effect, because such a request has no prefix.
func writeObjects(bucket awss3.IBucket, prefix string) []grant {
	read := putObjects(bucket, prefix)
	read.actions = []string{"s3:GetObject", "s3:PutObject"}
	return append(onKey(bucket.EncryptionKey(), "s3", "kms:Decrypt", "kms:GenerateDataKey"),
		read, grant{[]string{"s3:ListBucket"}, *bucket.BucketArn(), nil})
}

// destinationBucket returns the bucket of a context value, or nil.
func (s *contextStack) destinationBucket() awss3.IBucket {
	name := s.bucket("destination-bucket")
	if name == "" {
		return nil
	}
	return awss3.Bucket_FromBucketAttributes(s.stack, jsii.String("DestinationBucket"), &awss3.BucketAttributes{
		BucketName: &name, EncryptionKey: s.key,
	})
}
