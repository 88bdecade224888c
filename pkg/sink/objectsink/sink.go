package objectsink

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Options are the settings of a Sink. The zero value has the defaults.
type Options struct {
	Encoding                // default: NDJSON, Gzip
	ObjectSize int64        // bytes, uncompressed, before the next object is begun; default DefaultObjectSize
	HintEvery  int          // number of objects of a shard between two hints; default DefaultHintEvery
	Clock      dedupe.Clock // real time by default; tests set it
}

// Sink writes records into objects. It is safe for concurrent use.
type Sink struct {
	storage Storage
	options Options

	mu      sync.Mutex
	layouts map[string]bool // the folders of streams that are known to have this encoding
	shards  map[dedupe.ChainKey]shardMemory
	objects map[string]*Object // by key; objects never change
}

var _ dedupe.ObjectSink = (*Sink)(nil)

// DefaultHintEvery is how many objects a shard gets before the hint is written again. A container that starts lists the
// objects after the hint, up to 1,000 in one request.
const DefaultHintEvery = 50

// shardMemory is a Sink's memory of a shard.
type shardMemory struct {
	tip       *Object
	at        time.Time // when the tip was last known to exist
	sinceHint int       // number of objects that a reader of the hint has to list
}

const (
	// memoryLife is how long the last object of a shard is remembered. It is short: if an operator moves objects a
	// day after they were made, none of them is still remembered.
	memoryLife = 15 * time.Minute
	// mostObjects is the largest number of objects that a Sink remembers, at about 300 bytes each.
	mostObjects = 10_000
)

// New makes a Sink on a storage. It sends no request.
func New(storage Storage, o Options) (*Sink, error) {
	o.Format, o.Compression = cmp.Or(o.Format, NDJSON), cmp.Or(o.Compression, Gzip)
	o.ObjectSize, o.HintEvery = cmp.Or(o.ObjectSize, DefaultObjectSize), cmp.Or(o.HintEvery, DefaultHintEvery)
	o.Clock = o.Clock.OrReal()
	if !o.known() || o.ObjectSize < 0 {
		return nil, fmt.Errorf("object sink: format %q, compression %q or object size %d is not known",
			o.Format, o.Compression, o.ObjectSize)
	}
	return &Sink{
		storage: storage, options: o, layouts: map[string]bool{}, shards: map[dedupe.ChainKey]shardMemory{},
		objects: map[string]*Object{},
	}, nil
}

// Check refuses a record that cannot be a line.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error {
	_, err := s.options.line(o.Data)
	return err
}

// Open implements dedupe.ObjectSink. If all records are after everything that this Sink remembers of the shard, it
// sends no request: the first Commit finds objects that other writers have written meanwhile.
func (s *Sink) Open(ctx context.Context, key dedupe.ChainKey, first, last string) (dedupe.Chain, error) {
	if err := s.checkLayout(ctx, key, false); err != nil {
		return nil, err
	}
	tip, err := s.tip(ctx, key)
	if err != nil {
		return nil, err
	}
	c := &chain{Sink: s, key: key, tip: tip}
	if dedupe.CompareSequence(first, tip.end.sequence) > 0 {
		return c, nil
	}
	found, err := s.reaching(ctx, key, tip, first, last)
	for _, o := range found {
		c.found.add(o.First, o.Last)
	}
	return c, err
}

// CommitLetter implements dedupe.ObjectSink.
func (s *Sink) CommitLetter(
	ctx context.Context, key dedupe.ChainKey, letter string, outputs []dedupe.Output,
) (created bool, err error) {
	if err := s.checkLayout(ctx, key, true); err != nil {
		return false, err
	}
	o := &Object{Writer: rand.Text(), Records: len(outputs)}
	body, err := s.encode(o, outputs)
	if err != nil {
		return false, err
	}
	at := letterKey(key, letter, s.options.Extension())
	if created, err = s.storage.PutIfAbsent(ctx, at, body); created || err != nil {
		return created, err
	}
	m, err := s.storage.Head(ctx, at)
	return m[metaWriter] == o.Writer, err
}

// encode makes the content of an object.
func (s *Sink) encode(o *Object, outputs []dedupe.Output) (c Content, err error) {
	c.Type = s.options.mediaType()
	if c.Body, o.Bytes, err = s.options.encode(outputs); err != nil {
		return c, fmt.Errorf("object sink: %w", err)
	}
	c.Metadata = o.metadata()
	return c, nil
}

// layout is the encoding of the objects of a stream. It never changes: with two encodings, two objects with different
// names could be committed at one position.
type layout struct {
	Format    int    `json:"format"`
	Extension string `json:"extension"`
}

const layoutFormat = 1

// ErrLayout says that the objects of a stream have another encoding than the settings ask for, or are of another version
// of oncebox.
var ErrLayout = errors.New("object sink: the objects of this stream have another format or compression")

// checkLayout checks, once, that the objects of a stream have this Sink's encoding. The first object of the stream
// decides it: with first set, a layout that does not exist is written. So a wrong setting with which no object could be
// written can still be corrected.
func (s *Sink) checkLayout(ctx context.Context, key dedupe.ChainKey, first bool) error {
	folder := streamFolder(key)
	s.mu.Lock()
	checked := s.layouts[folder]
	s.mu.Unlock()
	if checked {
		return nil
	}
	mine := layout{layoutFormat, s.options.Extension()}
	there, err := s.readLayout(ctx, folder)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && !first:
		return nil
	case missing:
		there, err = s.putLayout(ctx, folder, mine)
	}
	if err != nil {
		return err
	}
	if there != mine {
		return fmt.Errorf("%w: they are %q of format %d, and this version writes %q of format %d; use the version and the "+
			"settings that made them, or another prefix or scope", ErrLayout, there.Extension, there.Format, mine.Extension, mine.Format)
	}
	s.mu.Lock()
	s.layouts[folder] = true
	s.mu.Unlock()
	return nil
}

// putLayout writes a layout, or reads the one that another Sink has written meanwhile.
func (s *Sink) putLayout(ctx context.Context, folder string, l layout) (layout, error) {
	text, _ := json.Marshal(l) // cannot fail: it has a number and a text
	created, err := s.storage.PutIfAbsent(ctx, folder+layoutName, Content{Body: text, Type: "application/json"})
	if created || err != nil {
		return l, err
	}
	return s.readLayout(ctx, folder)
}

func (s *Sink) readLayout(ctx context.Context, folder string) (l layout, err error) {
	c, err := s.storage.Get(ctx, folder+layoutName)
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(c.Body, &l); err != nil {
		return l, fmt.Errorf("object sink: %s%s: %w", folder, layoutName, err)
	}
	return l, nil
}
