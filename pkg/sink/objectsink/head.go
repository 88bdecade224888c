package objectsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// tip returns the last object of a shard that this Sink knows. Other writers may have written more, which Commit
// finds out. For a shard without objects it returns an object without a name that ends at the root.
func (s *Sink) tip(ctx context.Context, key dedupe.ChainKey) (*Object, error) {
	s.mu.Lock()
	m, known := s.shards[key]
	s.mu.Unlock()
	if known && s.options.Clock.Now().Sub(m.at) < memoryLife {
		return m.tip, nil
	}
	hint, err := s.readHint(ctx, key)
	if err != nil {
		return nil, err
	}
	tip, listed, err := s.lastFrom(ctx, key, hint)
	if err == nil && s.remember(key, tip, listed) {
		s.writeHint(ctx, key, tip)
	}
	return tip, err
}

// remember records the last object of a shard. It reports whether it is time to write a hint.
func (s *Sink) remember(key dedupe.ChainKey, tip *Object, more int) (hint bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.shards[key]
	if known && m.tip.end.compare(tip.end) > 0 && s.options.Clock.Now().Sub(m.at) < memoryLife {
		return false // another batch knows more
	}
	m = shardMemory{tip, s.options.Clock.Now(), m.sinceHint + more}
	if hint = m.sinceHint >= s.options.HintEvery; hint {
		m.sinceHint = 0
	}
	s.shards[key] = m
	return hint
}

// lastFrom lists the objects of a shard after a hint, and reads the last one.
func (s *Sink) lastFrom(ctx context.Context, key dedupe.ChainKey, hint *Object) (tip *Object, listed int, err error) {
	from := root
	if hint != nil {
		from = hint.name
	}
	var last *position
	err = s.list(ctx, key, from, func(p position) bool {
		last, listed = &p, listed+1
		return true
	})
	switch {
	case err != nil:
		return nil, 0, err
	case last != nil:
		tip, err = s.object(ctx, key, *last)
		return tip, listed, tryAgainIfGone(err)
	case hint != nil: // the object of the hint was moved, and nothing was written after it
		return hint, 0, nil
	}
	return &Object{End: root.String(), end: root}, 0, nil
}

// list calls f with the names of a shard's objects after a position, ascending, until f returns false. It returns an
// error if the storage lists in another order, or something else: objects that it does not see would be written
// again.
func (s *Sink) list(ctx context.Context, key dedupe.ChainKey, from position, f func(position) bool) error {
	folder := shardFolder(key)
	after := folder + from.String() // without the extension, so that it sorts before the object of this name
	for {
		keys, more, err := s.storage.List(ctx, folder, after)
		if err != nil {
			return err
		}
		if err := checkListing(keys, folder, after); err != nil {
			return err
		}
		for _, k := range keys {
			after = k
			name := strings.TrimPrefix(k, folder)
			if name == "" || name[0] < '0' || name[0] > '9' { // not a position: these sort after all positions
				return nil
			}
			p, err := parsePosition(strings.TrimSuffix(name, s.options.Extension()))
			if err != nil {
				return fmt.Errorf("object sink: %s is in the folder of a shard and is not one of its objects: %w", k, err)
			}
			if !f(p) {
				return nil
			}
		}
		if !more || len(keys) == 0 {
			return nil
		}
	}
}

func checkListing(keys []string, folder, after string) error {
	for _, k := range keys {
		if !strings.HasPrefix(k, folder) || k <= after {
			return fmt.Errorf("object sink: the storage lists %s behind %s; objects need a general purpose bucket, which lists "+
				"all keys of a prefix in order", k, after)
		}
		after = k
	}
	return nil
}

