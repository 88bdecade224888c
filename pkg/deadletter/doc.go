// Package deadletter keeps records that can never be processed, each whole and
// under the name of its owner, in an S3 bucket or a folder.
//
// A record is kept once: keeping it again, in a later attempt or by another
// process, finds the object and changes nothing. Kept means that the store
// confirmed it: S3 its answer to a conditional put, a folder its fsyncs.
//
// A new object notifications a notifier, where one is set: a message to a queue that says
// where the object is, whose it is and why, without the payload. The notifier is a
// help, not a promise. It is silent when a process dies between the object and
// the notification, and notifications twice at times; the objects are what counts.
//
// Encryption, life and access of objects are the bucket's settings. Put needs
// s3:PutObject, and sqs:SendMessage for the notifier; Read needs s3:GetObject.
package deadletter
