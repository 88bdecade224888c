// Package dedupe lets every record through once, whatever producers and
// consumers retry.
//
// A producer that retries sends the same payload under a new sequence number; a
// consumer that is given a batch again sees the same sequence number. So the key
// that makes two records the same comes from the payload, and the owner that
// tells a copy from a retry is the record's position in the stream.
//
// # Deciding
//
// Each record is put into a ledger under its key, if the key is free. If it is
// not, the row that is there decides:
//
//   - its owner is this record: a retry. The record is the original again.
//   - the same fingerprint: a natural duplicate. It is dropped.
//   - another fingerprint: a synthetic duplicate, another record under a used
//     key. It is kept under a new id derived from its old one and its
//     fingerprint, the same on every attempt, and decided again under that.
//
// An entry lives for the window and the horizon after its record's arrival, and
// the same time is the row's TTL: nothing that still counts can be purged.
//
// # Guarantees
//
// A failure of ledger, sink or failure store never turns into "duplicate": the
// record fails, and is delivered again. A redelivered record is never a duplicate
// of itself. What can never be processed is kept whole in the failure store.
// Exactly once ends at a sink that has no transactions: a stream sink may get a
// record again after a crash, time-out or partial failure, with the same id.
//
// Processor is the whole way of a batch; docs in its methods follow the steps.
package dedupe