// reaching returns the objects of a shard that have handled records from first to last. These are
//   - the object with the greatest name below first, and the objects after it with names below last;
//   - after these only late ones, which are found by their links, from the tip backward.
//
// Commit finds objects after the tip.
func (s *Sink) reaching(
	ctx context.Context, key dedupe.ChainKey, tip *Object, first, last string,
) (found []*Object, err error) {
	names, err := s.namesAround(ctx, key, first, last)
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(names, headsAtOnce) {
		objects, errs := s.readObjects(ctx, key, part)
		for i, o := range objects {
			if errs[i] != nil {
				return nil, tryAgainIfGone(errs[i])
			}
			if o.reaches(first, last) {
				found = append(found, o)
			}
		}
	}
	for o := tip; ; {
		if o.Name != "" && o.isLate() && o.reaches(first, last) {
			found = append(found, o)
		}
		before, err := parsePosition(o.Late)
		if o.Late == "" || len(names) > 0 && before.compare(names[0]) < 0 {
			return found, nil
		}
		if err == nil {
			o, err = s.lateObject(ctx, key, before)
		}
		if errors.Is(err, fs.ErrNotExist) { // this object and all before it were moved
			return found, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// For records that are not after the tip, the listing begins below their first sequence number, whose last digits are
// set to 0. At first all of Kinesis's 56 digits but keepDigits are set to 0, because few objects differ only in these.
// If that is not enough, moreDigits more are set to 0 each time.
const (
	keepDigits = 32
	moreDigits = 4
)

// namesAround returns the greatest name below first, if there is one, and all names after it that are below last.
func (s *Sink) namesAround(ctx context.Context, key dedupe.ChainKey, first, last string) (names []position, err error) {
	for digits := max(1, len(first)-keepDigits); ; digits += moreDigits {
		from := below(first, digits)
		names = names[:0]
		err = s.list(ctx, key, from, func(p position) bool {
			inFront := dedupe.CompareSequence(p.sequence, last) < 0
			if inFront {
				names = append(names, p)
			}
			return inFront
		})
		if err != nil {
			return nil, err
		}
		behind := slices.IndexFunc(names, func(p position) bool { return dedupe.CompareSequence(p.sequence, first) >= 0 })
		if behind < 0 {
			behind = len(names)
		}
		if behind > 0 {
			return names[behind-1:], nil
		}
		if from == root {
			return names, nil
		}
	}
}

// below returns a position below a sequence number: the last digits are 0.
func below(sequence string, digits int) position {
	sequence = dedupe.UnpadSequence(sequence)
	if digits >= len(sequence) {
		return root
	}
	return position{sequence: sequence[:len(sequence)-digits] + strings.Repeat("0", digits)}
}

// headsAtOnce is how many objects are read at the same time. With S3, a prefix takes 5,500 such requests a second (user
// guide, "Best practices design patterns: optimizing Amazon S3 performance").
const headsAtOnce = 32

// readObjects reads the metadata of objects at the same time. For each it returns the object or an error.
func (s *Sink) readObjects(ctx context.Context, key dedupe.ChainKey, names []position) ([]*Object, []error) {
	objects, errs := make([]*Object, len(names)), make([]error, len(names))
	s.options.Clock.Each(len(names), headsAtOnce, func(i int) {
		objects[i], errs[i] = s.object(ctx, key, names[i])
	})
	return objects, errs
}

// lateObject reads the late object of a link. If it is not known yet, the objects of the steps before it are read at
// the same time: all of these are late, so the next links lead to them.
func (s *Sink) lateObject(ctx context.Context, key dedupe.ChainKey, name position) (*Object, error) {
	names := []position{name}
	if _, known := s.known(s.keyOf(key, name)); !known {
		for step := name.step - 1; step > 0 && len(names) < headsAtOnce; step-- {
			names = append(names, position{name.sequence, step})
		}
	}
	objects, errs := s.readObjects(ctx, key, names)
	return objects[0], errs[0]
}

func (s *Sink) keyOf(key dedupe.ChainKey, name position) string {
	return shardFolder(key) + name.String() + s.options.Extension()
}

// known returns an object whose metadata was read before.
func (s *Sink) known(at string) (o *Object, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, known = s.objects[at]
	return o, known
}

// object reads the metadata of an object if it is not known yet.
func (s *Sink) object(ctx context.Context, key dedupe.ChainKey, name position) (*Object, error) {
	at := s.keyOf(key, name)
	if o, known := s.known(at); known {
		return o, nil
	}
	m, err := s.storage.Head(ctx, at)
	if err != nil {
		return nil, err
	}
	o, err := objectOf(name.String(), m)
	if err != nil {
		return nil, fmt.Errorf("object sink: %s: %w", at, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.objects) >= mostObjects {
		clear(s.objects)
	}
	s.objects[at] = o
	return o, nil
}

// tryAgainIfGone returns ErrTryAgain if an object was moved since it was listed.
func tryAgainIfGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", dedupe.ErrTryAgain, err)
	}
	return err
}

// readHint reads the hint of a shard. A hint is an object of its chain; the last object is found by listing from
// there. With an old hint the listing takes longer, but has the same result.
func (s *Sink) readHint(ctx context.Context, key dedupe.ChainKey) (*Object, error) {
	c, err := s.storage.Get(ctx, shardFolder(key)+headName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseHint(c.Body), nil
}

// parseHint returns nil for a hint that cannot be read. The hint will be written again.
func parseHint(body []byte) *Object {
	hint := new(Object)
	if json.Unmarshal(body, hint) != nil || hint.parse() != nil {
		return nil
	}
	return hint
}

// writeHint writes the hint. It ignores errors, because an older hint is also right.
func (s *Sink) writeHint(ctx context.Context, key dedupe.ChainKey, o *Object) {
	text, err := json.Marshal(o)
	if err == nil {
		_ = s.storage.Put(ctx, shardFolder(key)+headName, Content{Body: text, Type: "application/json"})
	}
}
