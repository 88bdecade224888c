// Package kpl opens and makes aggregated records of the Kinesis Producer Library (KPL): many user records in one
// Kinesis record.
//
//	var decoder kpl.Decoder // keep it: a warm Decoder allocates nothing
//	...
//	records, aggregated, err := decoder.Decode(data)
//	switch {
//	case errors.Is(err, kpl.ErrPoison): // store data whole, as a dead letter
//	case !aggregated: // data itself is the record
//	default: // records[i] has the parent's sequence number and sub-sequence i
//	}
//
// # Format
//
// An aggregate is the four bytes F3 89 9A C2, a protobuf (proto2) message, and the 16-byte MD5 of the message. The
// MD5 is a checksum and protects nothing. (Under GODEBUG=fips140=only it panics: such a program cannot read the
// format.) Source: aggregation-format.md of awslabs/amazon-kinesis-producer.
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
// All user records share the sequence number and the arrival time of their parent. The sub-sequence distinguishes them:
// the index in the list, from 0.
//
// # Plain records
//
// A record is plain, and is delivered unchanged, in each of these cases:
//
//   - it does not begin with the four bytes;
//   - it has 20 bytes or fewer;
//   - it does not end with the MD5 of the bytes between.
//
// The Kinesis Client Library (KCL) uses the same rule. So the empty message, which would fit into 20 bytes, is a plain
// record.
//
// # Poison
//
// A correct MD5 shows that a producer wanted to write an aggregate. If its message cannot be read, the number of its
// user records is unknown. So none of them is delivered: the whole record is ErrPoison, with the fault and its byte.
// (Other libraries drop the rest silently, crash, deliver a wrong key or, as KCL does, deliver the aggregate as if it
// were a payload.) These faults are poison:
//
//   - a field that ends after the message or after its user record, a varint without an end or of more than 64 bits, a
//     field number of 0 or above 2^29-1;
//   - wire type 3, 4, 6 or 7, in a known field or another one. Types 3 and 4 are groups, which no KPL has ever written;
//   - a field of the format, other than a tag, with a wrong wire type. A protobuf library would skip it as unknown, and
//     lose its value;
//   - a user record without partition_key_index or without data;
//   - an index that is not in its table.
//
// These are legal, whether a KPL writes them or not:
//
//   - unknown fields, which are skipped;
//   - tables after the user records;
//   - varints that are longer than necessary;
//   - a singular field that occurs more than once: the last one counts, as in protobuf;
//   - empty data, empty keys, and unused table entries;
//   - keys that are not UTF-8: their bytes stay unchanged;
//   - a message without user records: an aggregate of none. There is nothing to deliver, and the parent is done.
//
// Tags are skipped like unknown fields, so their content is not checked.
//
// The explicit hash key belongs to the user record. The explicit hash key of the parent only says to which shard the
// KPL sent the aggregate, and never replaces a missing one. KCL drops an aggregate whole if the hash key of one of its
// user records is outside the range of the shard; this package does not. Such aggregates occur after a resharding: the
// KPL then sends the records again to their own shard, and one of the two is a duplicate like that of any other retry.
//
// # Aliasing
//
// Payloads and keys are parts of the input, not copies. They change when the input does, and they keep it in memory.
// The list belongs to the Decoder, and the next Decode overwrites it. Copy what has to live longer:
//
//	mine := slices.Clone(records)        // the list, if the input does not change
//	data := bytes.Clone(records[0].Data) // the payload, if it does
//
// Appending to a payload or a key copies it and does not change the input.
//
// # Sizes
//
// An aggregate costs 20 bytes more than its content, a table entry 2, a user record 6, the index of an explicit hash
// key 2, and each number above 127 (a size or an index) one or two more. The caller keeps the limit of a Kinesis
// record, which is 1 MiB by default and 10 MiB at most: Encoder.SizeWith returns the size before a record is added.
//
// A warm Decoder allocates nothing. A cold one allocates memory for exactly the user records and keys of the aggregate:
// 72 bytes for a user record and 24 for a key. The smallest user record has 6 bytes and the smallest key has 2, so a
// message can cause at most 12 bytes of memory for each of its own. A Decoder releases the memory for more than 65,536
// user records or keys at the next Decode. Decoder.Most limits them before memory is taken.
package kpl
