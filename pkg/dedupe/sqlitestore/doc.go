// Package sqlitestore is the engine of package dedupe on SQLite. One file holds entries, acks, consumers and
// offline runs, and several processes of one machine may use it at once. It needs no server and no cgo. It is for a
// single node, for `oncebox dedupe` and for tests.
//
//	store, err := sqlitestore.Create(ctx, "oncebox.db") // or Open, if the file must exist
//	...
//	defer store.Close()
//
// # One file
//
// The tables of package itembank/sqlitestore may be in the same file. A process may open the file with both engines.
// That package describes durability, readers and writers, and the place of the file. The same is true here: a write
// returns after it is synced to the disk, writers take turns, and the file must be on a local disk.
//
// # Batches
//
// The entries of one call are one transaction. They wait once for their turn and for the disk. If a call fails, no
// entry was put. Other writers wait meanwhile, about 5 microseconds for each entry.
//
// # Growth
//
// SQLite has no TTL. An entry past its purge time is replaced when its key comes again; otherwise it stays until
// Store.Compact deletes it. So the file grows with every new key, by the bytes of its texts and about 80 more. Deleting
// by the clock would not be safe: the arrivals of the records decide whether an entry counts, and a file that is
// deduplicated later may have old arrivals. After Store.Compact such records are Forgotten, and never new.
// Store.ReplaceRuns deletes the entries of undone runs.
package sqlitestore
