// Package recordhandler is a Lambda handler that delivers every record of a Kinesis stream once, whatever producers
// and consumers repeat. It also reads queues, DynamoDB streams and CloudWatch Logs. The function in functions/dedupe
// and the command `oncebox invoke dedupe` use it.
//
//	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
//	...
//	options, err := recordhandler.ParseOptions(os.Environ())
//	...
//	store, err := recordhandler.NewStore(ctx, awsclient.FromEnvironment, client, "oncebox-dedupe", options)
//	...
//	handler, err := recordhandler.Open(ctx, awsclient.FromEnvironment, store, options, slog.Default())
//	...
//	lambda.Start(handler)
//
// [Open] makes the sink and the dead-letter store that the options name. [New] takes your own parts. The Firehose sink
// and the Valkey ledger need [Clients].
//
// # The event source mapping
//
// The handler takes events of a Kinesis event source mapping, each with records of one shard. Its answer names the
// first record that failed. The mapping must have ReportBatchItemFailures: without it Lambda ignores the answer, and
// failed records count as delivered. It should have BisectBatchOnFunctionError. It is safe to handle an event again
// at any time.
//
// The mapping must read the stream itself. A consumer with enhanced fan-out is refused with ErrConsumer, because
// Lambda then opens KPL aggregates before the function gets them. If no producer makes aggregates,
// ONCEBOX_SOURCE_AGGREGATION=off allows it. If an aggregate comes nevertheless, its batch fails with
// dedupe.ErrSharedSequence.
//
// # Other sources
//
// The handler finds the source of a batch in the event. docs/records.md says for each source what a record
// is, and what its owner is. The answer names
//
//   - for a DynamoDB stream, the first record that failed, as for a Kinesis stream;
//   - for a standard SQS queue, each message that failed;
//   - for a FIFO queue, the first message that failed and all after it.
//
// The entry of a message of a queue says whether its effect is done. A message that is done is not sent again, and one
// that another invocation has in progress comes again (dedupe.Batch.Queue). Without acks entries do not say it.
//
// A message that CloudWatch Logs sends to the function directly has no answer: any failure fails the invocation, and
// Lambda sends the message again. Options.Framing opens payloads that hold several records.
//
// # Errors
//
// A fault of the ledger, the sink or the dead-letter store is a partial failure: the records before it are done, and
// Lambda sends the rest again. The whole invocation fails
//
//   - if the first of several records is not done (ErrNoProgress), so that Lambda bisects the batch;
//   - if nearly all of the first records are poison for one reason, before they are dead-lettered
//     (dedupe.ErrWrongSetting); for a queue the log has this error, and the answer lists the messages that are not
//     done;
//   - if another function reads the stream in the same scope (dedupe.ErrOtherConsumer), the stream was read with another
//     ledger there (dedupe.ErrOtherLedger), or the sink is the source (ErrLoop);
//   - for an event that is not a batch of one source (ErrNotKinesis, ErrManyShards, ErrConsumer, dedupe.ErrNotABatch,
//     dedupe.ErrSharedSequence);
//   - on a panic.
//
// A failed read or write of acks fails neither records nor the invocation.
//
// # Log
//
// Each invocation writes one line with the message "batch". It never contains payloads, keys or ids.
//
//	request_id, stream, shard   which invocation it was
//	records                     records or messages in the event
//	in, new, retry, natural,    user records by their result:
//	synthetic, dead_lettered,   in = new + retry + natural + synthetic + dead_lettered + skipped + failed
//	skipped, failed             (skipped: done before, or several times in one batch of a queue)
//	out                         records that were sent
//	repeated                    records that the sink itself sent again although they may have been delivered
//	superseded                  records of out that were not written, because the table had a version that is not older
//	past_horizon                records older than the horizon, copies of which may be delivered
//	clamped                     messages that CloudWatch Logs sent directly and whose time was after now, or before or
//	                            near the horizon: their arrival is now, or 6 h 15 min after the horizon
//	duration_ms                 time that the handler took
//	reasons                     number of dead letters by their reason, if there are any
//	ack_error                   why acks could not be read or written
//	error, failed_sequence      why a record or the invocation failed, and the first record that is not done
//	stack                       of a panic
//
// With a log ledger the line also has
//
//	ledger_memory               bytes of entries in memory. It rises to the limit, since old entries stay until room is
//	ledger_memory_limit         needed.
//	ledger_memory_share         the part of the limit that the entries need that count for these records, from 0. Near 1
//	                            there is no room for more, and batches fail.
//	ledger_appends              requests to append to the log
//	ledger_conflicts            appends that came after an append of another process; their records were decided again
//	ledger_loads                lanes, or parts of lanes, that were loaded
//	ledger_items_read           items of the log that were read
//	ledger_units                write units of the appends, computed by their sizes
//	ledger_lane_units           write units of the lane that took the most. The sum over all invocations of a second is at
//	                            least what the busiest lane took, which is 1,000 at most.
//
// The level is error if there is an error. It is warn if there are dead letters, records past the horizon or an
// ack_error. Otherwise it is info. Separate lines, with the level warn and an error, report a dead letter whose
// notification was not sent, a ledger that was not warmed, and a sink that cannot make aggregates and sends plain
// records.
//
// # Life of an invocation
//
//  1. decodeEvent makes batches from the event, or refuses the whole event. It makes one batch, except for messages of
//     a dead-letter queue that were in several queues before.
//  2. The work gets a deadline 0.5 s before that of the invocation.
//  3. Each source has its own dedupe.Processor. It is made for the source's first batch. If the ledger is a
//     dedupe.Warmer, it is then warmed.
//  4. The Processor takes the batch through its steps.
//  5. faultOf decides whether the whole invocation fails. If not, Answer names the records that are not done, and
//     Lambda sends these again.
//  6. report writes the log line.
package recordhandler
