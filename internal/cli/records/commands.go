// Package records holds the commands of records in files, and of the entries of records.
package records

// RecordCommands work on records in files, and on the entries of records.
type RecordCommands struct {
	Dedupe dedupeCommand `cmd:"" help:"Remove duplicates from NDJSON files."`
	Ledger ledgerCommand `cmd:"" help:"Work on the entries of records."`
	Cost   costCommand   `cmd:"" help:"Compare what the ledgers of records cost for a stream."`
}

// KPLCommands decode and encode records of the Kinesis Producer Library.
type KPLCommands struct {
	Kpl kplCommand `cmd:"" help:"Decode and encode aggregated records of the Kinesis Producer Library."`
}
