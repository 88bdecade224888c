package deadletter

import "github.com/oncebox/oncebox/internal/records/s3store"

// advice says what to do about wrong settings.
var advice = map[string]string{
	"NoSuchBucket":      "the bucket does not exist; check its name",
	"PermanentRedirect": "the bucket is in another region; set AWS_REGION to it",
	"AccessDenied": "access denied; the function needs s3:PutObject below the prefix, and sqs:SendMessage for notifications; " +
		"redrive needs s3:ListBucket, s3:GetObject, s3:PutObject and s3:PutObjectTagging; redrive erase also needs s3:ListBucketVersions and " +
		"s3:DeleteObjectVersion",
	"QueueDoesNotExist":                       "the queue does not exist; check its URL and region",
	"AWS.SimpleQueueService.NonExistentQueue": "the queue does not exist; check its URL and region",
}

func storeName(where string) string { return "dead-letter store " + where }

// translate translates an error of S3 or SQS: see s3store.Store.
func translate(where, doing string, err error) error {
	return s3store.Store{Name: storeName(where), Advice: advice}.Translate(doing, err)
}
