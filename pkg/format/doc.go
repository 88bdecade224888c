// Package format reads records: it finds what makes two records the same, and renames the copy of a synthetic
// duplicate. [JSON] is the format of records that are JSON objects, [Snowplow] that of enriched events, and [Raw] that
// of records of any bytes.
//
//	f, err := format.NewJSON(format.Options{IDPath: "event_id", Volatile: []string{"sent_at"}})
//	...
//	fields, err := f.Read(ctx, record)
//	...
//	key := format.KeyOf(fields.ID)
//	newID := format.DerivedID(fields.ID, fields.Fingerprint)
//	renamed, err := f.Rename(ctx, record, fields.ID, newID)
//
// The rest of this page is about JSON.
//
// # One scan
//
// One scan over the whole record decides whether it is JSON, which value each path leads to, what a rename replaces,
// and what the fingerprint leaves out. So these decisions always agree, also where a name occurs twice or has
// escapes. Where a path leads to several values, the first one in the record counts.
//
// # What is JSON
//
// A record is JSON by RFC 8259 that encoding/json accepts, with at most MaxDepth levels and an object at the top.
// Invalid UTF-8 in strings and names is allowed, as in encoding/json: the bytes stay unchanged and compare as bytes.
// The strings that identify a record must be Unicode, since stores keep them. An id with invalid UTF-8, or with half
// of a surrogate pair, is refused and not repaired: a repair would make different ids equal.
//
// # Bad records
//
// A record that can never be processed gives a *BadRecord. Its reason is one of a few fixed texts, which hold nothing
// from the record. The same record always gives the same reason.
//
// # Wrong settings
//
// Three functions help to explain a wrong setting. [LooksLike] says what a payload is that is not a record: gzip, TSV,
// a JSON array. [MemberNames] lists the members of a record, for a message about a wrong path. [Digest.DiffersOnlyIn]
// says in which one or two members two records of one id differ: such a member may belong into Volatile.
//
// # Limits
//
// Unicode is not normalised: strings that look alike may differ. An id is compared as it is written: the number 17 and
// the string "17" are the same id, and 17 and 17.0 are different ids.
package format
