// Package format reads records: what makes two of them the same, and how the
// copy of a synthetic duplicate is renamed. JSON is the format of records that
// are JSON objects.
//
//	f, err := format.NewJSON(format.Options{IDPath: "event_id", Volatile: []string{"sent_at"}})
//	...
//	fields, err := f.Read(record)
//	...
//	key := format.KeyOf(fields.ID)
//	newID := format.DerivedID(fields.ID, fields.Fingerprint)
//	renamed, err := f.Rename(record, fields.ID, newID)
//
// # One reading
//
// One scan over the whole record says whether it is JSON, where each path leads,
// what a rename replaces and what the fingerprint leaves out. So no two of these
// can disagree, whatever names occur twice or are written with escapes. Where a
// path leads to several values the first one in the record is meant, everywhere.
//
// # What is JSON
//
// What RFC 8259 says and encoding/json accepts, at most MaxDepth deep, with an
// object at the top. Bytes that are not UTF-8 may stand in strings and names,
// as encoding/json allows: they stay as they are and compare as bytes. The
// texts that identify a record, which stores keep, must be Unicode: an id with
// other bytes, or with half of a surrogate pair, is bad rather than repaired,
// since repair makes different ids one.
//
// # Bad records
//
// A record that can never be processed gives a *BadRecord. Its reason is one of
// a few fixed texts, without anything from the record, and the same record
// always gives the same one.
//
// # Not promised
//
// That texts which look alike are equal: Unicode is not normalised. That an id
// written as a number is told from the same digits in a string: both are the
// id 17. That 17 and 17.0 are one id: a number is an id as it is written.
package format
