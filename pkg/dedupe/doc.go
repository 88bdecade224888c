// Package dedupe delivers every record of a stream once, whatever producers and consumers retry.
//
//	store := dynamostore.New(client, "dedupe-table")
//	json, err := format.NewJSON(format.Options{IDPath: "event_id"})
//	...
//	p, err := dedupe.NewProcessor(
//		dedupe.Parts{
//			Ledger: store, Acks: store, Consumers: store, Format: json, Sink: sink, DeadLetters: deadLetters,
//		},
//		dedupe.Settings{
//			Scope: "orders", Sink: "kinesis:unique-orders", Consumer: "my-function",
//			Retention: dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour},
//		},
//	)
//	...
//	result := p.Process(ctx, batch)
//	if result.Err != nil {
//		// Deliver the records from result.Failed on again.
//	}
//
// The sub-packages sqlitestore and dynamostore are ledgers. They also store acks, consumers and offline runs. Package
// recordhandler runs a Processor in a Lambda function. Package deadletter is a dead-letter store. Package framing
// opens payloads that hold several records.
//
// # Sinks
//
// A Processor has a sink of one of three levels. Package sinktest is the conformance suite of sinks.
//
//	Parts.Sink     at least once   kinesissink, firehosesink, sqssink, ndjsonsink, and SinkFunc for a function
//	Parts.Objects  objects         objectsink: each record is in one object
//	Parts.Tx       transactional   dynamosink, sqlitesink: the effect of each record happens once
//
// # Life of a batch
//
// Processor.Process takes a batch through these steps. Each step has a file of its own.
//
//  1. Read the acks (acks.go): they name the records of the batch that are done.
//  2. Decode (decode.go): open KPL aggregates, read the id and the fingerprint of each user record, and check whether
//     the sink can take it.
//  3. Decide (decide.go): ask the ledger what each record is.
//  4. Deliver (deliver.go, tostream.go): store the poison records in the dead-letter store, then send the others to the
//     sink. Those that the sink refuses are stored as dead letters, too.
//  5. Acknowledge (acks.go): store which records are done.
//
// What the sinks of other levels do instead is behind one interface (level.go). With an ObjectSink, step 1 reads which
// records are in objects, and step 4 writes an object (intoobjects.go); there is no step 5. With a TxSink, steps 3 and
// 4 are one transaction for each record (intransactions.go). Step 2 also opens payloads that hold several records
// (framing.go).
//
// Steps 2 to 5 process one chunk of records at a time. The ledger step of a chunk begins when the ledger step of the
// chunk before has ended, and runs while the sink takes that chunk. After the first failure the batch ends, and
// Result.Failed is the sequence number of the first record that is not done. Records after it may be done: when they
// come again, their acks say so.
//
// # Deciding
//
// Two records are the same if their payloads have the same id. The ledger has an entry for each key, which is a hash of
// the id. The entry belongs to one record, its Owner: source, sequence number and place in a KPL aggregate. A record
// asks for an entry under its key. The entry that it finds decides:
//
//	nothing, or an entry past its purge time   new: the entry is now this record's
//	an entry of this record                    retry: the record is processed again
//	an entry with the same fingerprint         natural duplicate: dropped
//	an entry with another fingerprint          synthetic duplicate: gets a new id, and is decided again under that
//
// The new id is derived from the old id and the fingerprint, so it is the same on every attempt. If all MaxDerivations
// derived ids are taken, the record is dead-lettered. With Settings.Derive every record gets its derived id, whatever
// entries exist. Then the result does not depend on the order of the records.
//
// The result is the same as deciding the records one by one, in order. ByKey has the rule for engines that store
// one row for each key. An engine of another kind implements Ledger itself.
//
// # Guarantees
//
//   - No record is lost. Each is delivered, dropped as a duplicate, or stored in the dead-letter store with its reason.
//     A failure of the ledger, the sink, the dead-letter store or the format never makes a record a duplicate: it fails
//     the record, which is then delivered again.
//   - Of two records with the same id and fingerprint, whose arrivals are at most Retention.Window apart, at most one
//     is delivered. Both must be processed within Retention.Horizon after their arrival.
//   - A record is never a duplicate of itself. If the stream delivers it again, it is skipped if an ack names it, and
//     is a retry otherwise.
//   - While its entries live, a record has one output id on every attempt.
//   - A record that can never be processed, or that a Sink refuses, is dead-lettered alone. It does not block the
//     records after it. A refused record keeps its id: a copy of it is dropped. If nearly all of the first records are
//     poison for one reason, a setting is wrong: the batch fails with ErrWrongSetting.
//
// # Crashes
//
//	the process ends                       afterwards
//	before the ledger has the entry        the record is new
//	between the ledger and the sink        the record is a retry, and is sent for the first time
//	between the sink and the ack           the record is a retry, and is sent a second time, with the same id
//	after the ack, before the answer       the record is skipped
//	before a dead letter is stored         the record is stored then
//	after a dead letter is stored          the record is stored again under the same name, which changes nothing.
//	                                       If the sink had refused it, the sink is asked again, and may deliver it.
//
// # Acks
//
// An ack names the records of a chunk that are done for one sink. It names each of them, not a range. So it is true for
// any order of the batches, and for any number of batches of a shard at a time. It is written after the sink has
// confirmed the records. If acks cannot be read or written, the batch does not fail: without an ack a record is
// processed again, as a retry.
//
// # Queues
//
// Messages of a queue have no positions, so no ack can name them. With Batch.Queue the entry of a message says whether
// its effect is done, if the engine has one row for each key (Holds). The entry is in progress until the deadline of the
// run, and done after the sink or the dead-letter store has confirmed. A message or a copy that finds it done is
// dropped. One that finds it in progress fails with ErrInWork, and comes again. After the lease it takes the entry over
// and is a retry. So a message that SQS delivers again is not sent again, and a message that was never done is delivered
// also under a new message id. Without a confirmed mark a message is not done. A process that stands still in a Send may
// send after its lease; then the record is sent twice, with the same id.
//
// # Limits
//
//   - Delivery to a Sink is at least once. The sink may get a record again, always with the same id, in these cases:
//     after a crash or a lost reply between the sink and the ack, which concerns at most one chunk; after a time-out
//     while the first attempt still runs; and when the sink itself repeats a request. Without acks, the first case
//     concerns the whole batch, and there are two more in an ordered batch such as that of a FIFO queue: a SinkFunc
//     AtOnce delivers a record behind one that comes again; and a record is delivered behind a refused one whose dead
//     letter cannot be stored. Repeats are counted as retries, or in Tally.Repeated. With a TxSink the effect happens
//     once, and with an ObjectSink a record is in one object.
//   - Copies whose arrivals are further apart than the window may be dropped or delivered.
//   - A producer that gives each retry a new id makes different records.
//   - The order of records is kept within a shard, as far as the sink keeps it. It is not kept across shards.
//   - A scope and stream have one consumer; another function is refused with ErrOtherConsumer. They have one kind of
//     ledger; another one is refused with ErrOtherLedger.
//
// # Programs with their own pipeline
//
// A program that reads a queue or a topic needs no Processor. Delivery.Read reads a message, Decider.Decide decides the
// messages of a batch, and Delivery.Prepare returns what to deliver. The example of Decider is such a loop for Kafka.
// examples/queue is a Lambda function for SQS. These are the rules:
//
//   - Go through the decisions in order, and stop at the first error. If the source has no order, such as a standard
//     SQS queue, you may continue: an error says nothing about other messages.
//   - Do the effect for New, Retry and Synthetic, under the id of the decision. Drop Natural. If Read or Prepare returns
//     a *PoisonError, or the effect is refused for good, store the message as a dead letter. After any other error, the
//     message is not done. Nothing here looks for a wrong setting, as PoisonLimit does for a Processor: with a wrong
//     path of the id, or with an API that refuses all, each message becomes a dead letter. Watch their number.
//   - Acknowledge a message after its effect. Acknowledge a duplicate, and a dead letter after it is stored.
//
// The owner of a message must stay the same when the source delivers the message again, and no other message may have
// it:
//
//	                    Owner.Source                  Owner.Sequence    Candidate.Arrival
//	SQS                 ACCOUNT/REGION/sqs:QUEUE      message id        SentTimestamp
//	Kafka               cluster, topic, partition     offset            timestamp of the message
//	Kinesis, by KCL     as Position.Owner makes it    sequence number   approximate arrival timestamp
//	a file              a name of the import          line number       time of the import
//
// Position.Owner makes such owners. If you store dead letters, Candidate.Owner and DeadLetter.Owner must be those of
// DeadLetter.Position: a redrive finds the entry by the position, and would take a letter with another owner for a copy
// of itself. The dedupe function has the same owners. So a queue may pass from your program to the function or back, in
// the same scope.
//
// A message that comes again under another owner is taken for a copy of itself and dropped, although its effect may
// not be done. For example, StartMessageMoveTask gives messages new ids when it moves them out of a dead-letter queue
// of SQS. Read the dead-letter queue with the same program instead: there a message has its old id, and the attribute
// DeadLetterQueueSourceArn has the ARN of its first queue.
//
// Each effect is then done at least once, always with the same id. The effect of a copy is not done. A retry repeats
// the effect: after a crash or an error between the effect and its acknowledgement, and if a source delivers a
// message twice. Give the id to the effect as its idempotency key, or make the effect harmless to repeat. A copy may
// be dropped before the effect of the original is done. So the source must keep a message until it is acknowledged,
// and must store the messages that it gives up. Retention.Horizon must be at least as long as that takes.
package dedupe
