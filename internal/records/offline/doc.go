// Package offline deduplicates files: it reads one record a line and writes each unique record once, with the ledger
// and the rules of the Lambda function.
//
//	lines, err := offline.JSON(format.Options{IDPath: "id"})
//	...
//	job := offline.Job{
//		Inputs: inputs, Format: lines, Scope: "default",
//		Retention: dedupe.Retention{ForGood: true}, Store: store,
//		Out: "out.ndjson", DeadLetters: "out.ndjson.dead.ndjson",
//	}
//	report, err := job.Run(ctx)
//
// # Life of a run
//
//  1. Check everything, also whether the first lines can be processed (firstlines.go), and lock the output (prepare.go,
//     outputlock.go). If an error says ErrRefused, nothing was changed but stopped runs that Report.Closed lists.
//  2. Read the inputs once, for their digest (digest.go). Inputs and options identify the run: if FILE.run names a run
//     of the same inputs and options that did not finish, it continues; otherwise a new run begins. Other stopped runs
//     of the scope are closed (closing.go).
//  3. Save the run under an id of its own, before the ledger gets a record. The id is part of the records' owners.
//     After a crash each record finds its own entry, and so is a retry and not a copy.
//  4. With RenameAll, read the inputs and find the keys with two or more fingerprints (sharedkeys.go). A run that
//     continues does that again, with the same result.
//  5. Read the lines ahead and decode them on all processors (feed.go). Take them in batches, in order (read.go);
//     decide each batch and write its results (write.go).
//  6. About once a second, sync the files and then save their sizes (record.go). After a crash the files may be longer
//     than saved: the next run cuts them, and repeats what was not saved, with the same result and the same
//     counts. With an owner path, repeated records are counted as retries.
//  7. Save that the run is finished. From then on its records are originals, of which later runs find copies. If the
//     process ends before it can remove FILE.run, the next run with the same inputs leaves the files as they are and
//     reports what the first one did.
//
// # What is durable when
//
// A batch is at most 50,000 lines or 16 MiB. The ledger has its entries before the first of its results is written, and
// a SQLite ledger has synced them by then: they are one transaction. The progress that is saved covers only batches
// whose results are written and synced. So after a power cut, too, each survivor of a saved batch has its entry. Entries of a
// batch that was not saved may exist or not: its records are decided again, and find their own entry or put it. So
// a ledger needs one sync for each batch, a dozen for half a million records of 380 bytes, and nothing weaker. A
// smaller batch would make a SQLite ledger write more: each batch writes to nearly all pages of the index of new keys.
//
// # Owners and times
//
// A record's owner is "run/ID/FILE/LINE", or the text at the owner path. Its arrival is the start of its run, or the
// time at the time path. The start of a run is part of its id, so it stays the same when the run is resumed.
//
// With a window and a time path, a record may replace the entry by which an earlier record of the same batch was
// decided. If a crash repeated that batch, the earlier record would be decided by the later one's entry. So the batch
// ends before such a record, and every batch is saved. Files in which the same id comes again within a batch, a second
// or more later, take longer for that reason.
//
// # Horizon
//
// DynamoDB deletes rows by the clock. There, Retention.Horizon must say how old a record may be when it is processed.
// An older record is dead-lettered, because the entry of the record of which it is a copy may be gone. SQLite deletes
// nothing by itself. There, the horizon can be 0: no record is too old, and the window is exact. After `oncebox ledger
// compact` the ledger itself says which records are too old.
//
// # First lines
//
// If nearly all of the first lines are poison for one reason, an option or the input is wrong, and the job is refused
// with a NotRecordsError. A job that continues is not checked again.
//
// # Compressed inputs and outputs
//
// The first bytes of an input say whether it is gzip, Zstandard or not compressed (compression.go). The digest, the
// offsets and the lines refer to the unpacked content. So a run does not depend on how its inputs are compressed. A
// compressed output ends its gzip member or Zstandard frame before its size is saved. So the file can be cut there.
// A saved size never includes a part of an unfinished batch.
//
// # Upload, listing and preview
//
// With Upload, the output only holds the survivors until the run ends. Upload is called before the run is saved as
// finished, and again by the next run if the process ends in between. The file is removed after that.
//
// The listing (listing.go) is synced before the run is saved, and cut to the last line that is done. Preview is a store
// that answers as a ledger would and changes nothing (preview.go).
//
// # Output and dead-letter file
//
// One run at a time writes to a file. While it works, FILE.lock is locked. FILE.run says which unfinished run the file
// belongs to, and a copy of it stands beside the dead-letter file: no two unfinished runs have one. No run cuts a
// dead-letter file without that copy. These files are gone when the run is finished.
//
// These outputs are refused:
//   - a file that is not empty and does not belong to the run that continues;
//   - a file that is shorter than recorded, or that lacks what its closed run has saved;
//   - a file that is longer than recorded, if its run has finished.
//
// A stream such as stdout cannot be cut. The next run prints everything again. New dead letters are then appended to
// the dead-letter file.
//
// # Stopped runs
//
// A run that has stopped is closed at its saved progress by the first command that does not continue it
// (docs/adr/0043-stopped-runs.md). Until then, no other run or function relies on what the run has entered and not
// saved. While a run works, it saves its row at least every dedupe.BeatEvery (beats.go). If it was closed, its next
// save or put returns dedupe.ErrReplaced, and it cuts its files.
//
// # Replaced runs
//
// A SQLite ledger numbers the runs of a scope in the order in which they began. Job.Replaces undoes a run and all
// later ones (replace.go). One transaction takes their outputs out of the Manifest, deletes their entries, marks them
// as replaced, and saves the new run. So the undo happens whole or not at all, and a new run that is stopped
// continues like any other.
//
// The entries of a run say which run put them. Deleting the entries of the last runs leaves the ledger as it was
// before these runs, on two conditions: all earlier runs had finished or were closed by then, and no entry has ended or
// belongs to another owner. Otherwise the undo is refused.
//
// A replaced run may still be running. Each of its transactions checks whether the run was replaced, and fails if so.
//
// # Published outputs
//
// With Job.Publish the output has the id of the run in its name, and counts for readers from the moment at which the
// Manifest has it (publish.go). The run is recorded as finished before that: a run that is killed in between adds its
// output when it runs again. The Manifest is written from the history of the scope while no run can begin, end or
// be replaced. A ledger in memory has no history, so the Manifest names only its output.
//
// A Manifest belongs to one ledger and scope. A job is refused if the history of its scope lacks a run that the Manifest
// lists: without this check, a mistyped ledger would take all outputs away from readers.
//
// Two processes that run the same job at once, to different outputs, are two runs: together they write each survivor
// once.
package offline
