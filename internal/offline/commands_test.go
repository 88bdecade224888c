package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/commandpairs"
	"github.com/oncebox/oncebox/internal/dedupefault"
	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var (
	sequences = flag.Int("sequences", 300, "how many sequences of commands TestCommands plays")
	sequence  = flag.Int("sequence", -1, "TestCommands plays the sequence of this seed alone, and prints it with -v")
)

// TestCommands plays random sequences of commands on one ledger: runs over files with inputs that grow, options that
// change and outputs that differ, killed or suspended after any of their calls, or stopped by an error; two at a time;
// with a function in the scope. After each of them it checks G13, and that no record is in two outputs.
//
//	go test ./internal/offline -run TestCommands -sequences=100000
func TestCommands(t *testing.T) {
	t.Parallel()
	first, last := 0, *sequences
	if *sequence >= 0 {
		first, last = *sequence, *sequence+1
	}
	for seed := first; seed < last; seed++ {
		if err := playCommands(t, uint64(seed), commandMutant{}); err != nil {
			t.Fatalf("sequence %d: %v", seed, err)
		}
	}
}

// commandMutant is a ledger with one rule broken.
type commandMutant struct {
	name  string
	judge memstore.Judge
	blind bool
	hook  func(*memstore.Records) dedupefault.Hook
}

var commandMutants = []commandMutant{
	{name: "closed-run-counts", judge: func(_ bool, err error) (bool, error) { return false, err }},
	{name: "unsaved-entry-counts", judge: func(void bool, err error) (bool, error) {
		if _, atWork := errors.AsType[*dedupe.RunAtWorkError](err); atWork {
			return false, nil
		}
		return void, err
	}},
	{name: "unsaved-entry-is-free", judge: func(void bool, err error) (bool, error) {
		if _, atWork := errors.AsType[*dedupe.RunAtWorkError](err); atWork {
			return true, nil
		}
		return void, err
	}},
	{name: "take-over-whatever-the-owner", blind: true},
	{name: "closed-run-saves", hook: func(s *memstore.Records) dedupefault.Hook {
		return func(ctx context.Context, c *dedupefault.Call) error {
			err := c.Do(ctx)
			if c.Method == dedupefault.SaveRun && errors.Is(err, dedupe.ErrReplaced) {
				s.Replace(c.Scope, *c.Run)
				return nil
			}
			return err
		}
	}},
}

// TestCommandMutants: the sequences find each mutant.
func TestCommandMutants(t *testing.T) {
	t.Parallel()
	const most = 5_000
	for _, m := range commandMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(most) {
				if err := playCommands(t, seed, m); err != nil {
					t.Logf("found by sequence %d: %v", seed, err)
					return
				}
			}
			t.Errorf("%d sequences do not find it", most)
		})
	}
}

// content is what makes a record unique: its id as it came, and its fingerprint.
type content struct{ ID, FP string }

// commands is a sequence of commands, and its model.
type commands struct {
	testing.TB
	random   *rand.Rand
	store    *memstore.Records
	calls    dedupe.Store // the store, or a mutant of it
	dir      string
	now      time.Time
	policy   IDs
	lines    []content                // of all inputs: a command reads some first lines
	streams  map[string]*bytes.Buffer // what each run has printed
	finished map[content]bool         // the records that finished runs have read, or the function has decided
	function []content                // what the function has delivered
	open     []dedupe.Candidate       // of the function: what it has not decided, and comes again
	deciding [][]dedupe.Candidate
	sequence int // of the function's next record
	within   int // how many commands run at the moment
	names    int
	wrong    error
}

const commandScope = "s"

