// Package sqlitestore keeps campaigns, banks, claims and loads in one SQLite
// file that several processes of one machine may use at once. It is the engine
// for a single node, for development and for tests; it needs no server and no cgo.
//
//	store, err := sqlitestore.Create(ctx, "codes.db") // or Open, if it must exist
//	...
//	defer store.Close()
//	bank := itembank.New(store)
//
// The file may hold the tables of package dedupe/sqlitestore as well.
//
// # Durability
//
// A write is answered after it is synced to the disk (WAL, synchronous=FULL):
// a claim that was answered survives a crash of the process, of the system, and
// a power cut, as far as the disk keeps what it said it kept.
//
// # Readers and writers
//
// Readers work on snapshots and wait for nobody. Writers take turns: in a
// process in the order in which they came, and between processes through lock
// files beside the database (its name with .lock0 to .lock4), so that a process
// that writes without pause cannot starve the others. The locks serve fairness
// only: correctness rests on SQLite's own, so a program without them, such as
// the sqlite3 shell, does no harm. They are not removed after use; while no
// process has the store open they may be.
//
// # Limits
//
// The file must lie on a local disk: SQLite's shared memory and locks do not
// work over network file systems. Nothing in the process but oncebox's engines,
// of which several may, may open and close the file, not even for reading: by
// the rules of POSIX locks that drops SQLite's. To restore a backup, stop all processes; a file that was replaced
// under a running one refuses its writes.
package sqlitestore
