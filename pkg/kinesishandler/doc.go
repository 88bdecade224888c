// Package kinesishandler is a Lambda handler that passes on every record of a Kinesis stream once, whatever producers
// and consumers repeat. The function in functions/dedupe and the command `oncebox invoke dedupe` are made of it.
//
//	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
//	...
//	options, err := kinesishandler.ParseOptions(os.Environ())
//	...
//	ledger := dynamostore.New(client, "oncebox-dedupe")
//	handler, err := kinesishandler.Open(ctx, awsclient.FromEnvironment, ledger, options, slog.Default())
//	...
//	lambda.Start(handler)
//
// [Open] makes the sink and the dead-letter store that the options name. [New] takes a sink and a store of your own.
//
// # The event source mapping
//
// The handler takes events of a Kinesis event source mapping, each with records of one shard. Its answer names the
// first record that failed. The mapping must have ReportBatchItemFailures: without it Lambda ignores the answer, and
// failed records count as delivered. Handling an event again is safe at any time.
//
// # Errors
//
// A fault of the ledger, the sink or the dead-letter store is a partial failure: what was done before it counts, and
// Lambda sends the rest again. An invocation fails as a whole for an event that is not of one Kinesis shard
// (ErrNotKinesis, ErrManyShards), if the sink is the source (ErrLoop), and on a panic.
//
// # Log
//
// Each invocation writes one line with the message "batch": request id, stream, shard, and the number of records by
// what became of them, in = new + retry + natural + synthetic + dead_lettered + skipped + failed. "out" counts the
// records that were sent, "repeated" those that the sink sent again by itself. The level is error if something
// failed, warn if there are new dead letters, else info. The line never holds payloads, keys or ids.
//
// # Life of an invocation
//
//  1. decode makes a batch of the event, or refuses the event as a whole.
//  2. The stream of the batch has a dedupe.Processor, which is made for its first batch.
//  3. The Processor gets the batch, with a deadline 0.5 s before that of the invocation.
//  4. Answer names the first record that failed. Lambda sends it and all later records again.
//  5. report writes the log line.
package kinesishandler
