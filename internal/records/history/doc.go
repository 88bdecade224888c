// Package history enters records in a ledger that another system has processed before. After that, a copy of such a
// record is a duplicate, from the first day of a function on.
//
// A Source yields the records: lines of JSON, rows of Parquet files, or any other records with ids, fingerprints and
// times. An import writes only entries, and one row with its progress.
//
// # Owners
//
// The owner of an entry is made from the record's id and fingerprint. So a record that is entered again finds its own
// entry, in whatever file it is and however often the import is repeated. No record of a stream has such an owner. So
// a copy that comes after the import is a natural duplicate.
//
// # Repeats
//
// An import saves its progress about once a second, under the digest of its source. If it runs again, it continues
// from there. Records that it had entered after the last save are counted as known. A source without a digest starts
// over, with the same result.
package history
