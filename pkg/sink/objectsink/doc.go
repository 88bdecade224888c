// Package objectsink writes records into objects of S3, each record into one object. So a reader of the prefix needs
// no manifest and no deduplication. Its level in package sinktest is "objects".
//
// The objects of a shard form a chain. The name of an object is the position after which it begins. It is committed by
// a put that succeeds only if the name is free. The metadata of an object says which records it has handled. A writer
// that finds a name taken reads the existing object, leaves out the records that it has handled, and continues after it
// (docs/adr/0025-levels-of-sinks.md).
//
//	PREFIX/scope=SCOPE/stream=ACCOUNT.REGION.STREAM/shard=SHARD/POSITION.ndjson.gz
//
// A [Sink] is a dedupe.ObjectSink over a [Storage], such as a [Bucket]. The event source mapping must process one batch
// of a shard at a time. [List] and [Verify] read the objects of a sink; docs/sinks.md is for readers and operators.
//
// # Rights
//
// A Bucket needs s3:PutObject and s3:GetObject below the prefix, and s3:ListBucket.
package objectsink
