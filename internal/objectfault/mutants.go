package objectfault

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/oncebox/oncebox/internal/memobjects"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// Mutant breaks a rule of the object sink, around it.
type Mutant struct {
	Name string
	// Hook changes the calls of the storage.
	Hook memobjects.Hook
	// Case is the case of package sinktest that must fail. "": none does.
	Case string
	// Sink changes the sink.
	Sink func(s dedupe.ObjectSink, storage objectsink.Storage) dedupe.ObjectSink
}

// Mutants are the broken rules. The search of TestMutants finds each.
var Mutants = []Mutant{
	{Name: "no-fence", Case: "another-writer", Hook: noFence},
	{Name: "skips-from-the-name", Case: "given-up-in-between", Hook: skipsFromTheName},
	{Name: "no-late-links", Case: "many-late", Hook: noLateLinks},
	{Name: "hint-before-the-object", Hook: hintBeforeTheObject},
	{Name: "objects-named-by-first-record", Sink: namedByFirstRecord},
	{Name: "aggregates-in-parts", Sink: aggregatesInParts},
	{Name: "letters-judged-by-ranges", Sink: lettersJudgedByRanges},
	{Name: "only-the-head-counts", Case: "once", Sink: onlyTheHeadCounts},
	{Name: "forgets-what-it-met", Case: "another-writer-of-later-records", Sink: forgetsWhatItMet},
}

// namePattern is the name of an object in a chain.
var namePattern = regexp.MustCompile(`/(\d{3}-(\d+)-\d+)\.`)

// noFence replaces objects.
func noFence(ctx context.Context, c *memobjects.Call) error {
	if c.Method != memobjects.PutIfAbsent || !namePattern.MatchString(c.Key) {
		return c.Do(ctx)
	}
	put := *c
	put.Replace = true
	err := put.Do(ctx)
	c.Created = true
	return err
}

// skipsFromTheName takes everything for handled that lies between an object's name and its last record.
func skipsFromTheName(ctx context.Context, c *memobjects.Call) error {
	err := c.Do(ctx)
	if name := namePattern.FindStringSubmatch(c.Key); err == nil && c.Method == memobjects.Head && name != nil {
		if dedupe.CompareSequence(name[2], c.Metadata["oncebox-first"]) < 0 {
			c.Metadata = with(c.Metadata, "oncebox-first", name[2])
		}
	}
	return err
}

// noLateLinks finds late objects only where a listing finds them.
func noLateLinks(ctx context.Context, c *memobjects.Call) error {
	err := c.Do(ctx)
	if err == nil && c.Method == memobjects.Head {
		c.Metadata = with(c.Metadata, "oncebox-late", "")
	}
	return err
}

// hintBeforeTheObject writes the hint first, so that it may name an object that never comes.
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
	for k, v := range m {
		changed[k] = v
	}
	changed[member] = value
	return changed
}

// namedByFirst is the scheme of the developer guide: an object is named by its first record, and replaced if it comes
// again.
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

// commitFunc is a chain with another Commit.
type commitFunc struct {
	dedupe.Chain
	commit func(context.Context, []dedupe.ChainRecord) (dedupe.Committed, error)
}

func (c commitFunc) Commit(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	return c.commit(ctx, records)
}

// aggregatesInParts writes the first record of each aggregate into an object, and the others into another one.
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

// behindAll is a sequence number behind all others.
const behindAll = "99999999999999999999"

// onlyTheHeadCounts finds no objects that reach into a batch.
func onlyTheHeadCounts(s dedupe.ObjectSink, _ objectsink.Storage) dedupe.ObjectSink {
	return wrapped{s, func(ctx context.Context, key dedupe.ChainKey, _, _ string) (dedupe.Chain, error) {
		return s.Open(ctx, key, behindAll, behindAll)
	}}
}

// forgetsWhatItMet goes on behind the objects that a Commit has met, and does not tell the next Commit about them.
func forgetsWhatItMet(s dedupe.ObjectSink, _ objectsink.Storage) dedupe.ObjectSink {
	open := func(ctx context.Context, key dedupe.ChainKey, first, last string) (dedupe.Chain, error) {
		chain, err := s.Open(ctx, key, first, last)
		if err != nil {
			return nil, err
		}
		current := chain
		return commitFunc{chain, func(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
			committed, err := current.Commit(ctx, records)
			if fresh, failed := s.Open(ctx, key, behindAll, behindAll); failed == nil {
				current = fresh
			}
			return committed, err
		}}, nil
	}
	return wrapped{s, open}
}

// judgedByRanges takes a dead letter for done if an object has handled its position.
type judgedByRanges struct{ dedupe.ObjectSink }

func lettersJudgedByRanges(s dedupe.ObjectSink, _ objectsink.Storage) dedupe.ObjectSink {
	return judgedByRanges{s}
}

// letterPosition is the sequence number in the name of a letter.
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
