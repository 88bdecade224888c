package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// DefaultConcurrency is how many records a Store puts at the same time. A broken producer can make all its records
// poison, with thousands of them in one KPL aggregate, and S3 takes 20 to 50 ms for each.
const DefaultConcurrency = 32

// If a notifier fails, Put waits for it up to notifyTimeout once in notifyPause. So a queue that is down hardly slows
// Put.
const (
	notifyTimeout = 3 * time.Second
	notifyPause   = 30 * time.Second
)

var (
	errNoOwner = errors.New("dead-letter store: the record has no owner, of which the name of its object is made")

	// ErrNotifyPaused is reported for an object without a notification, because the notifier failed shortly before.
	ErrNotifyPaused = errors.New("the notifier failed less than 30 s ago and was not tried again")
)

// Objects is the storage of a Store; *Bucket and *Folder implement it. Implementations are safe for concurrent use.
type Objects interface {
	// Create makes an object if its name is free, and reports whether it did. An existing object stays unchanged. After
	// nil the object is durable. If it is unknown which call made the object, created is true.
	Create(ctx context.Context, name string, content []byte) (created bool, err error)
	// Read returns an object. The error is fs.ErrNotExist if the object does not exist.
	Read(ctx context.Context, name string) ([]byte, error)
	// Place returns the place of the object with a name.
	Place(name string) Place
}

// Place is the place of an object: in a bucket, or at a path.
type Place struct {
	Bucket string `json:"bucket,omitempty"`
	Key    string `json:"key,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Notification describes a new dead letter.
type Notification struct {
	Place
	Owner  string `json:"owner"`
	Reason string `json:"reason"`
}

// Notifier sends notifications; *Queue implements it.
type Notifier interface {
	Notify(ctx context.Context, n Notification) error
}

// Store stores records as objects. It is safe for concurrent use.
type Store struct {
	objects     Objects
	notifier    Notifier
	unsent      func(Notification, error)
	concurrency int
	now         func() time.Time
	mu          sync.Mutex
	pausedUntil time.Time
}

var _ dedupe.DeadLetterStore = (*Store)(nil)

// Option changes a default of a Store.
type Option func(*Store)

// WithNotifier sends a notification for each new object. A failed notification does not fail the record, which is
// stored anyway: the Store calls unsent, which must not be nil, to log it. Calls may be concurrent.
func WithNotifier(notifier Notifier, unsent func(Notification, error)) Option {
	return func(s *Store) { s.notifier, s.unsent = notifier, unsent }
}

// WithConcurrency sets how many records of a Put are stored at the same time, at least 1. The default is
// DefaultConcurrency.
func WithConcurrency(n int) Option {
	return func(s *Store) { s.concurrency = max(n, 1) }
}

// New makes a Store over objects.
func New(objects Objects, options ...Option) *Store {
	s := &Store{objects: objects, unsent: func(Notification, error) {}, concurrency: DefaultConcurrency, now: time.Now}
	for _, o := range options {
		o(s)
	}
	return s
}

// Put stores each record under a name that is made from its owner and its data. An object that exists already counts
// as stored; it keeps its first reason. stored counts the records that are certainly stored, from the first one on.
// After a failure Put begins at most one more record. It is safe to repeat a Put.
//
// Errors: the family dedupe.ErrTryAgain; an error of the context; any other error means that settings, permissions or
// the disk are wrong.
func (s *Store) Put(ctx context.Context, letters []dedupe.DeadLetter) (stored int, err error) {
	var g errgroup.Group
	g.SetLimit(s.concurrency)
	var failed atomic.Bool
	errs := make([]error, len(letters))
	for i := range letters {
		if failed.Load() {
			break // the caller repeats all records from the failed one on
		}
		g.Go(func() error {
			if errs[i] = s.put(ctx, letters[i]); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	for stored = range errs {
		if errs[stored] != nil {
			return stored, errs[stored]
		}
	}
	return len(letters), nil
}

func (s *Store) put(ctx context.Context, letter dedupe.DeadLetter) error {
	if letter.Owner == "" {
		return errNoOwner
	}
	content, err := Encode(letter)
	if err != nil {
		return err
	}
	name := Name(letter.Scope, letter.Owner, letter.Data)
	created, err := s.objects.Create(ctx, name, content)
	if err == nil && created && s.notifier != nil {
		s.notify(ctx, Notification{s.objects.Place(name), letter.Owner, letter.Reason})
	}
	return err
}

// Read returns a record by the name of its object. The error is fs.ErrNotExist if there is no such object, or an
// error of Put or Decode.
func (s *Store) Read(ctx context.Context, name string) (dedupe.DeadLetter, error) {
	content, err := s.objects.Read(ctx, name)
	if err != nil {
		return dedupe.DeadLetter{}, err
	}
	return Decode(content)
}

func (s *Store) notify(ctx context.Context, n Notification) {
	if s.paused() {
		s.unsent(n, ErrNotifyPaused)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	if err := s.notifier.Notify(ctx, n); err != nil {
		s.pause()
		s.unsent(n, err)
	}
}

func (s *Store) paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().Before(s.pausedUntil)
}

func (s *Store) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pausedUntil = s.now().Add(notifyPause)
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9-]`)

// maxReadable is how many bytes of an owner are in a name. A name stays well below the 255 bytes of a file name and,
// with a prefix, below the 1,024 bytes of a key.
const maxReadable = 150

// Name returns the name of the object of a record. It begins with the owner, in characters that every file system and
// S3 accept, so that names sort by stream and shard. It ends with the first 128 bits of the SHA-256 of scope, owner
// and data, which make it unique, also in a file system that ignores case. The scope is part of it because a stream
// may be read in two scopes, and a record that is done in one is not done in the other. The data is part of it
// because two records can share an owner: if Lambda opens a KPL aggregate, it gives all its records one sequence
// number. A batch that Lambda gave up has no scope.
func Name(scope, owner string, data []byte) string {
	h := sha256.New()
	if scope != "" {
		h.Write(binary.AppendUvarint(nil, uint64(len(scope))))
		h.Write([]byte(scope))
	}
	h.Write(binary.AppendUvarint(nil, uint64(len(owner))))
	h.Write([]byte(owner))
	h.Write(data)
	readable := unsafeInNames.ReplaceAllString(owner, "_")
	return readable[:min(len(readable), maxReadable)] + "-" + hex.EncodeToString(h.Sum(nil)[:16]) + ".json"
}