// playCommands plays the sequence of a seed and returns what is wrong.
func playCommands(t testing.TB, seed uint64, m commandMutant) error {
	dir, err := os.MkdirTemp(fastTemp(), "commands-*") //nolint:usetesting // in memory, and removed after each sequence
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := &commands{
		TB: t, random: rand.New(rand.NewPCG(seed, 29)), store: memstore.NewRecords(), dir: dir,
		now:     time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		streams: map[string]*bytes.Buffer{}, finished: map[content]bool{},
	}
	c.policy = []IDs{FirstKeeps, FirstKeeps, Derived}[c.random.IntN(3)]
	c.store.SetNow(func() time.Time { return c.now })
	c.store.SetJudge(m.judge)
	c.store.SetBetween(func() {
		if c.within < 3 && c.random.IntN(4) == 0 {
			c.note(c.deliver(new(commandpairs.Process)))
		}
	}, m.blind)
	c.calls = c.store
	if m.hook != nil {
		c.calls = dedupefault.HookStore(c.store, m.hook(c.store))
	}
	for range 6 + c.random.IntN(30) {
		c.lines = append(c.lines, content{string(rune('a' + c.random.IntN(14))), string(rune('x' + c.random.IntN(2)))})
	}
	for range 2 + c.random.IntN(5) {
		c.step()
		if c.wrong != nil {
			return c.wrong
		}
	}
	c.now = c.now.Add(2 * dedupe.RestAfter)
	c.note(c.last())
	return c.wrong
}

// note keeps the first error.
func (c *commands) note(err error) {
	if c.wrong == nil {
		c.wrong = err
	}
}

// step runs a command, or two at a time, and checks the outputs.
func (c *commands) step() {
	n := c.random.IntN(40)
	a, b := c.command(), c.command()
	switch c.random.IntN(5) {
	case 0:
		c.note(a(new(commandpairs.Process)))
	case 1, 2:
		_, err := commandpairs.Kill(n, a, b)
		c.note(err)
	default:
		_, err := commandpairs.Suspend(n, a, b)
		c.note(err)
	}
	c.now = c.now.Add([]time.Duration{0, time.Second, 2 * dedupe.RestAfter}[c.random.IntN(3)])
	c.check("after a step")
}

func (c *commands) command() commandpairs.Command {
	if c.random.IntN(4) == 0 {
		return c.deliver
	}
	return c.dedupe()
}

// deliver runs the function on some records, and on those that it could not decide before.
func (c *commands) deliver(p *commandpairs.Process) error {
	c.within++
	defer func() { c.within-- }()
	batch := c.open
	c.open = nil
	for range c.random.IntN(4) {
		line := c.lines[c.random.IntN(len(c.lines))]
		c.sequence++
		batch = append(batch, dedupe.Candidate{
			ID: line.ID, Fingerprint: line.FP, Version: "v", Arrival: c.now, Derive: c.policy == Derived,
			Owner: dedupe.Owner{Source: "1/eu/orders/0", Sequence: fmt.Sprint(c.sequence), Sub: dedupe.Plain},
		})
	}
	if len(batch) == 0 {
		return nil
	}
	decider := dedupe.Decider{
		Ledger: dedupefault.HookStore(c.calls, between(p)), Scope: commandScope, Retention: dedupe.Retention{ForGood: true},
		Clock: c.pauses(false),
	}
	c.deciding = append(c.deciding, batch)
	decisions := decider.Decide(context.Background(), batch)
	c.deciding = slices.DeleteFunc(c.deciding, func(b []dedupe.Candidate) bool { return &b[0] == &batch[0] })
	for i, d := range decisions {
		record := content{batch[i].ID, batch[i].Fingerprint}
		switch d.Outcome {
		case dedupe.New, dedupe.Synthetic:
			c.function = append(c.function, record)
		case dedupe.Retry: // its entry was put, and the answer was lost
			if !slices.Contains(c.function, record) {
				c.function = append(c.function, record)
			}
		case dedupe.Undecided:
			c.open = append(c.open, batch[i])
			continue
		}
		c.finished[record] = true
	}
	if errors.Is(p.Over(), commandpairs.ErrKilled) {
		return commandpairs.ErrKilled
	}
	return p.Over()
}

// between calls a process around each call of a store.
func between(p *commandpairs.Process) dedupefault.Hook {
	return func(ctx context.Context, call *dedupefault.Call) error {
		if err := p.Before(); err != nil {
			return err
		}
		err := call.Do(ctx)
		return errors.Join(err, p.After())
	}
}

