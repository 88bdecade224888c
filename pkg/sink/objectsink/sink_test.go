package objectsink_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

var key = dedupe.ChainKey{
	Scope: "orders", Stream: dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "orders"}, Shard: "shard-1",
}

const folder = "scope=orders/stream=123456789012.eu-central-1.orders/shard=shard-1/"

// counting counts the calls of a storage, and passes them to a hook.
func counting(s objectsink.Storage, hook memobjects.Hook) (objectsink.Storage, map[memobjects.Method]int) {
	var mu sync.Mutex // for objects that are read at the same time
	calls := map[memobjects.Method]int{}
	return memobjects.Hooked(s, func(ctx context.Context, c *memobjects.Call) error {
		mu.Lock()
		calls[c.Method]++
		mu.Unlock()
		if hook != nil {
			return hook(ctx, c)
		}
		return c.Do(ctx)
	}), calls
}

func records(sequences ...int) (all []dedupe.ChainRecord) {
	for _, n := range sequences {
		all = append(all, dedupe.ChainRecord{
			Sequence: fmt.Sprint(n), Outputs: []dedupe.Output{{Data: fmt.Appendf(nil, `{"n":%d}`, n)}},
		})
	}
	return all
}

// commit opens a chain and commits the records that are not done.
func commit(t testing.TB, s *objectsink.Sink, sequences ...int) dedupe.Committed {
	t.Helper()
	committed, err := tryCommit(t, s, sequences...)
	must(t, err)
	return committed
}

func tryCommit(t testing.TB, s *objectsink.Sink, sequences ...int) (dedupe.Committed, error) {
	t.Helper()
	all := records(sequences...)
	chain, err := s.Open(t.Context(), key, all[0].Sequence, all[len(all)-1].Sequence)
	must(t, err)
	rest := slices.DeleteFunc(all, func(r dedupe.ChainRecord) bool { return chain.Done(r.Sequence) })
	return chain.Commit(t.Context(), rest)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: want %v, got %v", what, want, got)
	}
}

// wantCalls checks the requests, except those that write hints.
func wantCalls(t testing.TB, calls map[memobjects.Method]int, want map[memobjects.Method]int) {
	t.Helper()
	delete(calls, memobjects.Put)
	if !maps.Equal(calls, want) {
		t.Errorf("want the requests %v, got %v", want, calls)
	}
	clear(calls)
}

// TestRequests: a warm container sends one request for an object. A cold container finds the tip, and the objects
// that overlap its batch, with a number of requests that does not depend on the length of the chain.
func TestRequests(t *testing.T) {
	t.Parallel()
	type counts = map[memobjects.Method]int
	options := objectsink.Options{Encoding: objectsink.Encoding{Compression: objectsink.Uncompressed}}
	storage, calls := counting(memobjects.New(), nil)
	warm := newSink(t, storage, options)
	commit(t, warm, 1, 2)
	wantCalls(t, calls, counts{memobjects.Get: 3, memobjects.List: 1, memobjects.PutIfAbsent: 2})
	for n := 3; n < 1200; n++ {
		commit(t, warm, n)
	}
	equal(t, "hints", calls[memobjects.Put], 23)
	wantCalls(t, calls, counts{memobjects.PutIfAbsent: 1197})

	commit(t, newSink(t, storage, options), 1200)
	wantCalls(t, calls, counts{memobjects.Get: 2, memobjects.List: 1, memobjects.Head: 1, memobjects.PutIfAbsent: 1})
	commit(t, newSink(t, storage, options), 500, 501, 502)
	if calls[memobjects.Head] > 6 || calls[memobjects.List] > 6 {
		t.Errorf("a batch from long ago takes the requests %v", calls)
	}
	clear(calls)
	commit(t, warm, 1201) // it did not know of 1200
	wantCalls(t, calls, counts{memobjects.PutIfAbsent: 2, memobjects.Head: 1})
	commit(t, warm, 1201, 1202) // the same batch with more, as after a partial failure
	if calls[memobjects.PutIfAbsent] != 1 || calls[memobjects.Head] > 2 || calls[memobjects.List] > 3 {
		t.Errorf("a batch that comes again takes the requests %v", calls)
	}
}

