package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"
)

// doneFolder holds the markers of the letters beside it: DIR/NAME is done if DIR/done/NAME exists. So a marker has the
// same place whatever prefix the store is opened with, and no letter ever disappears.
const doneFolder = "done/"

// Archive reads dead letters, and remembers which of them are done. It finds poison records and the batches that Lambda
// gave up. It is safe for concurrent use.
type Archive struct{ objects Listed }

// NewArchive makes an Archive over objects.
func NewArchive(objects Listed) *Archive { return &Archive{objects} }

// Entry is a letter in a listing.
type Entry struct {
	Name string // of its object
	Done bool   // it has a marker
}

// All lists the letters, in the order of the bytes of their names. It holds two pages of names at a time. It ends with
// its first error, which is like those of Store.Put.
func (a *Archive) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		names := a.cursor(ctx, "", "")
		var markers *cursor
		for name, ok := names.next(); ok; name, ok = names.next() {
			folder, base := path.Split(name)
			if base == "" || strings.HasSuffix("/"+folder, "/"+doneFolder) {
				continue // a placeholder for a folder, or a marker
			}
			marker := folder + doneFolder + base
			if markers == nil || markers.prefix != folder+doneFolder {
				// Names may lead into a folder and back. A text that is a little lower than the marker comes before it.
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

// cursor goes over a listing.
type cursor struct {
	list   func(after string) ([]string, error)
	prefix string
	page   []string
	at     int
	last   string // of the pages so far
	ended  bool
	err    error
}

func (a *Archive) cursor(ctx context.Context, prefix, after string) *cursor {
	list := func(after string) ([]string, error) { return a.objects.List(ctx, prefix, after) }
	return &cursor{list: list, prefix: prefix, last: after}
}

// peek returns the name at the cursor. At the end, and after an error, ok is false.
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

// reaches moves to the first name that is not below the wanted one, and reports whether it is that.
func (c *cursor) reaches(want string) bool {
	name, ok := c.peek()
	for ok && name < want {
		c.at++
		name, ok = c.peek()
	}
	return ok && name == want
}

// Read returns a letter by its name. The error is fs.ErrNotExist if there is none, ErrNotALetter if the object is
// something else, else one of Store.Put's.
func (a *Archive) Read(ctx context.Context, name string) (Letter, error) {
	content, err := a.objects.Read(ctx, name)
	if err != nil {
		return Letter{}, err
	}
	return ParseLetter(name, content)
}

// Place returns where the object of a name is.
func (a *Archive) Place(name string) Place { return a.objects.Place(name) }

// MarkerFormat is the version of Marker.
const MarkerFormat = 1

// Marker says that a letter is done, and how. It is stored as JSON beside the letter, which stays.
type Marker struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"` // of the letter
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
	Scope   string    `json:"scope"`
	// Delivered, Dropped, DeadLettered and DoneBefore count the records of the letter. A poison record has one, unless
	// it is an aggregate that could be opened now.
	Delivered    int64    `json:"delivered,omitempty"`
	Dropped      int64    `json:"dropped,omitempty"`
	DeadLettered int64    `json:"dead_lettered,omitempty"`
	DoneBefore   int64    `json:"done_before,omitempty"`
	Patch        string   `json:"patch,omitempty"`    // a jq program by which the payload was changed
	Settings     []string `json:"settings,omitempty"` // that were changed, as NAME=VALUE
	Reason       string   `json:"reason,omitempty"`   // why the operator redrove it
}

// MarkDone stores the marker of a letter. A marker that is there already stays as it is: created is false then. Store it
// after the sink has confirmed the letter.
func (a *Archive) MarkDone(ctx context.Context, name string, m Marker) (created bool, err error) {
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

func markerName(name string) string {
	folder, base := path.Split(name)
	return folder + doneFolder + base
}
