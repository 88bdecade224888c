// Package s3files reads and writes whole objects of S3 for commands: it lists them in the order of their keys, reads
// each one as it was found, and creates one unless it exists.
//
// An object is found with its ETag and size, and read with If-Match, so that one that was replaced in the meantime is an
// error and not a mixture. A reading that is cut off continues where it was (Range).
//
// An object is created with If-None-Match, and says in its metadata who created it. So creating it again after a crash
// finds that it is done. A large one is uploaded in parts: it exists when all of them are there.
package s3files