// TestHeadsAtOnce: the objects that overlap a batch are read 32 at a time, and so are late objects. Each request takes
// one second of virtual time, so the time is the number of rounds.
func TestHeadsAtOnce(t *testing.T) {
	t.Parallel()
	const objects, atOnce = 320, 32
	for name, c := range map[string]struct {
		before int // the record of the first object; the others are late if it is behind theirs
		first  int
	}{
		"small objects": {1, 2},
		"late objects":  {1000, objects + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := memobjects.New()
				writer := newSink(t, memory, objectsink.Options{HintEvery: 1})
				commit(t, writer, c.before)
				for n := 2; n < objects+2; n++ {
					commit(t, writer, n)
				}
				storage, calls := counting(memory, func(ctx context.Context, call *memobjects.Call) error {
					if call.Method == memobjects.Head {
						time.Sleep(time.Second) // on the clock of synctest: each request takes a round
					}
					return call.Do(ctx)
				})
				begun := time.Now()
				chain, err := newSink(t, storage, objectsink.Options{}).Open(t.Context(), key, fmt.Sprint(c.first), "999")
				must(t, err)
				rounds := int(time.Since(begun) / time.Second)
				t.Logf("%d HEADs in %d rounds, %d LISTs", calls[memobjects.Head], rounds, calls[memobjects.List])
				if most := objects/atOnce + 3; rounds > most {
					t.Errorf("%d rounds for %d objects, want at most %d", rounds, objects, most)
				}
				if most := objects + 2; calls[memobjects.Head] > most {
					t.Errorf("%d HEADs for %d objects, want at most %d", calls[memobjects.Head], objects, most)
				}
				for n := c.first; n <= objects+2; n++ {
					equal(t, fmt.Sprint("done: ", n), chain.Done(fmt.Sprint(n)), n < objects+2)
				}
			})
		})
	}
}

// TestMemoryEnds: a sink reads the objects again after a while, because they may have been moved.
func TestMemoryEnds(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	storage, calls := counting(memobjects.New(), nil)
	sink := newSink(t, storage, objectsink.Options{Clock: dedupe.Clock{Now: func() time.Time { return now }}})
	commit(t, sink, 1)
	clear(calls)
	now = now.Add(time.Hour)
	commit(t, sink, 2)
	equal(t, "reads of the hint", calls[memobjects.Get], 1)
	equal(t, "listings", calls[memobjects.List], 1)
}

// TestLostReply: if the reply to a put is lost, the object counts as written by this call.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, recognised := range []bool{true, false} {
		lost := false
		storage, _ := counting(memobjects.New(), func(ctx context.Context, c *memobjects.Call) error {
			err := c.Do(ctx)
			if c.Method == memobjects.PutIfAbsent && strings.HasPrefix(c.Key, folder) && !lost {
				lost, c.Created = true, false // as a Bucket says after a 503 and a 412
			}
			if c.Method == memobjects.Head && !recognised { // the rule, broken
				c.Metadata = maps.Clone(c.Metadata)
				c.Metadata["oncebox-writer"] = "another"
			}
			return err
		})
		committed := commit(t, newSink(t, storage, objectsink.Options{}), 1, 2)
		equal(t, "done", committed.Done, 2)
		equal(t, "written", committed.Written[0] && committed.Written[1], recognised)
		equal(t, "records", len(readAll(t, storage)), 2)
	}
}

// TestFailure: after a failed put, the records of the objects before it are done.
func TestFailure(t *testing.T) {
	t.Parallel()
	storage, calls := counting(memobjects.New(), nil)
	failing := memobjects.Hooked(storage, func(ctx context.Context, c *memobjects.Call) error {
		if c.Method == memobjects.PutIfAbsent && c.Content.Metadata["oncebox-first"] == "3" {
			return dedupe.ErrTryAgain
		}
		return c.Do(ctx)
	})
	committed, err := tryCommit(t, newSink(t, failing, objectsink.Options{ObjectSize: 16}), 1, 2, 3, 4)
	if !errors.Is(err, dedupe.ErrTryAgain) || committed.Done != 2 {
		t.Errorf("%d records are done: %v", committed.Done, err)
	}
	clear(calls)
	commit(t, newSink(t, storage, objectsink.Options{ObjectSize: 16}), 1, 2, 3, 4)
	equal(t, "objects of the rest", calls[memobjects.PutIfAbsent], 1)
	equal(t, "records", len(readAll(t, storage)), 4)
}

