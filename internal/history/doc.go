// Package history enters records that were processed before, elsewhere, in a ledger. After that a copy of one of them
// is a duplicate, from the first day of a function on.
//
// A Source has the records: lines of JSON, rows of Parquet files, or anything else that has ids, fingerprints and times.
// Nothing is written but entries, and one row that says how far the import is.
//
// # Owners
//
// The owner of an entry is made of the record's id and fingerprint. So a record that is entered again finds its
// own entry, whatever file it is in and however often the import is repeated. No record of a stream has such an owner:
// the copy that comes after the import is a natural duplicate.
//
// # Repeats
//
// An import says how far it is, about once a second, under the digest of its source. If it is started again, it goes on
// there. What it had entered since then it finds as known. A source without a digest starts over, with the same result.
package history
