// Package deadletter stores records that can never be processed. Each dead letter is a whole record with its reason, as
// one JSON document ([Document]) in an S3 bucket or in a folder.
//
//	unsent := func(n deadletter.Notification, err error) {
//		log.Warn("no notification was sent", "owner", n.Owner, "error", err)
//	}
//	store, err := deadletter.Open(ctx, awsclient.FromEnvironment, "s3://my-bucket/dead", queueURL, unsent)
//	...
//	handler, err := recordhandler.New(dedupe.Parts{DeadLetters: store, ...}, options, log)
//
// # Once
//
// The name of an object is made from the record's owner and its data, and an object is never overwritten. So a record
// is stored once: a later attempt, or another process, finds the object and changes nothing. Put returns only after
// the store has confirmed the object: S3 by its answer to a conditional put, a folder by fsync.
//
// # Notifications
//
// With a [Notifier], a new object sends a notification: a message to an SQS queue with the place of the object, its
// owner and the reason. It does not contain the payload. Notifications are not reliable: one is lost if the process
// dies between the object and the message, and sometimes one is sent twice. Only the objects are complete.
//
// # Redrive
//
// An [Archive] lists the letters of a store: the records of this package, and the batches that Lambda gave up and
// stored in the same bucket. It records which letters are done, by markers beside them, and which a run has begun. It
// erases a letter with all its versions. `oncebox redrive` uses it.
//
// # Rights
//
// Put needs s3:PutObject, and sqs:SendMessage with a notifier. Read needs s3:GetObject. An Archive needs s3:ListBucket,
// s3:GetObject, s3:PutObject and s3:PutObjectTagging, and s3:ListBucketVersions and s3:DeleteObjectVersion to erase.
// Encryption, retention and access of the objects are settings of the bucket.
package deadletter
