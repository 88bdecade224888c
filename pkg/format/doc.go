// Package format reads records: it finds the values that make two records the same, and renames the copy of a
// synthetic duplicate. [JSON] is for records that are JSON objects, [Snowplow] for enriched events, and [Raw] for
// records of any bytes.
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
// One scan over the whole record decides whether it is JSON, which value each path leads to, which bytes a rename
// replaces, and which values the fingerprint leaves out. So these decisions always agree, even if a name occurs twice
// or has escapes. A record in which a member on the path of the id is there twice is bad: readers differ in which one they
// take. If another path leads to several values, the first one in the record counts.
//
// # What is JSON
//
// A record is JSON by RFC 8259 that encoding/json accepts, with at most MaxDepth levels and an object at the top.
// Invalid UTF-8 in strings and names is allowed, as in encoding/json: the bytes stay unchanged and are compared as
// bytes. The strings that identify a record must be Unicode, because stores keep them. An id with invalid UTF-8 or
// with half of a surrogate pair is refused, not repaired: a repair would make different ids equal.
//
// # Bad records
//
// A record that can never be processed gives a *BadRecord. Its reason is one of a few fixed texts, which contain
// nothing of the record. The same record always gives the same reason.
//
// # Wrong settings
//
// Three functions help to explain a wrong setting. [LooksLike] describes a payload that is not a record: gzip, TSV, a
// JSON array. [MemberNames] lists the members of a record, for a message about a wrong path. [Digest.DiffersOnlyIn]
// returns the one or two members in which two records of one id differ: such a member may belong into Volatile.
//
// # Limits
//
// Unicode is not normalized: strings that look alike may differ. An id is compared in its text form: the number 17
// and the string "17" are the same id, but 17 and 17.0 are different ids.
package format
