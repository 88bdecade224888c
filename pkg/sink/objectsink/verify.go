package objectsink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Entry is one object below the prefix of a Sink.
type Entry struct {
	Key   string // below the prefix
	Chain dedupe.ChainKey
	// Object is its metadata. For an object of a chain all of it is set. For the object of a dead letter, Name is the
	// letter's name, and there are no positions.
	Object
	Letter bool
}

// Filter selects the shards whose objects are read. An empty field selects all.
type Filter struct{ Scope, Stream, Shard string }

func (f Filter) matches(k dedupe.ChainKey) bool {
	return (f.Scope == "" || f.Scope == k.Scope) && (f.Stream == "" || f.Stream == k.Stream.Name) &&
		(f.Shard == "" || f.Shard == k.Shard)
}

// List calls visit with every object of data: shard by shard, in the order of the chain, followed by the objects of
// dead letters. An object that no Sink made, or that cannot be read, comes with an error and its Key and Chain. List
// stops at the first error of visit or of the storage.
func List(ctx context.Context, storage Storage, f Filter, visit func(Entry, error) error) error {
	for after := ""; ; {
		keys, more, err := storage.List(ctx, "scope=", after)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := listOne(ctx, storage, f, key, visit); err != nil {
				return err
			}
		}
		if !more || len(keys) == 0 {
			return nil
		}
		after = keys[len(keys)-1]
	}
}

func listOne(ctx context.Context, storage Storage, f Filter, key string, visit func(Entry, error) error) error {
	chain, file, err := parseKey(key)
	e := Entry{Key: key, Chain: chain}
	switch {
	case strings.HasPrefix(file, "_"), err == nil && !f.matches(chain):
		return nil
	case err != nil:
		return visit(e, err)
	}
	encoding, err := encodingOf(file)
	if err != nil {
		return visit(e, err)
	}
	name := strings.TrimSuffix(file, encoding.Extension())
	e.Letter = strings.HasPrefix(file, letterPrefix)
	m, err := storage.Head(ctx, key)
	if errors.Is(err, fs.ErrNotExist) { // it was moved since the listing
		return nil
	}
	if err != nil {
		return err
	}
	o, err := objectOf(name, m)
	if o != nil {
		e.Object = *o
	}
	if e.Letter && o != nil { // objects of letters have no positions
		err = nil
	}
	return visit(e, err)
}

var errForeign = errors.New("it is no object of this program")

// parseKey splits the key of an object into the chain and the name in the folder of the shard.
func parseKey(key string) (chain dedupe.ChainKey, file string, err error) {
	parts := strings.Split(key, "/")
	var values [3]string
	for i, member := range []string{"scope=", "stream=", "shard="} {
		if len(parts) <= i+1 {
			return chain, parts[len(parts)-1], errForeign
		}
		text, ok := strings.CutPrefix(parts[i], member)
		value, err := url.PathUnescape(text)
		if !ok || err != nil {
			return chain, parts[len(parts)-1], errForeign
		}
		values[i] = value
	}
	stream := strings.SplitN(values[1], ".", 3)
	if len(parts) != 4 || len(stream) != 3 {
		return chain, parts[len(parts)-1], errForeign
	}
	chain = dedupe.ChainKey{
		Scope: values[0], Stream: dedupe.Stream{Account: stream[0], Region: stream[1], Name: stream[2]}, Shard: values[2],
	}
	return chain, parts[3], nil
}

// Problem is an error in an object.
type Problem struct {
	Key  string `json:"key"`
	What string `json:"what"`
}

// Verified has the counts of a Verify.
type Verified struct {
	Shards  int   `json:"shards"`
	Objects int   `json:"objects"`
	Letters int   `json:"letters"` // how many of the Objects are of dead letters
	Late    int   `json:"late"`    // how many of the Objects have records that came late
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"` // uncompressed
	// Begun is how many chains do not begin at their root, because their first objects were moved.
	Begun int `json:"begun"`
}

// Verify reads all objects. It checks that no chain has a gap or a second branch, and that the content of each object
// fits its metadata. It calls found for each problem. Objects that are written meanwhile are not a problem.
func Verify(ctx context.Context, storage Storage, f Filter, found func(Problem)) (v Verified, err error) {
	var last Entry // the previous object of the chain
	err = List(ctx, storage, f, func(e Entry, wrong error) error {
		report := func(format string, args ...any) { found(Problem{e.Key, fmt.Sprintf(format, args...)}) }
		v.Objects++
		if wrong != nil {
			report("%v", wrong)
			return nil
		}
		first := last.Chain != e.Chain
		if first {
			v.Shards++
			last = Entry{Chain: e.Chain}
		}
		if e.Letter {
			v.Letters++
		} else {
			if e.isLate() {
				v.Late++
			}
			if first && e.name != root {
				v.Begun++
			}
			checkLink(&last, &e, first, report)
			last = e
		}
		v.Records, v.Bytes = v.Records+int64(e.Records), v.Bytes+e.Bytes
		return checkContent(ctx, storage, e, report)
	})
	return v, err
}

// checkLink checks that object e follows object last in the chain.
func checkLink(last, e *Entry, first bool, report func(string, ...any)) {
	switch {
	case first || last.Name == "":
	case last.name == e.name:
		report("there is another object of this position: %s", last.Key)
	case last.end.compare(e.name) < 0:
		report("objects are missing before it: %s ends at %s", last.Key, last.End)
	case last.end != e.name:
		report("it is not in the chain: %s ends at %s", last.Key, last.End)
	case e.Late != last.lastLate():
		report("its last late object is %q, and that is %q", e.Late, last.lastLate())
	}
}

func checkContent(ctx context.Context, storage Storage, e Entry, report func(string, ...any)) error {
	encoding, err := encodingOf(e.Key)
	if err != nil {
		report("%v", err)
		return nil
	}
	c, err := storage.Get(ctx, e.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	records, bytes, err := count(encoding, c.Body)
	switch {
	case err != nil:
		report("it cannot be read: %v", err)
	case records != e.Records || bytes != e.Bytes:
		report("it has %d records in %d bytes, and its metadata says %d in %d", records, bytes, e.Records, e.Bytes)
	}
	return nil
}

// encodingOf returns the encoding that the extension of a key names.
func encodingOf(key string) (Encoding, error) {
	for format, text := range formatExtension {
		for compression, end := range compressionExtension {
			if strings.HasSuffix(key, text+end) {
				return Encoding{format, compression}, nil
			}
		}
	}
	return Encoding{}, errForeign
}

// count counts the lines of an object.
func count(e Encoding, body []byte) (records int, bytes int64, err error) {
	r, err := e.reader(body)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = r.Close() }()
	lines := bufio.NewReader(r)
	for {
		part, err := lines.ReadSlice('\n')
		bytes += int64(len(part))
		switch {
		case err == nil:
			records++
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(part) > 0:
			return 0, 0, errors.New("its last line has no end")
		case errors.Is(err, io.EOF):
			return records, bytes, nil
		default:
			return 0, 0, err
		}
	}
}
