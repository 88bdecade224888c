package logfault

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// mostPlays is the number of histories after which a mutant counts as not found.
const mostPlays = 50_000

// TestMutants checks that the histories find each broken rule of the storage, with the answers that callers got
// alone, and earlier with the log.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			judged := map[string]judges{"by all": all, "by verdicts": verdicts}
			if m.rare {
				testengine.CheckOnly(t)
				delete(judged, "by all")
			}
			for name, by := range judged {
				t.Run(name, func(t *testing.T) {
					search.First(t, mostPlays, func(seed int) error { return play(newHistory(seed), &m, by) })
				})
			}
		})
	}
}

// TestSmaller checks that a failing history is made small enough to read.
func TestSmaller(t *testing.T) {
	t.Parallel()
	m := &mutants[0]
	broken := func(h history) bool { return play(h, m, all) != nil }
	seed, _ := search.First(t, mostPlays, func(seed int) error { return play(newHistory(seed), m, all) })
	small := newHistory(seed).smaller(broken)
	if text := small.print(m, all); !broken(small) || len(small.Batches) > 3 || strings.Count(text, "\n") > 60 {
		t.Error(text)
	}
}

// sourceMutant breaks a rule in the source of the ledger.
type sourceMutant struct {
	name    string
	changes []change
	refuses bool // it only refuses records that it must accept
	rare    bool // finding it takes long, and the answers that callers got are enough to find it
}

type change mutanttest.Change

const (
	decide  = "pkg/dedupe/logledger/decide.go"
	lane    = "pkg/dedupe/logledger/lane.go"
	memory  = "pkg/dedupe/logledger/memory.go"
	ledger  = "pkg/dedupe/logledger/ledger.go"
	item    = "pkg/dedupe/logledger/item.go"
	table   = "pkg/dedupe/logledger/table.go"
	held    = "pkg/dedupe/logledger/held.go"
	making  = "internal/testkit/logfault/history.go"
	fitting = "internal/testkit/logfault/fits.go"
	appends = "data, last.PurgeAt())"
)

// purgePerItem gives each item its own purge time.
var purgePerItem = change{lane, appends, `data, func() int64 {
		if it.seal {
			return last.PurgeAt()
		}
		return Epoch{Until: it.at.greatest + last.Window.Milliseconds(), Horizon: last.Horizon}.PurgeAt()
	}())`}

// collidingKeys gives all rows of a lane the same key.
var collidingKeys = change{
	item, "return rowKey{binary.BigEndian.Uint64(k[:]), binary.BigEndian.Uint32(k[8:])}",
	"return rowKey{uint64(k[15] & 0), 1}",
}

// smallPages makes the memory so small that many entries are evicted.
var smallPages = []change{
	{table, "pageSlots = 1024", "pageSlots = 4"}, {table, "firstSlack = 64", "firstSlack = 1"},
	{held, "heldPageItems = 256", "heldPageItems = 2"}, {making, "memoryUnit  = 50_000", "memoryUnit  = 400"},
	{fitting, "pageEntries = 1024", "pageEntries = 4"}, {fitting, "slackAtEnd  = 64", "slackAtEnd  = 1"},
	{fitting, "pageItems   = 256", "pageItems   = 2"},
}

