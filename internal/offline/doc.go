// Package offline deduplicates files: lines of JSON in, survivors out, each
// once, through the same ledger and the same rules as the Lambda function.
//
//	job := offline.Job{Inputs: inputs, Format: format.Options{IDPath: "id"}, Scope: "default",
//		Retention: dedupe.Retention{ForGood: true}, Store: store, Out: "out.ndjson", DeadLetters: "out.ndjson.dead.ndjson"}
//	report, err := job.Run(ctx)
//
// # Life of a run
//
//  1. Everything is checked, and the output is locked and looked at. Nothing
//     has been changed until here, and errors say so: ErrRefused.
//  2. The inputs are read once, for their digest. With the options it names
//     the run: a run of these inputs and options that did not finish goes on,
//     else a new one begins.
//  3. The run is recorded under an id of its own, before the ledger hears of a
//     record: the id is part of the records' owners, so that after a crash
//     each finds itself in the ledger and is a retry, not a copy.
//  4. Lines are read in batches, and each is decided, then written. About once a
//     second the files are synced, and then their sizes recorded. A crash between
//     any two of these leaves files that are longer than recorded: they are cut,
//     and what was not recorded is done again, with the same result; only that the
//     summary calls it retries.
//  5. The run is recorded as finished. From now on all of its records are
//     copies to any later run. One that was killed before anybody heard of its end
//     still has FILE.run: run again, it leaves its files and says what it did.
//
// # Owners and times
//
// A record's owner is "run/ID/FILE:LINE", or the text at the owner path. Its
// arrival is the beginning of its run, which the id holds, so that a resumed run
// has the same; or the time at the time path.
//
// With a window and a time path a batch ends before a record that may replace the
// entry by which an earlier one of the batch was decided, and each batch is
// recorded. Done again, the earlier one would meet the later one's entry, and be
// taken for its copy, or let pass as another record. So files in which the same id
// comes again within a batch, a second later or more, take longer.
//
// # Horizon
//
// Where the store deletes by the clock (DynamoDB's TTL), Retention.Horizon has to
// say how old a record may be when it is processed; an older one could miss the
// entry of what it is a copy of, so it is kept apart. A store that deletes nothing
// (SQLite) needs no horizon: at 0 no record is too old, and the window is exact.
//
// # Output and dead-letter file
//
// A file is written by one run at a time: FILE.lock is locked while it works,
// and FILE.run says which run it belongs to. Both are gone when it is finished. An
// output that is neither empty nor of the run that goes on is refused, as is one
// that is shorter than recorded, or longer than that of a run that has finished; if
// it is absent the run starts over, still under its id, so that nothing is missing.
//
// A stream such as stdout cannot be cut: a run that did not finish starts over
// under its id, and prints all of it again. The dead-letter file is then appended to.
//
// Two processes that run the same job at once to different outputs are one run
// to the ledger: both get all survivors.
package offline
