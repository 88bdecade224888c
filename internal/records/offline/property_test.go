package offline

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// plan is a random job: its lines and its options.
type plan struct {
	files                      [][]sample
	owners, times              bool // whether owners and times are read from the records
	window                     time.Duration
	passNatural, passSynthetic bool
	ids                        IDs
}

// sample is a line with its parts.
type sample struct {
	text, reason  string // if it has a reason, the record is poison
	blank         bool
	id, fp, owner string
	time          int64
	fixed         bool // its contexts cannot be changed, so that it cannot get a new id
}

// drawPlan draws few different ids, fingerprints and owners, so that records share them. Some ids are derived from
// others, and some are UUIDs in both cases.
func drawPlan(t *rapid.T) plan {
	p := plan{
		owners: rapid.Bool().Draw(t, "owners"), times: rapid.Bool().Draw(t, "times"),
		window:      time.Duration(rapid.IntRange(0, 3).Draw(t, "window")) * 10 * time.Second,
		passNatural: rapid.Bool().Draw(t, "pass natural"), passSynthetic: rapid.Bool().Draw(t, "pass synthetic"),
		ids: rapid.SampledFrom([]IDs{FirstKeeps, Derived, RenameAll}).Draw(t, "policy"),
	}
	p.passSynthetic = p.passSynthetic && p.ids == FirstKeeps
	ids := []string{"a", "b", "6F9619FF-8B86-D011-B42D-00CF4FC964FF", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}
	ids = append(ids, format.DerivedID("a", "x"), format.DerivedID("a", "y"), format.DerivedID(format.DerivedID("a", "x"), "x"))
	line := rapid.Custom(func(t *rapid.T) sample {
		s := sample{
			id: rapid.SampledFrom(ids).Draw(t, "id"), fp: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fp"),
			owner: rapid.SampledFrom([]string{"o1", "o2", "o3"}).Draw(t, "owner"), time: rapid.Int64Range(0, 60).Draw(t, "time"),
			fixed: rapid.IntRange(0, 9).Draw(t, "fixed") == 0,
		}
		s.text = fmt.Sprintf(`{"id":%q,"fp":%q,"o":%q,"t":%d}`, s.id, s.fp, s.owner, s.time)
		if s.fixed {
			s.text = s.text[:len(s.text)-1] + `,"contexts":{}}`
		}
		switch rapid.IntRange(0, 19).Draw(t, "kind") {
		case 0:
			return sample{text: rapid.SampledFrom([]string{"", " ", "\r"}).Draw(t, "blank"), blank: true}
		case 1:
			return sample{text: s.text[:len(s.text)-1], reason: "not valid JSON"}
		}
		return s
	})
	p.files = rapid.SliceOfN(rapid.SliceOfN(line, 0, 12), 1, 3).Draw(t, "files")
	return p
}

func (p plan) inputs() (list []string) {
	for _, f := range p.files {
		var text strings.Builder
		for _, s := range f {
			text.WriteString(s.text + "\n")
		}
		list = append(list, text.String())
	}
	return list
}

func (p plan) set(j *Job) {
	j.Format = inJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	if p.owners {
		setFormat(j, func(o *format.Options) { o.OwnerPath = "o" })
	}
	if p.times {
		setFormat(j, func(o *format.Options) { o.TimePath = "t" })
	}
	if p.window > 0 {
		j.Retention = dedupe.Retention{Window: p.window}
	}
	j.PassNatural, j.PassSynthetic, j.IDs = p.passNatural, p.passSynthetic, p.ids
	j.PoisonLimit.Off = true // most of a few lines may be poison
}

// model decides the lines one by one with the rules, without batches and without an engine.
type model struct {
	plan
	entries          map[format.Key]*modelEntry
	fps              map[format.Key]map[string]bool // the fingerprints of all records, by key
	out, deadLetters strings.Builder
	tally            dedupe.Tally
	listed           []string // as listed returns them
}

// list lists a line that is not written unchanged.
func (m *model) list(action, id string) {
	m.listed = append(m.listed, fmt.Sprint(m.tally.In, action, id))
}

// listed returns the lines of a listing without their outcomes, because lines of a killed run may be retries.
func (b *bench) listed() (list []string, outcomes map[string]int64) {
	b.Helper()
	rows, err := csv.NewReader(strings.NewReader(b.read("listing"))).ReadAll()
	if err != nil {
		b.Fatal(err)
	}
	outcomes = map[string]int64{}
	for _, row := range rows[1:] {
		list = append(list, fmt.Sprint(row[0], row[4], row[6]))
		outcomes[row[3]]++
	}
	return list, outcomes
}