// dedupe returns a command over files.
func (c *commands) dedupe() commandpairs.Command {
	lines := c.lines[:1+c.random.IntN(len(c.lines))]
	if c.random.IntN(3) == 0 {
		lines = c.lines[c.random.IntN(len(c.lines)):]
	}
	var inputs []string
	cut := c.random.IntN(len(lines) + 1)
	for _, part := range [][]content{lines[:cut], lines[cut:]} {
		var text strings.Builder
		for _, line := range part {
			text.WriteString(rec(line.ID, line.FP))
		}
		inputs = append(inputs, text.String())
	}
	options := format.Options{IDPath: "id", FingerprintPath: "fp"}
	if c.random.IntN(4) == 0 {
		options.Volatile = []string{"other"} // another run, with the same results
	}
	name := fmt.Sprint("out", c.random.IntN(4+c.names/2))
	c.names++
	stream := c.random.IntN(6) == 0
	compression := []Compression{NotCompressed, NotCompressed, Gzip}[c.random.IntN(3)]
	size := 1 + c.random.IntN(6)
	fails, patient := -1, c.random.IntN(3) == 0
	if c.random.IntN(5) == 0 {
		fails = c.random.IntN(25)
	}
	return func(p *commandpairs.Process) error {
		c.within++
		defer func() { c.within-- }()
		calls := 0
		files := mortalFiles{p}
		var printed bytes.Buffer
		j := Job{
			Inputs: texts(inputs...), Format: inJSON(options), Scope: commandScope, IDs: c.policy,
			Retention: dedupe.Retention{ForGood: true}, BatchSize: size, Compression: compression,
			Out: filepath.Join(c.dir, name), DeadLetters: filepath.Join(c.dir, name+".dead"),
			Now: c.clock, beatEvery: -1, open: files.open, clock: c.pauses(patient),
			Store: dedupefault.HookStore(c.calls, func(ctx context.Context, call *dedupefault.Call) error {
				if calls++; calls == fails {
					return dedupe.ErrTryAgain
				}
				if call.Method == dedupefault.SaveRun {
					c.streams[call.Run.ID] = &printed
				}
				return between(p)(ctx, call)
			}),
		}
		if stream {
			j.Out, j.Stream = "", &printed
		}
		r, err := j.Run(context.Background())
		if *sequence >= 0 {
			c.Logf("%s, %d lines, stream %t, killed %v: %+v, %v", name, len(lines), stream, p.Over(), r, err)
		}
		switch {
		case errors.Is(p.Over(), commandpairs.ErrKilled):
			return commandpairs.ErrKilled
		case p.Over() != nil:
			return p.Over()
		case err == nil:
			for _, line := range lines {
				c.finished[line] = true
			}
		case errors.Is(err, ErrRefused), errors.Is(err, ErrStopped), errors.Is(err, dedupe.ErrTryAgain),
			errors.Is(err, dedupe.ErrReplaced):
		default:
			return err
		}
		c.check("while others are at work")
		return nil
	}
}

// pauses returns the clock of a command. If it is not patient, it gives up instead of waiting for a run at work. If it
// is, a run that is suspended meanwhile counts as stopped.
func (c *commands) pauses(patient bool) dedupe.Clock {
	return dedupe.Clock{
		Now: func() time.Time { return c.now },
		Pause: func(context.Context, time.Duration) error {
			if !patient {
				return errNoPause
			}
			c.now = c.now.Add(dedupe.RestAfter / 2)
			return nil
		},
	}
}

// clock moves on by parts of the time after which a run saves itself.
func (c *commands) clock() time.Time {
	c.now = c.now.Add(recordEvery / 2)
	return c.now
}

// mortalFiles opens files whose calls are calls of a process.
type mortalFiles struct{ process *commandpairs.Process }

