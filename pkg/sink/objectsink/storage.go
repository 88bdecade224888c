package objectsink

import "context"

// Storage stores the objects of a Sink. *Bucket implements it. Implementations are safe for concurrent use.
//
// Errors: the family dedupe.ErrTryAgain for failures that may pass; an error of the context; any other error means
// that settings or permissions are wrong. After an error of the first two kinds the call may take effect, also a
// moment later.
type Storage interface {
	// PutIfAbsent makes an object if its key is free, and reports whether it did. An existing object stays as it is.
	// If it is not known which of several attempts made the object, created is false.
	PutIfAbsent(ctx context.Context, key string, o Content) (created bool, err error)
	// Put makes or replaces an object.
	Put(ctx context.Context, key string, o Content) error
	// Head returns the metadata of an object, or fs.ErrNotExist. It finds every object that was made before the call.
	Head(ctx context.Context, key string) (metadata map[string]string, err error)
	// Get returns an object, or fs.ErrNotExist.
	Get(ctx context.Context, key string) (Content, error)
	// List returns keys that begin with prefix and sort after a text, ascending by their bytes. more says that there
	// are further keys. It finds every object that was made before the call.
	List(ctx context.Context, prefix, after string) (keys []string, more bool, err error)
}

// Content is the content of an object.
type Content struct {
	Body     []byte
	Type     string // the media type
	Metadata map[string]string
}
