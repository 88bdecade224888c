// Package logledger is a ledger for very high rates: a log in the place of one row a key.
//
//	ledger, err := logledger.New(dynamostore.NewLog(client, "dedupe-table"), logledger.Options{})
//
// A conditional put for each record costs a write unit for each record. Here the new entries of a batch are appended to
// a log, about 35 of them for each write unit, and each process has the entries that count in memory. docs/log-ledger.md
// says when this pays.
//
// # The log
//
// A scope has a fixed number of lanes. The key of a record decides its lane. A lane has a log, which is cut into epochs.
// An epoch begins with a chain row (Epoch), which is kept for ever. Then come its items, with indexes from 0, and at last
// its seal. An item has a header and one row of 26 bytes for each new entry:
//
//	12 bytes of the key
//	8 bytes of the content: a hash of the whole key and the fingerprint
//	6 bytes of the owner: its tag
//
// # Deciding
//
// A record sees the rows under its key that count: those whose item has an arrival at most the window away from the
// record's, on either side. dedupe.Seen has the rule. A new record gets a row. A synthetic record gets one as well, under
// the key of its name and marked as derived; so one append does it all, and no other lane is touched. (A producer that
// uses a derived id as a name of its own is not recognised.)
//
// The rows of a batch are appended at the first free index. That is the fence: if another process has appended there
// meanwhile, nothing was decided; the process reads what is new and decides all again. So an append stands behind
// everything that it was decided by. If no record of the batch needs a row, a consistent read takes its place: a record
// whose fingerprint has changed since it got its row may seem to be a duplicate until that row is read. No later row can
// change the answer for a record that has found its own.
//
// # Files
//
//	decide.go   a batch: runs, what a record sees, the item of a decision
//	lane.go     a lane: load, catch up, append, begin the next epoch
//	memory.go   entries in memory, and what is evicted
//	table.go    the table of entries; held.go: of items
//	item.go     how items are written; storage.go: what an engine implements
//	sizing.go   how much memory a rate and a window need
//	verify.go   checks a log; explain.go: finds rows; survey.go: counts; scan.go: reads a log without a Ledger
//
// # Limits
//
//   - The entries that count have to fit into memory: at most 32 bytes each in large batches. A MemoryError says what is
//     missing, before the memory is exceeded.
//   - There are no entries for ever: a window is needed. It may be changed: a longer one counts for the entries that are
//     written then.
//   - A process that has decided about a record must append before the record's horizon has ended.
//   - Many records with one id and different contents make long searches, since each of them has a row under that id.
package logledger