func (m mortalFiles) open(path string, flag int) (file, error) {
	if err := m.process.Before(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err := errors.Join(err, m.process.After()); err != nil {
		return nil, err
	}
	return killableFile{f, m.process}, nil
}

type killableFile struct {
	*os.File
	process *commandpairs.Process
}

func (f killableFile) Write(b []byte) (n int, err error) {
	if err := f.process.Before(); err != nil {
		return 0, err
	}
	n, err = f.File.Write(b)
	return n, errors.Join(err, f.process.After())
}

func (f killableFile) Sync() error {
	if err := f.process.Before(); err != nil {
		return err
	}
	return f.process.After()
}

func (f killableFile) Truncate(size int64) error {
	if err := f.process.Before(); err != nil {
		return err
	}
	return errors.Join(f.File.Truncate(size), f.process.After())
}

// last reads all records in one more run. After that, each record is in the outputs once.
func (c *commands) last() error {
	var text strings.Builder
	for _, line := range c.lines {
		text.WriteString(rec(line.ID, line.FP))
	}
	j := Job{
		Inputs: texts(text.String()), Format: inJSON(format.Options{IDPath: "id", FingerprintPath: "fp"}), Scope: commandScope,
		IDs: c.policy, Retention: dedupe.Retention{ForGood: true}, Out: filepath.Join(c.dir, "last"),
		DeadLetters: filepath.Join(c.dir, "last.dead"), Now: c.clock, beatEvery: -1, Store: c.calls,
		clock: c.pauses(true),
	}
	if _, err := j.Run(context.Background()); err != nil {
		return fmt.Errorf("the last run: %w", err)
	}
	for _, line := range c.lines {
		c.finished[line] = true
	}
	if err := c.deliver(new(commandpairs.Process)); err != nil || len(c.open) > 0 {
		return fmt.Errorf("the function cannot decide %+v: %w", c.open, err)
	}
	c.check("at the end")
	return nil
}

// check checks the outputs that count: of the function, and of all runs up to what they have saved.
func (c *commands) check(when string) {
	counts := map[content]int{}
	for _, record := range c.function {
		counts[record]++
	}
	for _, r := range c.store.Runs() {
		var text []byte
		about := AboutRun(r)
		switch {
		case r.Finished && about.File == "":
			text = c.streams[r.ID].Bytes()
		case r.Output > 0:
			var err error
			if text, err = os.ReadFile(about.File); err != nil || int64(len(text)) < r.Output {
				c.note(fmt.Errorf("%s: %s has %d of %d bytes: %w", when, about.File, len(text), r.Output, err))
				return
			}
			text = text[:r.Output]
		}
		records, err := recordsIn(text)
		if err != nil {
			c.note(fmt.Errorf("%s: run %s up to %d bytes: %w", when, r.ID, r.Output, err))
			return
		}
		for _, record := range records {
			counts[record]++
		}
	}
	coming := map[content]bool{} // the function may have put their entries already
	for _, batch := range append(slices.Clone(c.deciding), c.open) {
		for _, candidate := range batch {
			coming[content{candidate.ID, candidate.Fingerprint}] = true
		}
	}
	for record := range c.finished {
		if counts[record] == 0 && !coming[record] {
			c.note(fmt.Errorf("%s: G13: %v is lost: a finished run has read it, and no output has it", when, record))
		}
	}
	for record, n := range counts {
		if n > 1 {
			c.note(fmt.Errorf("%s: G7: %v is in the outputs %d times", when, record, n))
		}
	}
}

// recordsIn reads the records of an output, which may be compressed.
func recordsIn(text []byte) (records []content, err error) {
	unpacked, err := Input{Name: "out", Size: Unknown, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}}.open(context.Background())
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(unpacked); ; {
		var line struct {
			ID, FP   string
			Contexts []struct {
				Data struct{ OriginalEventID string }
			}
		}
		err := d.Decode(&line)
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		if len(line.Contexts) > 0 {
			line.ID = line.Contexts[0].Data.OriginalEventID
		}
		records = append(records, content{line.ID, line.FP})
	}
}