// TestObjectSize: an object ends between two records, when it has reached its size.
func TestObjectSize(t *testing.T) {
	t.Parallel()
	storage := memobjects.New()
	commit(t, newSink(t, storage, objectsink.Options{ObjectSize: 20}), 1, 2, 3, 4, 5)
	var sizes []string
	must(t, objectsink.List(t.Context(), storage, objectsink.Filter{}, func(e objectsink.Entry, err error) error {
		sizes = append(sizes, fmt.Sprintf("%s-%s:%d", e.First, e.Last, e.Bytes))
		return err
	}))
	equal(t, "objects", fmt.Sprint(sizes), "[1-2:16 3-4:16 5-5:8]")
}

// TestLayout: a stream keeps its encoding for ever, because another one would give a position a second name.
func TestLayout(t *testing.T) {
	t.Parallel()
	storage := memobjects.New()
	commit(t, newSink(t, storage, objectsink.Options{}), 1)
	other := newSink(t, storage, objectsink.Options{Encoding: objectsink.Encoding{Compression: objectsink.Zstd}})
	if _, err := other.Open(t.Context(), key, "2", "2"); !errors.Is(err, objectsink.ErrLayout) || errors.Is(err, dedupe.ErrTryAgain) {
		t.Errorf("another compression: %v", err)
	}
	if _, err := other.CommitLetter(t.Context(), key, "x", records(1)[0].Outputs); !errors.Is(err, objectsink.ErrLayout) {
		t.Errorf("a letter with another compression: %v", err)
	}
	names, _, err := storage.List(t.Context(), "", "")
	must(t, err)
	name := names[slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, "_layout") })]
	must(t, storage.Put(t.Context(), name, objectsink.Content{Body: []byte(`{"format":2,"extension":".ndjson.gz"}`)}))
	_, err = newSink(t, storage, objectsink.Options{}).Open(t.Context(), key, "2", "2")
	if !errors.Is(err, objectsink.ErrLayout) || !strings.Contains(err.Error(), "of format 2, and this version writes") {
		t.Errorf("of another version: %v", err)
	}
	another := key
	another.Scope = "new"
	_, err = other.Open(t.Context(), another, "2", "2")
	must(t, err)
}

// TestLayoutComesWithTheFirstObject: a batch without a record to write leaves nothing, so that a wrong format can be
// corrected. Of two sinks with different settings, only the first one to write can write.
func TestLayoutComesWithTheFirstObject(t *testing.T) {
	t.Parallel()
	storage := memobjects.New()
	wrong, right := newSink(t, storage, objectsink.Options{}), newSink(t, storage, objectsink.Options{
		Encoding: objectsink.Encoding{Format: objectsink.Raw},
	})
	var chains []dedupe.Chain
	for _, sink := range []*objectsink.Sink{wrong, right} {
		chain, err := sink.Open(t.Context(), key, "1", "1")
		must(t, err)
		chains = append(chains, chain)
	}
	_, err := chains[0].Commit(t.Context(), []dedupe.ChainRecord{{Sequence: "1"}}) // a dead letter
	must(t, err)
	keys, _, err := storage.List(t.Context(), "", "")
	must(t, err)
	equal(t, "objects", len(keys), 0)

	_, err = chains[1].Commit(t.Context(), records(1))
	must(t, err)
	if _, err = chains[0].Commit(t.Context(), records(2)); !errors.Is(err, objectsink.ErrLayout) {
		t.Errorf("two formats in one chain: %v", err)
	}
	keys, _, err = storage.List(t.Context(), "", "")
	must(t, err)
	equal(t, "objects and the layout", len(keys), 2)
}

// TestHintWrittenLater: a hint that could not be written is written by the next container. Otherwise containers that
// write few objects would have to list more and more of them.
func TestHintWrittenLater(t *testing.T) {
	t.Parallel()
	broken := true
	storage, calls := counting(memobjects.New(), func(ctx context.Context, c *memobjects.Call) error {
		if broken && c.Method == memobjects.Put {
			return dedupe.ErrTryAgain
		}
		return c.Do(ctx)
	})
	options := objectsink.Options{HintEvery: 3}
	commit(t, newSink(t, storage, options), 1)
	commit(t, newSink(t, storage, options), 2)
	commit(t, newSink(t, storage, options), 3)
	commit(t, newSink(t, storage, options), 4)
	broken = false
	clear(calls)
	commit(t, newSink(t, storage, options), 5)
	equal(t, "hints", calls[memobjects.Put], 1)
}

