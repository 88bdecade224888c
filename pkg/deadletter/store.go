package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// DefaultConcurrency is how many records are kept at a time: a producer that breaks
// may make poison of all its records, thousands in a KPL aggregate, and S3 takes some
// 20 to 50 ms for each.
const DefaultConcurrency = 32

// A notifier that fails costs time: notifyTimeout once in notifyPause, so that records
// are kept at nearly full speed while the queue is down.
const (
	notifyTimeout = 3 * time.Second
	notifyPause   = 30 * time.Second
)

var (
	errNoOwner = errors.New("failure store: a record without owner cannot be kept: all such would have one name")

	// ErrNotifyPaused is reported for an object whose notifier was not notified because
	// the notifier failed a moment ago.
	ErrNotifyPaused = errors.New("the notifier failed less than 30 s ago and was not tried again")
)

// Objects is where a Store puts its objects; *Bucket and *Folder are. They are
// safe for concurrent use.
type Objects interface {
	// Create makes an object if its name is free, and says whether it did; one
	// that is there stays as it is. After nil the object will last. If it is not
	// known who made it, created is true.
	Create(ctx context.Context, name string, content []byte) (created bool, err error)
	// Read returns an object; one that is not there is fs.ErrNotExist.
	Read(ctx context.Context, name string) ([]byte, error)
	// Place says where the object of a name is.
	Place(name string) Place
}

// Place is where an object is: in a bucket, or at a path.
type Place struct {
	Bucket string `json:"bucket,omitempty"`
	Key    string `json:"key,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Notification tells of a new object.
type Notification struct {
	Place
	Owner  string `json:"owner"`
	Reason string `json:"reason"`
}

// Notifier tells others of new objects; *Queue is one.
type Notifier interface {
	Notify(ctx context.Context, k Notification) error
}

// Store keeps records as objects. It is safe for concurrent use.
type Store struct {
	objects     Objects
	notifier    Notifier
	unsent      func(Notification, error)
	concurrency int
	now         func() time.Time
	mu          sync.Mutex
	pausedTil   time.Time
}

var _ dedupe.DeadLetterStore = (*Store)(nil)

// Option changes a Store from its defaults.
type Option func(*Store)

// WithNotifier notifications a notifier for new objects. One that cannot be notified does not fail
// the record, which is kept all the same; unsent, never nil, is told: a log.
// Calls may be concurrent.
func WithNotifier(notifier Notifier, unsent func(Notification, error)) Option {
	return func(s *Store) { s.notifier, s.unsent = notifier, unsent }
}

// WithConcurrency sets how many records of a Put are kept at a time, at least one;
// DefaultConcurrency without it.
func WithConcurrency(n int) Option {
	return func(s *Store) { s.concurrency = max(n, 1) }
}

// New makes a store of objects.
func New(objects Objects, options ...Option) *Store {
	s := &Store{objects: objects, unsent: func(Notification, error) {}, concurrency: DefaultConcurrency, now: time.Now}
	for _, o := range options {
		o(s)
	}
	return s
}

// Put stores each record under the name of its owner. If one is there already, that
// is it, with the reason it was kept for first. After a failure it begins one more at most.
// Errors: the family dedupe.ErrTryAgain; else settings, rights or disk are wrong;
// the context's own.
func (s *Store) Put(ctx context.Context, failures []dedupe.DeadLetter) (kept int, err error) {
	var g errgroup.Group
	g.SetLimit(s.concurrency)
	var failed atomic.Bool
	errs := make([]error, len(failures))
	for i := range failures {
		if failed.Load() {
			break // those that are left come after one that failed
		}
		g.Go(func() error {
			if errs[i] = s.keep(ctx, failures[i]); errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in errs
	for kept = range errs {
		if errs[kept] != nil {
			return kept, errs[kept]
		}
	}
	return len(failures), nil
}

func (s *Store) keep(ctx context.Context, f dedupe.DeadLetter) error {
	if f.Owner == "" {
		return errNoOwner
	}
	content, err := Encode(f)
	if err != nil {
		return err
	}
	name := Name(f.Owner)
	created, err := s.objects.Create(ctx, name, content)
	if err == nil && created && s.notifier != nil {
		s.notify(ctx, Notification{s.objects.Place(name), f.Owner, f.Reason})
	}
	return err
}

// Read reads a record back, by the name of its object. One that is not there is
// fs.ErrNotExist; other errors are as of Put and Decode.
func (s *Store) Read(ctx context.Context, name string) (dedupe.DeadLetter, error) {
	content, err := s.objects.Read(ctx, name)
	if err != nil {
		return dedupe.DeadLetter{}, err
	}
	return Decode(content)
}

func (s *Store) notify(ctx context.Context, k Notification) {
	if s.paused() {
		s.unsent(k, ErrNotifyPaused)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	if err := s.notifier.Notify(ctx, k); err != nil {
		s.pause()
		s.unsent(k, err)
	}
}

func (s *Store) paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().Before(s.pausedTil)
}

func (s *Store) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pausedTil = s.now().Add(notifyPause)
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9-]`)

// maxReadable is how much of an owner a name shows: a name stays well below the
// 255 bytes of a file name, and below a key's 1,024 with a prefix.
const maxReadable = 150

// Name names the object of an owner. It begins with the owner as far as letters
// go that every file system and S3 take, so that names sort by stream and shard;
// the first 128 bits of the owner's SHA-256 tell owners apart, also where file
// names ignore case.
func Name(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	readable := unsafeInNames.ReplaceAllString(owner, "_")
	return readable[:min(len(readable), maxReadable)] + "-" + hex.EncodeToString(sum[:16]) + ".json"
}
