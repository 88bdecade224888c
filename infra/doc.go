// Package infra holds the AWS CDK constructs of oncebox.
//
//   - [ClaimAPI] hands out the items of campaigns: an API Gateway HTTP API, a Lambda function, two DynamoDB tables, and a
//     second function that closes the holds and claims whose time is over.
//   - [RecordDedupe] passes on each record of a Kinesis stream once: a Lambda function with its event source mapping, a
//     DynamoDB table, a stream for the unique records, and a bucket for the dead letters. A queue, a DynamoDB stream or a
//     log group can be the [Source] in the place of the Kinesis stream. A Firehose stream, a queue, a bucket or a table of
//     yours can be the destination, the [Sink].
//
// Use one or both in a stack of your own. The functions are not built here: run `make zip` first, or name the folders
// of the executables in [FunctionProps].
//
//	claims, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{
//		Auth: infra.AuthIAM,
//	})
//
//	records, err := infra.NewRecordDedupe(stack, "Records", infra.RecordDedupeProps{
//		Settings: recordhandler.Settings{IDPath: "order.id"},
//	})
//
// The constructs make everything that the props leave out, with safe defaults:
//
//   - Tables, streams, the bucket and the logs stay when the stack is deleted. Of a first deployment that fails only the
//     tables stay.
//   - An upgrade does not interrupt the API: everything calls an alias of the functions.
//   - Data is encrypted. The bucket is private. Tables have deletion protection and point-in-time recovery. Copies in
//     another account need [BackupProps].
//   - The API accepts no caller without a proof of identity, unless you choose [AuthOpen].
//   - The functions may do only what docs/iam.md lists.
//   - Failed batches are retried for most of the stream's retention, then stored in the bucket.
//   - Alarms watch for failures. docs/operations.md says what to do about each.
//
// To let both jobs share a table, make it with [NewTable] and set DedupeTable in both props.
//
// Unlike the constructors of the CDK, which panic, these return errors. An error lists everything that is wrong with
// the props, and then no part of the construct was made. It also reports what the function would refuse at its start,
// and combinations of settings that would lose records or deliver them twice.
//
// A function of your own that runs once for a key (package idempotency) needs a table of [NewTable], [GrantNamespace],
// and perhaps [NewHandlerAlarms].
//
// [NewStack] makes a stack from a settings file. The app in infra/app uses it, so `cdk deploy` needs no Go
// code. [NewTemplate] makes the same stack with parameters, for those who deploy without the CDK.
package infra
