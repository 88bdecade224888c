// Package logledger is a ledger for very high rates. It keeps a log instead of one row for each key.
//
//	ledger, err := logledger.New(dynamostore.NewLog(client, "dedupe-table"), logledger.Options{})
//
// A conditional put for each record costs one write unit for each record. This ledger appends the new entries of a
// batch to a log, about 35 entries for each write unit. Each process has the entries that count in memory.
// docs/ledgers.md says for which rates this is cheaper.
//
// # The log
//
// A scope has a fixed number of lanes. The key of a record decides its lane. Each lane has a log, which is divided
// into epochs. An epoch begins with a chain row (Epoch), which is kept for ever. Its items follow, with indexes from
// 0. The last item is its seal. An item has a header, and one row of 26 bytes for each new entry:
//
//	12 bytes of the key
//	8 bytes of the content: a hash of the whole key and the fingerprint
//	6 bytes of the owner: its tag
//
// # Deciding
//
// A record is compared with the rows under its key that count: those whose item has an arrival at most the window
// away from the record's, on either side. dedupe.Seen has the rule. A new record gets a row. A synthetic record gets
// one too, under the key of its own id and marked as derived. So one append is enough, and only one lane is changed.
// (If a producer uses a derived id as its own id, the two are not compared.)
//
// The rows of a batch are appended at the first free index. This is the fence: if another process has appended there
// meanwhile, the decision is void. The process then reads the new items and decides all again. So an append always
// follows directly after the last item on which its decision was based. If no record of the batch needs a row, a
// consistent read takes the place of the append: a record whose fingerprint has changed since it got its row may look
// like a duplicate until that row is read. A record that has found its own row needs no read: no later row can change
// its answer.
//
// # Files
//
//	decide.go   a batch: runs, the search for a record's rows, the item of a decision
//	lane.go     a lane: load, catch up, append, begin the next epoch
//	memory.go   entries in memory, and what is evicted
//	table.go    the table of entries; held.go: of items
//	item.go     how items are written; storage.go: what an engine implements
//	sizing.go   how much memory a rate and a window need
//	verify.go   checks a log; explain.go: finds rows; survey.go: counts; scan.go: reads a log without a Ledger
//
// # Limits
//
//   - The entries that count must fit into memory: at most 32 bytes each in large batches. If they do not fit, a
//     MemoryError has the numbers, and the memory is not exceeded.
//   - Entries cannot be kept for ever: a window is needed. The window may be changed. A longer window counts only for
//     entries that are written after the change.
//   - A process that has decided about a record must append before the record's horizon ends.
//   - Many records with one id and different contents make searches slow, because each of them has a row under that id.
package logledger
