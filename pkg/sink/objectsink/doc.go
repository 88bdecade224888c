// Package objectsink writes records into objects of S3, each record into one object, so that a reader of the bare prefix
// needs no manifest and no deduplication. Its level in package sinktest is "objects".
//
// The objects of a shard are a chain. The name of an object is the position that it begins behind, and a put that
// succeeds only while the name is free is its commit. The metadata of an object says which records it has handled. A
// writer that finds a name taken reads the object there, leaves out what it has handled, and goes on behind it
// (docs/adr/0023-object-sink.md).
//
//	PREFIX/scope=SCOPE/stream=ACCOUNT.REGION.STREAM/shard=SHARD/POSITION.ndjson.gz
//
// A [Sink] is a dedupe.ObjectSink over a [Storage], such as a [Bucket]. The event source mapping must process one batch
// of a shard at a time. [List] and [Verify] read the objects of a sink; docs/object-sink.md is for readers and operators.
//
// # Rights
//
// A Bucket needs s3:PutObject and s3:GetObject below the prefix, and s3:ListBucket.
package objectsink