var sourceMutants = []sourceMutant{
	{name: "only-earlier-rows-count", changes: []change{{
		memory, "since: it.at.least - window, until", "since: it.at.least, until",
	}}},
	{name: "first-row-only", changes: []change{{
		decide, "of.derived())\n\t\treturn true", "of.derived())\n\t\treturn false",
	}}},
	{name: "mine-left-out", changes: []change{{decide, "case mine:", "case mine && false:"}}},
	{name: "floor-unchecked", changes: []change{{lane, "if l.wanted < l.floor {", "if false {"}}},
	{name: "load-ends-at-the-window", changes: []change{{
		lane, "rows, err := l.readSealed(ctx, e, l.epochs[0].Sealed)",
		"rows := 0\n if e.Start <= l.wanted+e.Window.Milliseconds() { rows, err = l.readSealed(ctx, e, l.epochs[0].Sealed) }",
	}}},
	{name: "begin-searched-among-arrivals", changes: []change{{
		lane, "if err := l.hold(e, i.Index, it); err != nil {",
		`if it.at.greatest+e.Window.Milliseconds() < l.wanted { l.drop(func(*held) bool { return true }) }
		if err := l.hold(e, i.Index, it); err != nil {`,
	}}},
	{name: "one-endless-log", changes: []change{{lane, "it.at.greatest >= last.Ends || ", ""}, purgePerItem}},
	{name: "longer-window-in-an-epoch", changes: []change{{lane, "keep.Window > last.Window || ", ""}}},
	{name: "purge-per-item", changes: []change{purgePerItem}},
	{name: "unread-seal-passed", changes: []change{{
		lane, "if len(items) == 0 && consistent {\n\t\t\treturn rows, l.purgedError(e, next)",
		"if len(items) == 0 {\n\t\t\treturn rows, nil",
	}}},
	{name: "other-lanes-accepted", changes: []change{{ledger, "case e.Lanes != l.lanes:", "case false:"}}},
	{name: "derived-mark-lost", changes: []change{{memory, "r |= derivedMark", "r |= 0"}}},
	{name: "batch-not-seen", changes: []change{{decide, "range d.fresh[r.key] {", "range d.fresh[r.key][:0] {"}}},
	{name: "duplicates-by-any-read", changes: []change{{decide, "done, err = l.current(ctx)", "done = true"}}},
	{name: "epoch-read-after-its-seal", refuses: true, changes: []change{{
		lane, "if begun != nil {", "if begun, err = l.nextEpoch(ctx); err != nil { return err }\nif begun != nil {",
	}}},
	{name: "evicted-without-a-floor", changes: append(smallPages, change{memory, "l.floor = l.epochs[n-1].Until", ""})},
	{name: "derived-mark-lost-in-a-move", changes: append(smallPages, change{
		table, "moved[s.ref.item()] | s.ref&derivedMark", "moved[s.ref.item()]",
	})},
	{name: "content-without-the-key", changes: []change{collidingKeys, {
		item, "append(append(text, k[:]...), fingerprint...)", "append(text, fingerprint...)",
	}}},
	{name: "item-with-wrong-arrivals", changes: []change{{
		decide, "at: arrivals{run[0].arrival, run[0].arrival}",
		"at: arrivals{run[0].arrival - 3000*int64(1/len(run)), run[0].arrival}",
	}}},
	{name: "stuck-after-a-lost-reply", refuses: true, changes: []change{
		{lane, "type lane struct {\n", "type lane struct {\n\tfailed error\n"},
		{lane, "\tif l.wanted < l.complete {", "\tif l.failed != nil { return l.failed }\n\tif l.wanted < l.complete {"},
		{lane, "\t\tl.alone = false\n\t\treturn false, err", "\t\tif ctx.Err() == nil { l.failed = err }\n\t\treturn false, err"},
	}},
	{name: "memory-not-given-back", refuses: true, changes: []change{{ledger, "l.giveBack(q.Scope, least)", ""}}},
	{name: "arrival-ahead-refused", refuses: true, changes: []change{{
		ledger, "farthestAhead = time.Hour", "farthestAhead = 59 * time.Minute",
	}}},
	{name: "memory-taken-from-a-running-call", rare: true, changes: append(smallPages, change{
		ledger, "if lane.tryLock() {\n\t\t\t\tlane.giveBack(arrival)\n\t\t\t\tlane.unlock()\n\t\t\t}",
		"lane.giveBack(arrival)",
	})},
	{name: "part-of-a-load-is-all", rare: true, changes: []change{{
		lane, "if l.floor = floor; i > 0 {", "if l.floor = floor; false {",
	}}},
	{name: "only-some-rows-of-a-key", changes: []change{{
		table, "for i := t.find(k); i < t.slots(); i++ {",
		"for i, first := t.find(k), t.find(k); i < t.slots() && i < first+16; i++ {",
	}}},
}

// TestSourceMutants checks that the histories find each broken rule of the ledger.
func TestSourceMutants(t *testing.T) {
	testengine.CheckOnly(t)
	built := build(t, sourceMutants)
	if output, err := search.In(t, built.Intact(), "-seed=0", "-seeds=100"); err != nil {
		t.Fatalf("without a mutant: %v\n%s", err, output)
	}
	for _, m := range sourceMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			bin := built.Of(t, m.name)
			for name, flag := range map[string]string{"by all": "-verdicts=false", "by verdicts": "-verdicts=true"} {
				if m.refuses && flag == "-verdicts=true" || m.rare && flag == "-verdicts=false" {
					continue
				}
				t.Run(name, func(t *testing.T) { search.FirstIn(t, bin, mostPlays, flag) })
			}
		})
	}
}

// TestVariants checks that the histories find no violation if the memory is very small, so that much is evicted, or
// if all keys of a lane collide.
func TestVariants(t *testing.T) {
	testengine.CheckOnly(t)
	variants := []sourceMutant{
		{name: "small-pages", changes: smallPages},
		{name: "colliding-keys", changes: []change{collidingKeys}},
	}
	built := build(t, variants)
	for _, m := range variants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if output, err := search.In(t, built.Of(t, m.name)); err != nil {
				t.Error(output)
			}
		})
	}
}

// build builds this test with the changes of the source.
func build(t *testing.T, mutants []sourceMutant) mutanttest.Binaries {
	t.Helper()
	var all []mutanttest.Mutant
	for _, m := range mutants {
		one := mutanttest.Mutant{Name: m.name}
		for _, c := range m.changes {
			one.Changes = append(one.Changes, mutanttest.Change(c))
		}
		all = append(all, one)
	}
	return mutanttest.Build(t, "../../..", "internal/testkit/logfault", all...)
}
