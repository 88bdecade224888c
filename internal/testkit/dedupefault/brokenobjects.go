package dedupefault

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// This file holds the broken rules of object sinks. They break a sink from outside its code.

// namePattern matches the name of an object in a chain.
var namePattern = regexp.MustCompile(`/(\d{3}-(\d+)-\d+)\.`)

// noFence lets a PUT replace an existing object.
func noFence(ctx context.Context, c *memobjects.Call) error {
	c.Replace = c.Method == memobjects.PutIfAbsent
	return c.Do(ctx)
}

// skipsFromTheName counts every record between an object's name and its last record as handled.
func skipsFromTheName(ctx context.Context, c *memobjects.Call) error {
	err := c.Do(ctx)
	if name := namePattern.FindStringSubmatch(c.Key); err == nil && c.Method == memobjects.Head && name != nil {
		if dedupe.CompareSequence(name[2], c.Metadata["oncebox-first"]) < 0 {
			c.Metadata = with(c.Metadata, "oncebox-first", name[2])
		}
	}
	return err
}

// noLateLinks finds late objects only at the places where a listing finds them.
func noLateLinks(ctx context.Context, c *memobjects.Call) error {
	err := c.Do(ctx)
	if err == nil && c.Method == memobjects.Head {
		c.Metadata = with(c.Metadata, "oncebox-late", "")
	}
	return err
}

// hintBeforeTheObject writes the hint before the object. So the hint may name an object that never comes.
func hintBeforeTheObject(ctx context.Context, c *memobjects.Call) error {
	name := namePattern.FindStringSubmatch(c.Key)
	if c.Method == memobjects.PutIfAbsent && name != nil {
		m := c.Content.Metadata
		hint := objectsink.Object{
			Name: name[1], Writer: m["oncebox-writer"], First: m["oncebox-first"], Last: m["oncebox-last"],
			End: m["oncebox-end"], Late: m["oncebox-late"],
		}
		text, err := json.Marshal(hint)
		if err != nil {
			return err
		}
		early := *c
		early.Key, early.Replace = c.Key[:strings.LastIndex(c.Key, "/")]+"/_head", true
		early.Content = objectsink.Content{Body: text}
		if err := early.Do(ctx); err != nil {
			return err
		}
	}
	return c.Do(ctx)
}

func with(m map[string]string, member, value string) map[string]string {
	changed := map[string]string{}
	maps.Copy(changed, m)
	changed[member] = value
	return changed
}

// namedByFirst follows the developer guide: it names an object by its first record, and replaces the object if that
// record comes again.
type namedByFirst struct {
	dedupe.ObjectSink
	storage objectsink.Storage
	key     dedupe.ChainKey
}

func namedByFirstRecord(s dedupe.ObjectSink, storage objectsink.Storage) dedupe.ObjectSink {
	return namedByFirst{ObjectSink: s, storage: storage}
}

func (n namedByFirst) Open(_ context.Context, key dedupe.ChainKey, _, _ string) (dedupe.Chain, error) {
	n.key = key
	return n, nil
}

func (n namedByFirst) Done(string) bool { return false }

func (n namedByFirst) Commit(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	var body []byte
	for _, r := range records {
		for _, o := range r.Outputs {
			body = append(append(body, o.Data...), '\n')
		}
	}
	err := n.storage.Put(ctx, n.key.Shard+"/"+records[0].Sequence, objectsink.Content{Body: body})
	if err != nil {
		return dedupe.Committed{}, err
	}
	return dedupe.Committed{Done: len(records)}, nil
}

// wrapped is a sink whose chains are changed.
type wrapped struct {
	dedupe.ObjectSink
	open func(ctx context.Context, key dedupe.ChainKey, first, last string) (dedupe.Chain, error)
}

func (w wrapped) Open(ctx context.Context, key dedupe.ChainKey, first, last string) (dedupe.Chain, error) {
	return w.open(ctx, key, first, last)
}

// commitFunc is a chain with another Commit function.
type commitFunc struct {
	dedupe.Chain
	commit func(context.Context, []dedupe.ChainRecord) (dedupe.Committed, error)
}

func (c commitFunc) Commit(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	return c.commit(ctx, records)
}

// aggregatesInParts writes the first record of each aggregate into one object, and the others into another object.
func aggregatesInParts(s dedupe.ObjectSink, _ objectsink.Storage) dedupe.ObjectSink {
	open := func(ctx context.Context, key dedupe.ChainKey, first, last string) (dedupe.Chain, error) {
		chain, err := s.Open(ctx, key, first, last)
		if err != nil {
			return nil, err
		}
		return commitFunc{chain, func(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
			for i, r := range records {
				if len(r.Outputs) < 2 {
					continue
				}
				part := append([]dedupe.ChainRecord{}, records[:i+1]...)
				part[i].Outputs = r.Outputs[:1]
				if committed, err := chain.Commit(ctx, part); err != nil {
					committed.Done = min(committed.Done, i)
					return committed, err
				}
				rest := append([]dedupe.ChainRecord{}, records[i:]...)
				rest[0].Outputs = r.Outputs[1:]
				committed, err := chain.Commit(ctx, rest)
				return dedupe.Committed{Done: committed.Done + i}, err
			}
			return chain.Commit(ctx, records)
		}}, nil
	}
	return wrapped{s, open}
}

// lastSequence is a sequence number after all others.
const lastSequence = "99999999999999999999"

// onlyTheHeadCounts ignores objects that contain records of a batch but begin before it.
func onlyTheHeadCounts(s dedupe.ObjectSink, _ objectsink.Storage) dedupe.ObjectSink {
	return wrapped{s, func(ctx context.Context, key dedupe.ChainKey, _, _ string) (dedupe.Chain, error) {
		return s.Open(ctx, key, lastSequence, lastSequence)
	}}
}

// forgetsFoundObjects continues after the objects that a Commit has found, and does not tell the next Commit.
func forgetsFoundObjects(s dedupe.ObjectSink, _ objectsink.Storage) dedupe.ObjectSink {
	open := func(ctx context.Context, key dedupe.ChainKey, first, last string) (dedupe.Chain, error) {
		chain, err := s.Open(ctx, key, first, last)
		if err != nil {
			return nil, err
		}
		current := chain
		return commitFunc{chain, func(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
			committed, err := current.Commit(ctx, records)
			if fresh, failed := s.Open(ctx, key, lastSequence, lastSequence); failed == nil {
				current = fresh
			}
			return committed, err
		}}, nil
	}
	return wrapped{s, open}
}

// judgedByRanges counts a dead letter as done if an object has handled its position.
type judgedByRanges struct{ dedupe.ObjectSink }

func lettersJudgedByRanges(s dedupe.ObjectSink, _ objectsink.Storage) dedupe.ObjectSink {
	return judgedByRanges{s}
}

// letterPosition matches the sequence number in the name of a letter.
var letterPosition = regexp.MustCompile(`shardId-\d+_(\d+)`)

func (j judgedByRanges) CommitLetter(
	ctx context.Context, key dedupe.ChainKey, letter string, outputs []dedupe.Output,
) (bool, error) {
	sequence := letterPosition.FindStringSubmatch(letter)[1]
	chain, err := j.Open(ctx, key, sequence, sequence)
	if err != nil || chain.Done(sequence) {
		return false, err
	}
	return j.ObjectSink.CommitLetter(ctx, key, letter, outputs)
}