// TestMovedObjects: after its objects were moved, a chain continues where it ended, from the hint.
func TestMovedObjects(t *testing.T) {
	t.Parallel()
	storage := memobjects.New()
	commit(t, newSink(t, storage, objectsink.Options{HintEvery: 1}), 1)
	commit(t, newSink(t, storage, objectsink.Options{HintEvery: 1}), 5)
	storage.Delete(folder + objectsink.PositionText("0", 0) + ".ndjson.gz")
	storage.Delete(folder + objectsink.PositionText("1", 0) + ".ndjson.gz")
	commit(t, newSink(t, storage, objectsink.Options{}), 4, 5, 7)
	keys, _, err := storage.List(t.Context(), folder, "")
	must(t, err)
	equal(t, "objects", strings.Join(keys, " "), folder+objectsink.PositionText("5", 0)+".ndjson.gz "+folder+"_head")
	v, err := objectsink.Verify(t.Context(), storage, objectsink.Filter{}, func(p objectsink.Problem) { t.Error(p) })
	must(t, err)
	equal(t, "chains that begin late", v.Begun, 1)
}

// TestMovedLateObject: a late object that was moved does not block the batches that need it. The records that it had
// handled are delivered again.
func TestMovedLateObject(t *testing.T) {
	t.Parallel()
	storage := memobjects.New()
	writer := newSink(t, storage, objectsink.Options{})
	commit(t, writer, 10)
	commit(t, writer, 5) // behind 10
	commit(t, writer, 20)
	storage.Delete(folder + objectsink.PositionText("10", 0) + ".ndjson.gz")
	committed := commit(t, newSink(t, storage, objectsink.Options{}), 5, 10)
	equal(t, "records that are written", len(committed.Written), 1)
}

// TestForeignObjects: an object that does not belong to the chain is an error that names the object.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]map[string]string{
		"foreign.ndjson.gz": nil, objectsink.PositionText("0", 0) + ".ndjson.gz": nil,
		objectsink.PositionText("1", 0) + ".ndjson.gz": {"oncebox-format": "2"},
	} {
		storage := memobjects.New()
		must(t, storage.Put(t.Context(), folder+name, objectsink.Content{Metadata: metadata}))
		sink := newSink(t, storage, objectsink.Options{})
		_, err := sink.Open(t.Context(), key, "1", "1")
		if name[0] == 'f' { // behind all positions
			must(t, err)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), name) || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOrderOfListings: a storage that lists in no order, or ignores the prefix, is refused, because it would hide
// objects.
func TestOrderOfListings(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func([]string) []string{
		"backwards":      func(keys []string) []string { slices.Reverse(keys); return keys },
		"from the begin": func(keys []string) []string { return append([]string{"a"}, keys...) },
	} {
		memory := memobjects.New()
		commit(t, newSink(t, memory, objectsink.Options{}), 1, 2)
		storage, _ := counting(memory, func(ctx context.Context, c *memobjects.Call) error {
			err := c.Do(ctx)
			if c.Method == memobjects.List {
				c.Keys = change(append(c.Keys, folder+"zzz", folder+"zzzz"))
			}
			return err
		})
		_, err := newSink(t, storage, objectsink.Options{}).Open(t.Context(), key, "1", "2")
		if err == nil || !strings.Contains(err.Error(), "general purpose bucket") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLines: the line of a record in an object, or the reason why there is none.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format     objectsink.Format
		data, line string // "": poison
	}{
		{objectsink.NDJSON, `{"a": 1}`, `{"a": 1}`},
		{objectsink.NDJSON, "{\"a\": 1}\n", `{"a": 1}`},
		{objectsink.NDJSON, "\r\n {\"a\":\n 1,\r \"b\": \"x  <\\n\"}\n", `{"a":1,"b":"x  <\n"}`},
		{objectsink.NDJSON, "[1]", "[1]"},
		{objectsink.NDJSON, "a\tb", ""},
		{objectsink.NDJSON, "", ""},
		{objectsink.NDJSON, "{}{}", ""},
		{objectsink.Raw, "a\tb", "a\tb"},
		{objectsink.Raw, "a\tb\n", "a\tb"},
		{objectsink.Raw, "a\tb\r\n", "a\tb\r"},
		{objectsink.Raw, "a\nb", ""},
		{objectsink.Raw, "a\rb", ""},
		{objectsink.Raw, "\n", ""},
		{objectsink.Raw, "", ""},
	} {
		sink := newSink(t, memobjects.New(), objectsink.Options{
			Encoding: objectsink.Encoding{Format: test.format, Compression: objectsink.Uncompressed},
		})
		err := sink.Check(t.Context(), dedupe.Output{Data: []byte(test.data)})
		if _, poison := errors.AsType[*dedupe.PoisonError](err); poison != (test.line == "") {
			t.Errorf("%s %q: %v", test.format, test.data, err)
		}
		if test.line == "" {
			continue
		}
		storage := memobjects.New()
		sink = newSink(t, storage, objectsink.Options{
			Encoding: objectsink.Encoding{Format: test.format, Compression: objectsink.Uncompressed},
		})
		_, err = sink.CommitLetter(t.Context(), key, "x", []dedupe.Output{{Data: []byte(test.data)}})
		must(t, err)
		keys, _, err := storage.List(t.Context(), folder, "")
		must(t, err)
		o, err := storage.Get(t.Context(), keys[0])
		must(t, err)
		equal(t, "line of "+test.data, string(o.Body), test.line+"\n")
	}
}

