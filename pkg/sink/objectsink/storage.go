package objectsink

import "context"

// Storage is where a Sink keeps its objects. *Bucket is one. Implementations are safe for concurrent use.
//
// Errors: the family dedupe.ErrTryAgain for what may pass by itself; an error of the context; any other error means
// that settings or rights are wrong. After an error of the first two kinds the call may have had its effect, now or a
// moment later.
type Storage interface {
	// PutIfAbsent makes an object if its key is free, and reports whether it did. An object that is there stays as it is.
	// If it is not known which of several attempts made the object, created is false.
	PutIfAbsent(ctx context.Context, key string, o Content) (created bool, err error)
	// Put makes or replaces an object.
	Put(ctx context.Context, key string, o Content) error
	// Head returns the metadata of an object. Without the object the error is fs.ErrNotExist. It shows every object that
	// was made before the call.
	Head(ctx context.Context, key string) (metadata map[string]string, err error)
	// Get returns an object. Without the object the error is fs.ErrNotExist.
	Get(ctx context.Context, key string) (Content, error)
	// List returns keys that begin with a prefix and sort behind a text as bytes, ascending. more says that there are
	// further ones. It shows every object that was made before the call.
	List(ctx context.Context, prefix, after string) (keys []string, more bool, err error)
}

// Content is what an object holds.
type Content struct {
	Body     []byte
	Type     string // the media type
	Metadata map[string]string
}
