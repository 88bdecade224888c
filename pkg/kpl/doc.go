// Package kpl opens and makes aggregated records of the Kinesis Producer
// Library (KPL): many user records in one Kinesis record.
//
//	var decoder kpl.Decoder // keep it: once warm it allocates nothing
//	...
//	records, aggregated, err := decoder.Decode(data)
//	switch {
//	case errors.Is(err, kpl.ErrPoison): // keep data whole, somewhere else
//	case !aggregated: // data itself is the record
//	default: // records[i] has the parent's sequence number and sub-sequence i
//	}
//
// # Format
//
// The four bytes F3 89 9A C2, a protobuf (proto2) message, and the message's
// 16-byte MD5, which is a checksum here and protects nothing. (Under
// GODEBUG=fips140=only it panics: such a program cannot read the format.)
// Source: aggregation-format.md of awslabs/amazon-kinesis-producer.
//
//	message AggregatedRecord {
//	  repeated string partition_key_table     = 1;
//	  repeated string explicit_hash_key_table = 2;
//	  repeated Record records                 = 3;
//	}
//	message Record {
//	  required uint64 partition_key_index     = 1; // from 0, in the table
//	  optional uint64 explicit_hash_key_index = 2; // from 0, in the table
//	  required bytes  data                    = 3;
//	  repeated Tag    tags                    = 4; // {1 key, 2 value}
//	}
//
// All user records share their parent's sequence number and arrival time. What
// tells them apart is the sub-sequence: the place in the list, from 0.
//
// # Plain records
//
// A record is plain, and delivered as it is, if it does not begin with the four
// bytes, has 20 bytes or fewer, or does not end with the MD5 of what is between.
// The Kinesis Client Library (KCL) draws the same line. So the empty message,
// which would fit into 20 bytes, is a plain record.
//
// # Poison
//
// A right MD5 says that a producer meant to write an aggregate. If its message
// then cannot be read, nobody can say how many user records it held, so none is
// delivered: the whole is ErrPoison, with what is wrong and at which byte.
// (Other libraries drop the rest silently, crash, deliver a wrong key or, as
// KCL does, hand out the aggregate as if it were a payload.) Poison is
//
//   - a field that ends after the message or after its user record, a varint
//     without end or of more than 64 bits, a field number of 0 or above 2^29-1;
//   - wire type 3, 4, 6 or 7 anywhere, known field or not: 3 and 4 are groups,
//     which no KPL has ever written;
//   - a field of the format, other than a tag, with another wire type than its
//     own. A protobuf library would skip it as unknown, and lose what it says;
//   - a user record without partition_key_index or without data;
//   - an index that is not in its table.
//
// Legal, whether a KPL writes it or not: unknown fields, which are skipped; tables
// behind the user records; varints longer than needed; a singular field given
// more than once, of which the last one counts, as protobuf says; empty data,
// empty keys; unused table entries; keys that are not UTF-8, which stay the
// bytes they are; and a good message without user records, which is an
// aggregate of none: there is nothing to deliver, and the parent is done. Tags
// are skipped like unknown fields, so what is in them is not looked at.
//
// An explicit hash key is that of the user record alone. That of the parent
// only says to which shard the KPL sent the aggregate, and never stands in for
// a missing one. Nor are user records left out because their hash key lies
// outside the shard's range, as KCL does: it happens after a resharding, the KPL
// then sends them again to their own shard, and one of the two is a duplicate
// like that of any other retry.
//
// # Aliasing
//
// Payloads and keys are parts of the input, not copies. They change when the
// input does, and they keep it in memory. The list belongs to the Decoder and is
// overwritten by its next Decode; what has to live longer is copied:
//
//	mine := slices.Clone(records) // the list, if the input stays as it is
//	data := bytes.Clone(records[0].Data) // the payload, if it does not
//
// Appending to a payload or a key copies it and leaves the input alone.
//
// # Sizes
//
// An aggregate costs 20 bytes more than what is in it, a table entry 2, a user
// record 6, an explicit hash key's index 2, and each number above 127 (a size or
// an index) a byte or two more. The limit of the Kinesis record, 1 MiB unless the
// stream allows 10, is the caller's to keep; Encoder.SizeWith tells in time.
//
// A warm Decoder allocates nothing. A cold one makes room for exactly the user
// records and keys that there are: 72 bytes for a user record and 24 for a key.
// The smallest user record has 6 bytes and the smallest key 2, so the worst a
// message can do is 12 bytes of memory for each of its own. Room for more than
// 65,536 user records or keys is given back at the next Decode.
package kpl
