// Package dedupe lets every record of a stream through once, whatever producers and consumers retry.
//
//	ledger := dynamostore.New(client, "dedupe-table")
//	json, err := format.NewJSON(format.Options{IDPath: "event_id"})
//	...
//	p := dedupe.NewProcessor(ledger, json, sink, deadLetters, dedupe.Settings{
//		Scope:     "orders",
//		Retention: dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour},
//	})
//	result := p.Process(ctx, batch)
//	if result.Failed != "" {
//		// Deliver the records from this sequence number on again.
//	}
//
// The sub-packages sqlitestore and dynamostore are ledgers. Package kinesishandler puts a Processor into a Lambda
// function. Packages kinesissink and ndjsonsink are sinks; package deadletter is a dead-letter store.
//
// # Life of a batch
//
// Processor.Process takes a batch through these steps. Each step has a file of its own.
//
//  1. Checkpoint (checkpoint.go): skip the records that are done, if checkpoints are on.
//  2. Decode (decode.go): open KPL aggregates, and read the id and the fingerprint of each user record.
//  3. Decide (decide.go): ask the ledger what each record is.
//  4. Deliver (deliver.go): store the poison records in the dead-letter store, then send the others to the sink.
//  5. Checkpoint (checkpoint.go): move forward over what is done.
//
// Steps 2 to 5 take one chunk of records at a time. After the first failure the batch ends, and Result.Failed names the
// first record that is not done.
//
// # Deciding
//
// Two records are the same if their payloads have the same id. The ledger has one entry for each key, which is a hash
// of the id. The entry belongs to one record, its owner: stream, shard, sequence number and place in a KPL aggregate. A
// record asks for an entry under its key. The entry that it finds decides:
//
//	no entry, or one past its purge time   new: the entry is now this record's
//	an entry of this record                retry: the record is processed again
//	an entry with the same fingerprint     natural duplicate: dropped
//	an entry with another fingerprint      synthetic duplicate: gets a new id, and is decided again under that
//
// The new id is derived from the old id and the fingerprint, so it is the same on every attempt. After MaxDerivations
// derived ids that are all taken, the record is dead-lettered.
//
// The result is that of deciding the records one by one, in order. Decider is this step alone, for a program that has a
// pipeline of its own. Such a program reads records with ReadFields and does what decisions ask for with Delivery.
//
// # Guarantees
//
//   - No record is lost. Each is delivered, dropped as a duplicate, or stored in the dead-letter store with its reason.
//     A failure of the ledger, the sink or the dead-letter store never makes a record a duplicate: it fails the record,
//     which is then delivered again.
//   - Of two records with the same id and fingerprint, whose arrivals are at most Retention.Window apart, at most one
//     is delivered. Both must be processed within Retention.Horizon after their arrival.
//   - A record is never a duplicate of itself. If it is delivered again by the stream, it is a retry.
//   - While its entries live, a record has one output id on every attempt.
//   - A record that can never be processed is dead-lettered alone. It does not block the records after it.
//
// # Crashes
//
//	the process ends                       afterwards
//	before the ledger has the entry        the record is new
//	between the ledger and the sink        the record is a retry, and is sent for the first time
//	after the sink, before the answer      the record is a retry, and is sent a second time, with the same id
//	before a dead letter is stored         the record is stored then
//	after a dead letter is stored          the record is stored again under the same name, which changes nothing
//	before the checkpoint is written       the records are retries
//
// # Limits
//
//   - Delivery is at least once. The sink gets a record again after a crash, a time-out or a partial failure, always
//     with the same id. Sinks that deliver exactly once are not implemented yet.
//   - Copies whose arrivals are further apart than the window may be dropped or delivered.
//   - A producer that gives each retry a new id makes different records.
//   - The order of records holds within a shard, not across shards.
//   - Checkpoints are safe only where a shard has one invocation at a time, and a scope and stream have one consumer.
package dedupe
