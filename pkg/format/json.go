package format

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
)

// MaxText is the length of the longest fingerprint or owner, in bytes. Stores keep both. A longer one would fail the
// whole batch, not only its record. (DynamoDB accepts 1,024 bytes if an owner is a sort key.)
const MaxText = 1000

// JSON reads and renames records that are JSON objects. It is safe for concurrent use.
type JSON struct {
	tree                         *tree
	id, fingerprint, owner, time *place   // nil: not set
	contexts                     []*place // from the root to the array

	byPath, computed string // the versions
}

// NewJSON makes a JSON. It checks each option and their combination; the error is an *OptionError.
func NewJSON(o Options) (*JSON, error) {
	if o.IDPath == "" {
		return nil, &OptionError{"IDPath", "is required: set the path of the id, as in event.id"}
	}
	if o.ContextsPath == "" {
		o.ContextsPath = DefaultContextsPath
	}
	p, err := o.parse()
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	f := &JSON{tree: newTree(), byPath: p.versionByPath(), computed: p.versionComputed()}
	f.id, f.owner = f.end(p.id), f.end(p.owner)
	f.fingerprint, f.time = f.end(p.fingerprint), f.end(p.time)
	for _, left := range slices.Concat([]path{p.id, p.owner, p.contexts}, p.volatile) {
		if left != nil {
			f.end(left).leftOut = true
		}
	}
	for _, on := range f.tree.add(p.id)[1:] {
		on.once = true
	}
	f.contexts = f.tree.add(p.contexts)
	for _, host := range f.contexts[1 : len(f.contexts)-1] {
		host.host = true
	}
	return f, nil
}

// end returns the last place of a path.
func (f *JSON) end(p path) *place {
	if p == nil {
		return nil
	}
	trail := f.tree.add(p)
	return trail[len(trail)-1]
}

// Fields are the values that identify a record.
type Fields struct {
	// ID is Unicode and never empty.
	ID string
	// Fingerprint is Unicode and never empty. A computed one has 64 hexadecimal digits in lower case.
	Fingerprint string
	// Version names the settings of the fingerprint: "p1-" and a digest if it was found, "c1-" and a digest if it was
	// computed. It is for people only: fingerprints of different versions differ anyway.
	Version string
	// Owner is empty only without OwnerPath.
	Owner string
	// Time is in UTC. It is zero only without TimePath.
	Time time.Time
}

// usualPlaces is the number of places that fit on the stack.
const usualPlaces = 16

// Read returns the values that identify the record. The error is a *BadRecord. Read does not check whether the
// contexts are an array: this matters only for a synthetic duplicate, and Rename checks it.
func (f *JSON) Read(_ context.Context, record []byte) (Fields, error) {
	var space [usualPlaces]span
	s := scan{text: record, found: f.room(space[:])}
	if err := s.record(f.tree.root); err != nil {
		return Fields{}, err
	}
	fields, err := f.fields(&s)
	if err != nil {
		return Fields{}, err
	}
	return fields, nil
}

// room returns a slice with an element for each place. It uses space if that is large enough.
func (f *JSON) room(space []span) []span {
	if f.tree.count > len(space) {
		return make([]span, f.tree.count)
	}
	return space[:f.tree.count]
}

func (f *JSON) fields(s *scan) (fields Fields, err *BadRecord) {
	if fields.ID, err = s.required(f.id, "id", math.MaxInt); err != nil {
		return fields, err
	}
	if f.owner != nil {
		if fields.Owner, err = s.required(f.owner, "owner", MaxText); err != nil {
			return fields, err
		}
	}
	if f.time != nil {
		if fields.Time, err = s.time(f.time); err != nil {
			return fields, err
		}
	}
	if f.fingerprint != nil {
		fields.Version = f.byPath
		if fields.Fingerprint, err = s.textAt(f.fingerprint, "fingerprint", MaxText); err != nil {
			return fields, err
		}
	}
	if fields.Fingerprint == "" {
		fields.Version, fields.Fingerprint = f.computed, f.compute(s)
	}
	return fields, nil
}

// required is textAt for a value that every record must have.
func (s *scan) required(at *place, what string, limit int) (string, *BadRecord) {
	text, err := s.textAt(at, what, limit)
	if err == nil && text == "" {
		err = bad("the " + what + " is missing, null or empty")
	}
	return text, err
}

// textAt returns the string or the number at a place, or "" if the value is absent or null. what is its name in a
// reason.
func (s *scan) textAt(at *place, what string, limit int) (string, *BadRecord) {
	value := s.found[at.number].of(s.text)
	if len(value) == 0 || value[0] == 'n' {
		return "", nil
	}
	text, ok := "", true
	switch c := value[0]; {
	case c == '"':
		text, ok = unicodeText(value[1 : len(value)-1])
	case c == '-' || jsonscan.IsDigit(c):
		text = string(value)
	default:
		return "", bad("the " + what + " is neither a string nor a number")
	}
	switch {
	case !ok:
		return "", bad("the " + what + " is not Unicode")
	case len(text) > limit:
		return "", bad("the " + what + " is longer than " + strconv.Itoa(limit) + " bytes")
	}
	return text, nil
}

// time returns the time at a place.
func (s *scan) time(at *place) (time.Time, *BadRecord) {
	text, err := s.required(at, "time", math.MaxInt)
	if err != nil {
		return time.Time{}, err
	}
	parse := unixTime
	if s.text[s.found[at.number].from] == '"' {
		parse = rfc3339
	}
	t, ok := parse(text)
	if !ok {
		return time.Time{}, bad("the time is neither a time of RFC 3339 nor a number of seconds or milliseconds since 1970")
	}
	return t, nil
}

func rfc3339(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t.UTC(), err == nil
}

// unixTime reads seconds or milliseconds since 1970. It keeps a fraction to the microsecond, about the precision of a
// float64.
func unixTime(text string) (time.Time, bool) {
	const (
		firstMillisecond = 1e11 // as milliseconds in 1973, as seconds in 5138
		year10000        = 253402300800
	)
	seconds, err := strconv.ParseFloat(text, 64)
	if math.Abs(seconds) >= firstMillisecond {
		seconds /= 1000
	}
	if err != nil || math.Abs(seconds) >= year10000 {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC(), true
}
