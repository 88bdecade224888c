// Package sqlitestore keeps entries, checkpoints and offline runs in one SQLite
// file that several processes of one machine may use at once. It is the ledger
// for a single node, for `oncebox dedupe` and for tests; it needs no server and
// no cgo.
//
//	store, err := sqlitestore.Create(ctx, "oncebox.db") // or Open, if it must exist
//	...
//	defer store.Close()
//
// # One file
//
// The tables of package itembank/sqlitestore may lie in the same file, and a
// process may have both engines open on it. What that package says of
// durability, of readers and writers, and of the file's place, holds here too:
// a write is answered after it is synced to the disk, writers take turns, and
// the file must lie on a local disk.
//
// # Batches
//
// The entries of a call are one transaction, so that they share the wait for
// the turn and for the disk: all of them are answered, or there is an error and
// nothing was put. Other writers wait meanwhile, about 10 microseconds an entry.
//
// # Growth
//
// SQLite has no TTL, and nothing here deletes entries: one that is over is
// replaced when its key comes again, else it stays. So a file grows with every
// new key, by about its texts and 80 bytes. No clock could sweep it safely, since
// the records' own times say when an entry is over, and those of a file that is
// deduplicated later are long past.
package sqlitestore
