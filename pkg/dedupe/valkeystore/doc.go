// Package valkeystore is a ledger of package dedupe on Valkey or Redis, for high rates. It stores entries only: acks and
// consumers stay in a dedupe.Store, such as that of package dynamostore.
//
// # What it loses
//
// Replication of Valkey is asynchronous. A failover loses the entries that the new primary has not received, usually
// those of the last second. If a copy or a retry of their records comes, it is delivered again. No record is lost,
// because a missing entry never makes a record a duplicate. This holds as long as only one primary answers at a time,
// and servers that are being changed do not lose entries one after the other. Eviction, a flush, or a restart without
// persistence lose all entries in the same way. A server that evicts is refused. docs/ledgers.md says how to
// lose fewer entries.
//
// # Rows
//
// The rows of a key are in a hash for each bucket and slice of time:
//
//	{oncebox:SCOPE:GROUP}SERVERS.BUCKETS.BUCKET.SLICE
//
// The field is the 16 bytes of the key. The value has 14 bytes for each row: 8 of the content, a hash of key and
// fingerprint, and 6 of the owner, of which one bit says that the record has a derived id. One call of a script
// enters the records of a group, in order, and compares the owners. So a record needs one call, whatever its answer
// is, and a repeated call finds it.
//
// A hash of about 100 keys takes the least memory: 38 bytes for each key in total. That needs one bucket for each 100
// keys of a slice. A slice is as long as the window, or as the horizon if that is shorter. A server stores a hash in
// the compact form up to its setting hash-max-listpack-entries, 512 by default. In larger hashes a key takes 75 bytes
// or more.
//
// A record with a derived id has its row under the key of its own id. So if a producer uses a derived id as its own
// id, the two records are not compared.
package valkeystore