// TestPositions: the names of positions sort like their values, and are read back.
func TestPositions(t *testing.T) {
	t.Parallel()
	sequences := rapid.StringMatching(`[1-9][0-9]{0,127}|0`)
	steps := rapid.IntRange(0, 99_999_999)
	rapid.Check(t, func(t *rapid.T) {
		a, b := sequences.Draw(t, "a"), sequences.Draw(t, "b")
		i, j := steps.Draw(t, "i"), steps.Draw(t, "j")
		x, y := objectsink.PositionText(a, i), objectsink.PositionText(b, j)
		m, _ := new(big.Int).SetString(a, 10)
		n, _ := new(big.Int).SetString(b, 10)
		want := m.Cmp(n)
		if want == 0 {
			want = i - j
		}
		if got := strings.Compare(x, y); got < 0 != (want < 0) || got > 0 != (want > 0) {
			t.Errorf("%s and %s sort as %d", x, y, got)
		}
		sequence, step, err := objectsink.ParsePosition(x)
		if err != nil || sequence != a || step != i {
			t.Errorf("%s is read as %s, %d: %v", x, sequence, step, err)
		}
	})
	for _, bad := range []string{
		"", "1", "001-0", "001-0-0", "001-00-00000000", "002-0-00000000", "001-x-00000000", "001-0-0000000x",
		"001-0-00000000-", "002-01-00000000", "001-0-+0000001",
	} {
		if _, _, err := objectsink.ParsePosition(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"s3://bucket": {"bucket", ""}, "s3://bucket/": {"bucket", ""}, "s3://bucket/a/b/": {"bucket", "a/b/"},
	} {
		bucket, prefix, err := objectsink.ParseSetting(text)
		must(t, err)
		equal(t, text, [2]string{bucket, prefix}, want)
	}
	for _, bad := range []string{
		"", "bucket", "dir:x", "s3://", "s3://UPPER", "s3://bucket/a//b", "s3://bucket/_a", "s3://bucket/a/_b",
		"s3://bucket/" + strings.Repeat("a", 401),
	} {
		if _, _, err := objectsink.ParseSetting(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	for _, bad := range []objectsink.Options{
		{Encoding: objectsink.Encoding{Format: "csv"}}, {Encoding: objectsink.Encoding{Compression: "lz4"}}, {ObjectSize: -1},
	} {
		if _, err := objectsink.New(memobjects.New(), bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// TestDoneIsWhatObjectsHave compares what a chain says is done with the objects that were written, in any order and overlap.
func TestDoneIsWhatObjectsHave(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		storage := memobjects.New()
		done := map[int]bool{}
		for range rapid.IntRange(1, 8).Draw(t, "batches") {
			sink, err := objectsink.New(storage, objectsink.Options{})
			if err != nil {
				t.Fatal(err)
			}
			first := rapid.IntRange(1, 30).Draw(t, "first")
			last := rapid.IntRange(first, first+6).Draw(t, "last")
			chain, err := sink.Open(context.Background(), key, fmt.Sprint(first), fmt.Sprint(last))
			if err != nil {
				t.Fatal(err)
			}
			var rest []int
			for n := first; n <= last; n++ {
				if chain.Done(fmt.Sprint(n)) != done[n] {
					t.Fatalf("record %d: want done %t", n, done[n])
				}
				if !done[n] {
					rest = append(rest, n)
				}
			}
			if len(rest) == 0 {
				continue
			}
			if _, err := chain.Commit(context.Background(), records(rest...)); err != nil {
				t.Fatal(err)
			}
			for n := rest[0]; n <= rest[len(rest)-1]; n++ {
				done[n] = true
			}
		}
	})
}