// wantListed compares the listing of a run that was not killed with its tally.
func (b *bench) wantListed(t dedupe.Tally) {
	b.Helper()
	_, got := b.listed()
	if got[listedNatural] != t.Natural || got[listedSynthetic] != t.Synthetic || got[listedDeadLettered] != t.DeadLettered {
		b.Errorf("%v are listed, and the tally is %+v", got, t)
	}
}

type modelEntry struct {
	owner, fp string
	purge     int64
}

func (p plan) expect() *model {
	m := &model{plan: p, entries: map[format.Key]*modelEntry{}, fps: map[format.Key]map[string]bool{}}
	for _, s := range slices.Concat(p.files...) {
		if key := format.KeyOf(s.id); !s.blank && s.reason == "" {
			if m.fps[key] == nil {
				m.fps[key] = map[string]bool{}
			}
			m.fps[key][s.fp] = true
		}
	}
	for f, lines := range p.files {
		for i, s := range lines {
			m.line(f, i, s)
		}
	}
	return m
}

func (m *model) line(file, i int, s sample) {
	m.tally.In++
	outcome, id := dedupe.Undecided, ""
	if !s.blank && s.reason == "" {
		owner, arrival := fmt.Sprint(file, i), int64(0)
		if m.owners {
			owner = s.owner
		}
		if m.times {
			arrival = s.time
		}
		outcome, id = m.decide(s, owner, arrival)
	}
	switch {
	case outcome == dedupe.NoID:
		s.reason = noIDLeft
	case outcome != dedupe.Undecided && outcome != dedupe.Natural && id != s.id && s.fixed:
		s.reason = "the contexts are not an array"
	}
	switch {
	case s.blank:
		m.tally.Skipped++
		return
	case s.reason != "":
		m.tally.DeadLettered++
		m.list(actionDeadLettered, "")
		m.deadLetters.WriteString(deadLetterAs(string(rune('a'+file)), int64(i+1), s.reason, s.text))
		return
	case outcome == dedupe.Natural:
		m.tally.Natural++
		if !m.passNatural {
			m.list(actionDropped, "")
			return
		}
		m.list(actionPassed, "")
		id = s.id
	case outcome == dedupe.New:
		m.tally.New++
	case outcome == dedupe.Retry:
		m.tally.Retry++
	case outcome == dedupe.Synthetic:
		m.tally.Synthetic++
	}
	m.tally.Out++
	if id == s.id && outcome == dedupe.Synthetic {
		m.list(actionPassed, "")
	}
	if id != s.id {
		m.list(actionRenamed, id)
		s.text = strings.Replace(s.text, fmt.Sprintf("%q", s.id), fmt.Sprintf("%q", id), 1)
		s.text = s.text[:len(s.text)-1] + `,"contexts":[` + duplicate(s.id) + "]}"
	}
	m.out.WriteString(s.text + "\n")
}

func (m *model) decide(s sample, owner string, arrival int64) (dedupe.Outcome, string) {
	if m.ids == Derived {
		return m.enter(format.DerivedID(s.id, s.fp), s.fp, owner, arrival)
	}
	outcome, id := m.enter(s.id, s.fp, owner, arrival)
	if m.ids == RenameAll && len(m.fps[format.KeyOf(id)]) > 1 && id == s.id && outcome != dedupe.Natural {
		return m.enter(format.DerivedID(id, s.fp), s.fp, owner, arrival)
	}
	return outcome, id
}

func (m *model) enter(id, fp, owner string, arrival int64) (dedupe.Outcome, string) {
	purge := arrival + int64(m.window/time.Second)
	for derived := 0; ; derived++ {
		e := m.entries[format.KeyOf(id)]
		switch {
		case e == nil || m.window > 0 && e.purge < arrival:
			m.entries[format.KeyOf(id)] = &modelEntry{owner, fp, purge}
			if derived > 0 {
				return dedupe.Synthetic, id
			}
			return dedupe.New, id
		case e.owner == owner:
			return dedupe.Retry, id
		case e.fp == fp:
			return dedupe.Natural, id
		case m.passSynthetic:
			return dedupe.Synthetic, id
		case derived == 3:
			return dedupe.NoID, ""
		}
		e.purge = max(e.purge, purge)
		id = format.DerivedID(id, fp)
	}
}

