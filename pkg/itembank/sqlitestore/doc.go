// Package sqlitestore keeps campaigns, items, claims and loads in one SQLite file. Several
// processes of one machine can use the file at once. It is the engine for a single machine,
// for development and for tests. It needs no server and no cgo.
//
//	store, err := sqlitestore.Create(ctx, "codes.db") // or Open, if the file must exist
//	...
//	defer store.Close()
//	bank := itembank.NewOperator(store)
//
// The file can also have the tables of package dedupe/sqlitestore.
//
// # Durability
//
// A write returns after it is synced to the disk (WAL, synchronous=FULL). So a claim that was returned survives a
// crash of the process or the system and a power cut, if the disk keeps what it reports as written.
//
// # Readers and writers
//
// Readers work on snapshots, and do not wait for writers. Writers take turns: in a process in the order in which they
// came, and between processes through a lock file beside the database (its name with .lock), so that a process that
// writes without pause cannot starve the others. The lock file serves fairness only; SQLite's own locks protect the
// data. So a program that does not know it, such as the sqlite3 shell, does no harm. The file stays after use. You can
// delete it while no process has the store open.
//
// # Backups
//
// `oncebox backup` copies the file while other processes write to it. Do not copy the file with other programs: the
// latest writes are only in the file with -wal beside it. To restore a backup, stop all processes first. If the file of
// an open store is replaced, the store refuses to write.
//
// # Limits
//
// The file must be on a local disk: SQLite's shared memory and locks do not work over network file systems. In a
// process that has the store open, only oncebox's engines may open and close the file, even for reading: by the rules
// of POSIX locks, any other close drops SQLite's locks.
package sqlitestore
