package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// doneFolder has the markers of the letters beside it: DIR/NAME is done if DIR/done/NAME exists. So a marker has the
// same place for every prefix of a store, and a letter stays as it is.
const doneFolder = "done/"

// Archive reads dead letters, and records which of them are done. It finds poison records, and the batches that
// Lambda gave up. It is safe for concurrent use.
type Archive struct{ objects Listed }

// NewArchive makes an Archive over objects.
func NewArchive(objects Listed) *Archive { return &Archive{objects} }

// Entry is a letter in a listing.
type Entry struct {
	Name string // of its object
	Done bool   // it has a marker
}

// All lists the letters, in the order of the bytes of their names. It keeps up to two pages of names in memory. It ends
// with its first error, which is like those of Store.Put.
func (a *Archive) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		names := a.cursor(ctx, "", "")
		var markers *cursor
		for name, ok := names.next(); ok; name, ok = names.next() {
			folder, base := path.Split(name)
			if base == "" || strings.HasSuffix("/"+folder, "/"+doneFolder) || strings.HasSuffix("/"+folder, "/"+begunFolder) {
				continue // a placeholder for a folder, a marker, or an attempt
			}
			marker := folder + doneFolder + base
			if markers == nil || markers.prefix != folder+doneFolder {
				// Names may go from one folder to another and back. A text slightly below the marker comes before it.
				markers = a.cursor(ctx, folder+doneFolder, marker[:len(marker)-1])
			}
			done := markers.reaches(marker)
			if markers.err != nil {
				names.err = markers.err
				break
			}
			if !yield(Entry{name, done}, nil) {
				return
			}
		}
		if names.err != nil {
			yield(Entry{}, names.err)
		}
	}
}

// cursor iterates over a listing.
type cursor struct {
	list   func(after string) ([]string, error)
	prefix string
	page   []string
	at     int
	last   string // the last name of the pages so far
	ended  bool
	err    error
}

func (a *Archive) cursor(ctx context.Context, prefix, after string) *cursor {
	list := func(after string) ([]string, error) { return a.objects.List(ctx, prefix, after) }
	return &cursor{list: list, prefix: prefix, last: after}
}

// peek returns the name at the cursor. ok is false at the end and after an error.
func (c *cursor) peek() (name string, ok bool) {
	if c.at == len(c.page) && !c.ended {
		c.page, c.err = c.list(c.last)
		c.at, c.ended = 0, c.err != nil || len(c.page) == 0
		if !c.ended {
			c.last = c.page[len(c.page)-1]
		}
	}
	if c.ended {
		return "", false
	}
	return c.page[c.at], true
}

func (c *cursor) next() (name string, ok bool) {
	name, ok = c.peek()
	if ok {
		c.at++
	}
	return name, ok
}

// reaches moves to the first name that is not below want, and reports whether it equals want.
func (c *cursor) reaches(want string) bool {
	name, ok := c.peek()
	for ok && name < want {
		c.at++
		name, ok = c.peek()
	}
	return ok && name == want
}

// Read returns a letter by its name. The error is fs.ErrNotExist if there is no such object, ErrNotALetter if the
// object is something else, or an error of Store.Put.
func (a *Archive) Read(ctx context.Context, name string) (Letter, error) {
	content, err := a.objects.Read(ctx, name)
	if err != nil {
		return Letter{}, err
	}
	return ParseLetter(name, content)
}

// Place returns the place of the object with a name.
func (a *Archive) Place(name string) Place { return a.objects.Place(name) }

// NameOf returns the name of the object at a place. ok is false if the place is not in the store.
func (a *Archive) NameOf(p Place) (name string, ok bool) {
	root := a.objects.Place("")
	if p.Bucket != "" {
		name, ok = strings.CutPrefix(p.Key, root.Key)
		return name, ok && name != "" && p.Bucket == root.Bucket
	}
	from, err := filepath.Abs(root.Path)
	if err != nil || root.Path == "" || p.Path == "" {
		return "", false
	}
	relative, err := filepath.Rel(from, p.Path)
	name = filepath.ToSlash(relative)
	return name, err == nil && fs.ValidPath(name) && name != "."
}

// MarkerFormat is the version of Marker and Attempt.
const MarkerFormat = 1

// Marker says that a letter is done, and how. It is stored as JSON beside the letter, which is not deleted.
type Marker struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"` // of the letter
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
	Scope   string    `json:"scope"`
	// Delivered, Dropped, DeadLettered and DoneBefore count the records of the letter. A poison record counts as one,
	// unless it is an aggregate that can be opened now.
	Delivered    int64    `json:"delivered,omitempty"`
	Dropped      int64    `json:"dropped,omitempty"`
	DeadLettered int64    `json:"dead_lettered,omitempty"`
	DoneBefore   int64    `json:"done_before,omitempty"`
	Patch        string   `json:"patch,omitempty"`    // the jq program that changed the payload
	Settings     []string `json:"settings,omitempty"` // changed settings, as NAME=VALUE
	Reason       string   `json:"reason,omitempty"`   // why the operator redrove it
}

// ErrUntagged says that a letter is done and has its marker, but that its object could not be tagged: it does not expire.
var ErrUntagged = errors.New("dead-letter store: the letter could not be tagged")

// MarkDone tags the object of a letter, so that a lifecycle rule of the bucket can expire it, and then stores the marker.
// An existing marker stays as it is: created is then false. Call it after the sink has confirmed the letter. If it ends
// in between, the letter is not done and comes again.
//
// Errors: ErrUntagged, after which the marker is stored; an error of Store.Put.
func (a *Archive) MarkDone(ctx context.Context, name string, m Marker) (created bool, err error) {
	untagged := a.objects.TagDone(ctx, name)
	if created, err = a.mark(ctx, name, m); err == nil && untagged != nil {
		err = fmt.Errorf("%w: %w", ErrUntagged, untagged)
	}
	return created, err
}

func (a *Archive) mark(ctx context.Context, name string, m Marker) (created bool, err error) {
	m.Format, m.Name, m.At = MarkerFormat, name, m.At.UTC()
	content, err := json.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("dead-letter store: marker of %s: %w", name, err)
	}
	return a.objects.Create(ctx, markerName(name), append(content, '\n'))
}

// Done returns the marker of a letter, or nil if it has none.
func (a *Archive) Done(ctx context.Context, name string) (*Marker, error) {
	content, err := a.objects.Read(ctx, markerName(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &Marker{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, fmt.Errorf("dead-letter store: the marker of %s is damaged: %w", name, err)
	}
	return m, nil
}

func markerName(letter string) string { return besideName(letter, doneFolder) }

func besideName(letter, subfolder string) string {
	folder, base := path.Split(letter)
	return folder + subfolder + base
}