// TestModel compares random runs with the model, in batches of any size, and killed up to twice. If records name their
// owners, a record that was decided before the kill is a retry after it, so tallies are not compared then.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		want := p.expect()
		b := newBench(t, p.inputs()...)
		p.set(&b.job)
		b.job.Listing = b.path("listing")
		b.tick = rapid.SampledFrom([]time.Duration{0, recordEvery / 3, recordEvery}).Draw(rt, "tick")
		deaths := rapid.IntRange(0, 2).Draw(rt, "deaths")
		for range deaths {
			b.job.BatchSize = rapid.IntRange(1, 9).Draw(rt, "batch size")
			b.die(rapid.IntRange(1, 40).Draw(rt, "death"), deathMode(rapid.IntRange(0, int(modes)-1).Draw(rt, "mode")))
			if b.finished() && b.read("out.run") == "" {
				break
			}
		}
		b.job.BatchSize = rapid.IntRange(1, 9).Draw(rt, "batch size")
		if b.read("out.run") != "" || !b.finished() {
			got := b.run()
			if exact := deaths == 0 || !p.owners; exact && got.Tally != want.tally {
				rt.Fatalf("want tally %+v, got %+v", want.tally, got.Tally)
			} else if exact {
				b.wantListed(got.Tally)
			}
		}
		if got := b.read("out"); got != want.out.String() {
			rt.Fatalf("want output\n%s\ngot\n%s", want.out.String(), got)
		}
		if got := b.read("dead"); got != want.deadLetters.String() {
			rt.Fatalf("want deadLetters\n%s\ngot\n%s", want.deadLetters.String(), got)
		}
		if got, _ := b.listed(); !slices.Equal(got, want.listed) {
			rt.Fatalf("want the listing\n%q\ngot\n%q", want.listed, got)
		}
	})
}

// TestPreview checks that a preview reports what the run then does, and changes nothing. Its listing equals the
// run's.
func TestPreview(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		b := newBench(t, p.inputs()...)
		p.set(&b.job)
		if rapid.Bool().Draw(rt, "unfinished") {
			b.job.BatchSize, b.tick = 2, recordEvery
			b.die(rapid.IntRange(1, 40).Draw(rt, "death"), after)
		} else {
			b.run()
		}
		b.job.Out, b.job.DeadLetters, b.job.Listing = "", b.path("unused"), b.path("preview")
		b.job.Inputs = texts(drawPlan(rt).inputs()...)
		b.job.BatchSize, b.tick = rapid.IntRange(1, 9).Draw(rt, "batch size"), 0
		entries, runs := b.store.Entries(), b.store.Runs()
		job := b.job
		b.job.Store, b.job.Preview = NewPreview(b.store, memstore.NewRecords()), true
		previewed, err := b.job.Run(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(entries, b.store.Entries()) || !reflect.DeepEqual(runs, b.store.Runs()) || b.read("unused") != "" {
			rt.Fatal("the preview has changed something")
		}
		var out bytes.Buffer
		b.job = job
		b.job.Listing, b.job.Stream = b.path("listing"), &out
		got, err := b.job.Run(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if got.Tally != previewed.Tally || b.read("preview") != b.read("listing") {
			rt.Fatalf("previewed %+v\n%s\ngot %+v\n%s", previewed.Tally, b.read("preview"), got.Tally, b.read("listing"))
		}
	})
}

// TestPreviewRaises checks that a synthetic duplicate extends the life of its id's entry in a preview, too.
func TestPreviewRaises(t *testing.T) {
	t.Parallel()
	line := func(fp string, second int) string { return fmt.Sprintf(`{"id":"a","fp":%q,"t":%d}`+"\n", fp, second) }
	b := newBench(t, line("x", 0))
	b.job.Retention = dedupe.Retention{Window: 10 * time.Second}
	setFormat(&b.job, func(o *format.Options) { o.TimePath = "t" })
	b.run()
	b.job.Store, b.job.Preview, b.job.Out = NewPreview(b.store, memstore.NewRecords()), true, ""
	b.job.Inputs = texts(line("y", 8) + line("x", 15))
	b.wantTally(b.run().Tally, dedupe.Tally{In: 2, Synthetic: 1, Natural: 1, Out: 1})
}

func (b *bench) finished() bool {
	for _, r := range b.store.Runs() {
		return r.Finished
	}
	return false
}
