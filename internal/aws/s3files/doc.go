// Package s3files reads and writes whole objects of S3 for commands. It lists objects in the order of their keys,
// reads each object as it was listed, and creates an object unless it exists.
//
// An object is found with its ETag and size, and read with If-Match. So an object that was replaced in the meantime
// gives an error and not a mixture. A reading that is cut off continues at the same byte (Range).
//
// An object is created with If-None-Match, and its metadata names the run that created it. So a repeated creation
// after a crash finds that the object is done. A large object is uploaded in parts, and exists only when all parts
// have been uploaded.
package s3files
