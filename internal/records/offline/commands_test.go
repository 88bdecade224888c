package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/commandpairs"
	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestCommands plays random sequences of commands on one ledger: runs over files and over dead letters, with inputs that
// grow, options that change and outputs that differ; published runs, undone runs, imports, compactions, and a function in
// the scope. They are killed or suspended after any of their calls, or stopped by an error or by a reply that is lost;
// two at a time, and the same command again. After each of them it checks G13 and G7.
//
//	go test ./internal/records/offline -run TestCommands -seeds=100000
func TestCommands(t *testing.T) {
	t.Parallel()
	const enough = 250 // so that each kind of commands is successful
	plays, played, done := enough, 0, map[kind]int{}
	if testing.Short() {
		plays = 100
	}
	search.Histories(t, 0, plays, func(seed int) error {
		played++
		return playCommands(t, seed, commandMutant{}, done)
	})
	t.Logf("commands that came to their end: %v", done)
	for _, w := range worlds {
		for _, kind := range w.commands {
			if played >= enough && done[kind] == 0 {
				t.Errorf("no command was successful: %s", kind)
			}
		}
	}
}

// kind is a kind of commands.
type kind string

const (
	processing kind = "dedupe"
	redriving  kind = "dedupe --records dead-letters"
	publishing kind = "dedupe --publish"
	replacing  kind = "dedupe --replace-run"
	importing  kind = "ledger import"
	compacting kind = "ledger compact"
	delivering kind = "the function"
)

// world is the kind of a ledger, and the commands that are possible on it. In memory, the clock of the test tells which
// runs have stopped, and rules can be broken. Each command opens a ledger in a file for itself, as a process does.
type world struct {
	inMemory  bool
	retention dedupe.Retention
	commands  []kind
}

var worlds = []world{
	{true, dedupe.Retention{ForGood: true}, []kind{processing, processing, processing, redriving, importing, delivering}},
	// No run can be undone in a scope with a function or a window.
	{false, dedupe.Retention{ForGood: true}, []kind{processing, redriving, publishing, replacing, replacing, importing}},
	{false, dedupe.Retention{Window: time.Hour}, []kind{
		processing, processing, redriving, publishing, importing, compacting, compacting, delivering,
	}},
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
	for _, m := range commandMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			search.First(t, 5_000, func(seed int) error { return playCommands(t, seed, m, map[kind]int{}) })
		})
	}
}

// content is what makes a record unique: its id as it came, and its fingerprint.
type content struct{ ID, FP string }

// old reports whether the record is of a time whose entries `ledger compact` deletes.
func (c content) old() bool { return c.ID < "f" }

// recordLine is a line of an input. The id of a broken record is at another path: it is a dead letter until a command names
// that path.
type recordLine struct {
	content
	broken bool
}

var (
	beginning = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	longAgo   = beginning.AddDate(0, 0, -20)
	horizon   = beginning.AddDate(0, 0, -10)
)

func (l recordLine) time() time.Time {
	if l.old() {
		return longAgo
	}
	return beginning
}

const (
	usualPath  = "id"
	brokenPath = "id of a broken record"
)

func textOf(lines []recordLine) string {
	var text strings.Builder
	for _, l := range lines {
		path := usualPath
		if l.broken {
			path = brokenPath
		}
		fmt.Fprintf(&text, `{%q:%q,"fp":%q,"t":%d}`+"\n", path, l.ID, l.FP, l.time().Unix())
	}
	return text.String()
}

// commands is a sequence of commands, and its model.
type commands struct {
	testing.TB
	world
	random *rand.Rand
	memory *memstore.Records // nil for a ledger in a file
	calls  dedupe.Store      // memory, or a mutant of it
	path   string            // the ledger in a file
	seen   *sqlitestore.Store
	dir    string
	now    time.Time
	policy IDs
	lines  []recordLine // of all inputs

	read      map[string][]recordLine  // the lines that each run reads
	streams   map[string]*bytes.Buffer // what each run has printed
	decided   map[content]bool         // the records that the function has decided
	function  []content                // what the function has delivered
	open      []dedupe.Candidate       // of the function: what it has not decided, and comes again
	deciding  [][]dedupe.Candidate
	elsewhere map[content]bool // delivered elsewhere, as an import says; true: the ledger must know it
	compacted bool

	done     map[kind]int
	earlier  []func(*process) error
	sequence int // of the function's next record
	within   int // how many commands run at the moment
	names    int
	wrong    error
}

const commandScope = "s"

// playCommands plays the sequence of a seed and returns what is wrong.
func playCommands(t testing.TB, seed int, m commandMutant, done map[kind]int) error {
	dir, err := os.MkdirTemp(fastTemp(), "commands-*") //nolint:usetesting // in memory, and removed after each sequence
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := &commands{
		TB: t, world: worlds[0], random: rand.New(rand.NewPCG(uint64(seed), 29)), dir: dir, now: beginning, done: done,
		read: map[string][]recordLine{}, streams: map[string]*bytes.Buffer{}, decided: map[content]bool{},
		elsewhere: map[content]bool{},
	}
	if m.name == "" {
		c.world = worlds[max(0, c.random.IntN(6)-3)] // the others take longer
	}
	if c.inMemory {
		c.openMemory(m)
	} else {
		c.openFile()
		defer func() { _ = c.seen.Close() }()
	}
	c.policy = []IDs{FirstKeeps, FirstKeeps, Derived}[c.random.IntN(3)]
	for range 6 + c.random.IntN(30) {
		of := content{string(rune('a' + c.random.IntN(14))), string(rune('x' + c.random.IntN(2)))}
		c.lines = append(c.lines, recordLine{of, c.random.IntN(9) == 0})
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

func (c *commands) openMemory(m commandMutant) {
	c.memory = memstore.NewRecords()
	c.memory.SetNow(func() time.Time { return c.now })
	c.memory.SetJudge(m.judge)
	c.memory.SetBetween(func() {
		if c.within < 3 && c.random.IntN(4) == 0 {
			c.note(c.deliver(new(commandpairs.Process)))
		}
	}, m.blind)
	c.calls = c.memory
	if m.hook != nil {
		c.calls = dedupefault.HookStore(c.memory, m.hook(c.memory))
	}
}

// openFile makes a ledger in a file. Each command opens it for itself.
func (c *commands) openFile() {
	c.path = filepath.Join(c.dir, "ledger")
	var err error
	if c.seen, err = sqlitestore.Create(context.Background(), c.path); err != nil {
		c.Fatal(err)
	}
}

// withLedger calls do with the ledger of a process.
func (c *commands) withLedger(do func(dedupe.Store) error) error {
	if c.inMemory {
		return do(c.calls)
	}
	s, err := sqlitestore.Open(context.Background(), c.path)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return do(s)
}

// rows returns the runs over files that count.
func (c *commands) rows() (rows []dedupe.Run) {
	if c.inMemory {
		rows = c.memory.Runs()
	} else {
		past, err := c.seen.Runs(context.Background(), commandScope)
		c.note(err)
		for _, p := range past {
			if p.ReplacedBy == "" {
				rows = append(rows, p.Run)
			}
		}
	}
	return slices.DeleteFunc(rows, func(r dedupe.Run) bool { return r.OutputID == "" })
}

// note keeps the first error.
func (c *commands) note(err error) {
	if c.wrong == nil {
		c.wrong = err
	}
}

// step runs a command, or two at a time, and checks the outputs.
func (c *commands) step() {
	n := c.random.IntN(60)
	a, b := c.command(n), c.command(n)
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

// command returns a random command, or an earlier one again. One of its operations may fail, and the reply of its
// operation number n or of another one may be lost.
func (c *commands) command(n int) commandpairs.Command {
	if len(c.earlier) == 0 || c.random.IntN(3) > 0 {
		c.earlier = append(c.earlier, c.newCommand())
	}
	again := c.earlier[len(c.earlier)-1-c.random.IntN(min(3, len(c.earlier)))]
	fails, unheard := -1, -1
	switch c.random.IntN(8) {
	case 0:
		fails = c.random.IntN(50)
	case 1:
		unheard = c.random.IntN(50)
	case 2:
		unheard = n + 1
	}
	return func(p *commandpairs.Process) error {
		return again(&process{Process: p, fails: fails, unheard: unheard})
	}
}

func (c *commands) newCommand() func(*process) error {
	k := c.possible(c.commands[c.random.IntN(len(c.commands))])
	var do func(*process) error
	switch k {
	case importing:
		do = c.imports()
	case compacting:
		do = c.compact
	case delivering:
		return func(p *process) error { return c.deliver(p.Process) }
	default:
		do = c.dedupe(k)
	}
	return func(p *process) error {
		c.within++
		defer func() { c.within-- }()
		err := do(p)
		if search.Alone() {
			c.Logf("%s, killed %v: %v", k, p.Over(), err)
		}
		switch {
		case errors.Is(p.Over(), commandpairs.ErrKilled):
			return commandpairs.ErrKilled
		case p.Over() != nil:
			return p.Over()
		case err == nil:
			c.done[k]++
		case errors.Is(err, ErrRefused), errors.Is(err, ErrStopped), errors.Is(err, dedupe.ErrTryAgain),
			errors.Is(err, dedupe.ErrReplaced), errors.Is(err, sqlitestore.ErrOpenRuns):
		default:
			return err
		}
		c.check("while others are at work")
		return nil
	}
}

// process is the process of a command. One of its operations may fail, or take effect without a reply.
type process struct {
	*commandpairs.Process
	operations, fails, unheard int
	inside                     bool // an operation: its parts are done together
}

func (p *process) step(do, _ func()) error {
	if p.inside {
		do()
		return nil
	}
	if p.operations++; p.operations == p.fails {
		return dedupe.ErrTryAgain
	}
	if err := p.Before(); err != nil {
		return err
	}
	p.inside = true
	do()
	p.inside = false
	if err := p.After(); err != nil || p.operations != p.unheard {
		return err
	}
	return dedupe.ErrTryAgain
}

// deliver runs the function on some records, and on those that it could not decide before.
func (c *commands) deliver(p *commandpairs.Process) error {
	c.within++
	defer func() { c.within-- }()
	batch := c.open
	c.open = nil
	for range c.random.IntN(4) {
		l := c.lines[c.random.IntN(len(c.lines))]
		c.sequence++
		batch = append(batch, dedupe.Candidate{
			ID: l.ID, Fingerprint: l.FP, Version: "v", Arrival: l.time(), Derive: c.policy == Derived,
			Owner: dedupe.Owner{Source: "1/eu/orders/0", Sequence: fmt.Sprint(c.sequence), Sub: dedupe.Plain},
		})
	}
	if len(batch) == 0 {
		return nil
	}
	c.deciding = append(c.deciding, batch)
	var decisions []dedupe.Decision
	err := c.withLedger(func(s dedupe.Store) error {
		decider := dedupe.Decider{
			Ledger: dedupefault.HookStore(s, steps((&process{Process: p}).step).hook), Scope: commandScope,
			Retention: c.retention, Clock: c.pauses(false),
		}
		decisions = decider.Decide(context.Background(), batch)
		return nil
	})
	c.deciding = slices.DeleteFunc(c.deciding, func(b []dedupe.Candidate) bool { return &b[0] == &batch[0] })
	for i, d := range decisions {
		of := content{batch[i].ID, batch[i].Fingerprint}
		switch d.Outcome {
		case dedupe.New, dedupe.Synthetic:
			c.function = append(c.function, of)
		case dedupe.Retry: // its entry was put, and the answer was lost
			if !slices.Contains(c.function, of) {
				c.function = append(c.function, of)
			}
		case dedupe.TooOld:
			continue // a dead letter
		case dedupe.Undecided:
			c.open = append(c.open, batch[i])
			continue
		}
		c.decided[of] = true
	}
	if errors.Is(p.Over(), commandpairs.ErrKilled) {
		return commandpairs.ErrKilled
	}
	c.done[delivering]++
	return errors.Join(err, p.Over())
}

// dedupe returns a command over files.
func (c *commands) dedupe(k kind) func(*process) error {
	lines := c.some()
	var inputs []string
	cut := c.random.IntN(len(lines) + 1)
	for _, part := range [][]recordLine{lines[:cut], lines[cut:]} {
		inputs = append(inputs, textOf(part))
	}
	options := format.Options{IDPath: usualPath, FingerprintPath: "fp", TimePath: "t"}
	if c.random.IntN(4) == 0 {
		options.Volatile = []string{"other"} // another run, with the same results
	}
	j := Job{
		Inputs: texts(inputs...), Scope: commandScope, IDs: c.ids(), Retention: c.retention, LedgerName: "ledger",
		BatchSize: 1 + c.random.IntN(6), PoisonLimit: dedupe.PoisonLimit{Off: true}, Now: c.clock, beatEvery: -1,
		Compression: []Compression{NotCompressed, NotCompressed, Gzip}[c.random.IntN(3)],
		clock:       c.pauses(c.inMemory && c.random.IntN(3) == 0),
	}
	j.Out = filepath.Join(c.dir, fmt.Sprint("out", c.random.IntN(4+c.names/2)))
	c.names++
	stream := c.inMemory && c.random.IntN(6) == 0
	switch k {
	case redriving:
		var text string
		text, lines = c.deadLetters()
		j.Inputs, options.IDPath = texts(text), brokenPath
		j.Inputs[0].Records = DeadLetters
	case publishing:
		j.Publish = c.lists()[c.random.IntN(3)/2]
	case replacing:
		past := c.finished()
		wrong := past[c.random.IntN(len(past))]
		j.Replaces, j.Publish = wrong.ID, AboutRun(wrong).Published
	}
	if j.Publish != "" {
		j.Out, j.Compression = "", NotCompressed
	} else {
		j.DeadLetters = deadLettersOf(j.Out)
	}
	j.Format = inJSON(options)
	return func(p *process) error {
		j, printed := j, &bytes.Buffer{}
		if stream {
			j.Out, j.Stream, j.DeadLetters = "", printed, filepath.Join(c.dir, "stream.dead")
		}
		j.open, j.rename = steps(p.step).open, steps(p.step).rename
		begins := func(run string) { c.read[run], c.streams[run] = lines, printed }
		return c.withLedger(func(s dedupe.Store) error {
			if past, ok := s.(storeWithHistory); ok {
				j.Store = notedStore{mortal(past, p.step), begins}
			} else {
				j.Store = dedupefault.HookStore(s, func(ctx context.Context, call *dedupefault.Call) error {
					if call.Method == dedupefault.SaveRun {
						begins(call.Run.ID)
					}
					return steps(p.step).hook(ctx, call)
				})
			}
			r, err := j.Run(context.Background())
			if err == nil && j.Publish != "" && r.NewerRun == "" {
				c.checkList(j.Publish, r.Run)
			}
			return err
		})
	}
}

// possible returns the kind, or another one if it is not possible yet.
func (c *commands) possible(k kind) kind {
	switch {
	case k == redriving && !slices.ContainsFunc(c.rows(), hasDeadLetters):
		return processing
	case k == replacing && len(c.finished()) == 0:
		return publishing
	}
	return k
}

func hasDeadLetters(r dedupe.Run) bool { return r.DeadLetters > 0 && AboutRun(r).File != "" }

func (c *commands) finished() []dedupe.Run {
	return slices.DeleteFunc(c.rows(), func(r dedupe.Run) bool { return !r.Finished })
}

// some returns some of the first lines, or of the last ones.
func (c *commands) some() []recordLine {
	if c.random.IntN(3) == 0 {
		return c.lines[c.random.IntN(len(c.lines)):]
	}
	return c.lines[:1+c.random.IntN(len(c.lines))]
}

// ids returns a policy of ids. No guarantee holds between Derived and the other two.
func (c *commands) ids() IDs {
	if c.policy == FirstKeeps && c.random.IntN(5) == 0 {
		return RenameAll
	}
	return c.policy
}

// lists returns the names under which outputs are published.
func (c *commands) lists() []string {
	return []string{filepath.Join(c.dir, "list0"), filepath.Join(c.dir, "list1")}
}

// deadLetters returns the dead letters of a run, and the lines that a command reads from them.
func (c *commands) deadLetters() (text string, lines []recordLine) {
	rows := slices.DeleteFunc(c.rows(), func(r dedupe.Run) bool { return !hasDeadLetters(r) })
	r := rows[c.random.IntN(len(rows))]
	letters, err := os.ReadFile(deadLettersOf(AboutRun(r).File))
	if err != nil || int64(len(letters)) < r.DeadLetters {
		c.note(fmt.Errorf("the dead letters of run %s have %d of %d bytes: %w", r.ID, len(letters), r.DeadLetters, err))
		return "", nil
	}
	for _, l := range c.linesIn(letters[:r.DeadLetters]) {
		lines = append(lines, recordLine{l.content, !l.broken})
	}
	return string(letters[:r.DeadLetters]), lines
}

// lettersOf returns the records in the dead letters of a run.
func (c *commands) lettersOf(r dedupe.Run) (records []content) {
	if !hasDeadLetters(r) {
		return nil
	}
	text, err := os.ReadFile(deadLettersOf(AboutRun(r).File))
	if err != nil || int64(len(text)) < r.DeadLetters {
		c.note(fmt.Errorf("the dead letters of run %s have %d of %d bytes: %w", r.ID, len(text), r.DeadLetters, err))
		return nil
	}
	for _, l := range c.linesIn(text[:r.DeadLetters]) {
		records = append(records, l.content)
	}
	return records
}

// linesIn reads the lines of dead letters.
func (c *commands) linesIn(letters []byte) (lines []recordLine) {
	for text := range bytes.Lines(letters) {
		var l letter
		data := map[string]any{}
		c.note(errors.Join(json.Unmarshal(text, &l), json.Unmarshal(l.Data, &data)))
		id, broken := data[brokenPath].(string)
		if !broken {
			id, _ = data[usualPath].(string)
		}
		fp, _ := data["fp"].(string)
		lines = append(lines, recordLine{content{id, fp}, broken})
	}
	return lines
}

// notedStore is the ledger of a run that is noted when it begins.
type notedStore struct {
	mortalStore
	begins func(run string)
}

func (s notedStore) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	s.begins(r.ID)
	return s.mortalStore.SaveRun(ctx, scope, r)
}

// Import runs an import of package history, which imports this one. Its process may be killed.
var Import func(Job, dedupe.Clock) error

// imports returns a command that enters records which were delivered elsewhere.
func (c *commands) imports() func(*process) error {
	lines := slices.DeleteFunc(slices.Clone(c.some()), func(l recordLine) bool { return l.broken })
	j := Job{
		Inputs: texts(textOf(lines)), Format: inJSON(format.Options{IDPath: usualPath, FingerprintPath: "fp", TimePath: "t"}),
		Scope: commandScope, Retention: c.retention, IDs: c.policy, Now: c.clock, clock: c.pauses(false),
		BatchSize: 1 + c.random.IntN(4),
	}
	return func(p *process) error {
		for _, l := range lines {
			if _, begun := c.elsewhere[l.content]; !begun {
				c.elsewhere[l.content] = false
			}
		}
		err := c.withLedger(func(s dedupe.Store) error {
			j := j
			j.Store = dedupefault.HookStore(s, steps(p.step).hook)
			return Import(j, j.clock)
		})
		if err != nil {
			return err
		}
		counts, coming := c.counts(c.rows(), "after an import"), c.coming()
		for _, l := range lines {
			c.elsewhere[l.content] = c.elsewhere[l.content] || counts[l.content] == 0 && !coming[l.content]
		}
		return nil
	}
}

// compact deletes the entries of old records. The call is one operation: TestCompactMovesTheHorizonFirst stops it.
func (c *commands) compact(p *process) error {
	c.compacted = true
	return c.withLedger(func(s dedupe.Store) (err error) {
		dead := p.step(func() { _, err = s.(*sqlitestore.Store).Compact(context.Background(), commandScope, horizon) }, nothing)
		return errors.Join(dead, err)
	})
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

// last reads all records in one more run. After that, each record is in the outputs once.
func (c *commands) last() error {
	j := Job{
		Inputs: texts(textOf(c.lines)), Format: inJSON(format.Options{IDPath: usualPath, FingerprintPath: "fp", TimePath: "t"}),
		Scope: commandScope, IDs: c.policy, Retention: c.retention, PoisonLimit: dedupe.PoisonLimit{Off: true},
		Out: filepath.Join(c.dir, "last"), DeadLetters: filepath.Join(c.dir, "last.dead"), Now: c.clock, beatEvery: -1,
		LedgerName: "ledger", clock: c.pauses(c.inMemory),
	}
	if !c.inMemory {
		j.Publish, j.Out, j.DeadLetters = c.lists()[0], "", ""
	}
	err := c.withLedger(func(s dedupe.Store) error {
		j.Store = s
		r, err := j.Run(context.Background())
		c.read[r.Run] = c.lines
		return err
	})
	if err != nil {
		return fmt.Errorf("the last run: %w", err)
	}
	if err := c.deliver(new(commandpairs.Process)); err != nil || len(c.open) > 0 {
		return fmt.Errorf("the function cannot decide %+v: %w", c.open, err)
	}
	c.check("at the end")
	c.checkSizes()
	for _, r := range c.rows() {
		if c.isListed(r, c.lists()[0]) {
			c.checkList(c.lists()[0], r.ID)
		}
	}
	return nil
}

// checkSizes checks that the files of runs that are over have nothing that does not count.
func (c *commands) checkSizes() {
	for _, r := range c.rows() {
		file := AboutRun(r).File
		if _, err := os.Stat(file + runSuffix); file == "" || r.Output+r.DeadLetters == 0 || err == nil {
			continue
		}
		out, err := sizeOf(file)
		letters, lettersErr := sizeOf(deadLettersOf(file))
		if out != r.Output || max(0, letters) != r.DeadLetters {
			c.note(fmt.Errorf("%s has %d bytes, its dead letters %d, and its run is %+v: %w", file, out, letters, r,
				errors.Join(err, lettersErr)))
		}
	}
}

// isListed reports whether readers of a list need the output of a run.
func (c *commands) isListed(r dedupe.Run, list string) bool {
	return AboutRun(r).Published == list && (r.Finished || r.Closed && r.Output > 0)
}

// checkList checks that a list has the output of a run, unless the run was undone.
func (c *commands) checkList(list, run string) {
	m, err := readManifest(list)
	c.note(err)
	isRun := func(o PublishedOutput) bool { return o.Run == run }
	counts := func(r dedupe.Run) bool { return r.ID == run }
	if slices.ContainsFunc(c.rows(), counts) && !slices.ContainsFunc(m.Outputs, isRun) {
		c.note(fmt.Errorf("G13: %s does not list the run %s", list, run))
	}
}

// checkLists checks that lists have only outputs that count.
func (c *commands) checkLists(rows []dedupe.Run, when string) {
	run := map[string]dedupe.Run{}
	for _, r := range rows {
		run[r.ID] = r
	}
	for _, list := range c.lists() {
		m, err := readManifest(list)
		c.note(err)
		for _, o := range m.Outputs {
			if r := run[o.Run]; !c.isListed(r, list) || o != published(r) {
				c.note(fmt.Errorf("%s: %s lists %+v, and the run is %+v", when, list, o, r))
			}
		}
	}
}

// counts counts the records in the outputs that count: of the function, and of all runs up to what they have saved.
func (c *commands) counts(rows []dedupe.Run, when string) map[content]int {
	counts := map[content]int{}
	for _, record := range c.function {
		counts[record]++
	}
	for _, r := range rows {
		var text []byte
		about := AboutRun(r)
		switch {
		case r.Finished && about.File == "":
			text = c.streams[r.ID].Bytes()
		case r.Output > 0:
			var err error
			if text, err = os.ReadFile(about.File); err != nil || int64(len(text)) < r.Output {
				c.note(fmt.Errorf("%s: %s has %d of %d bytes: %w", when, about.File, len(text), r.Output, err))
				continue
			}
			text = text[:r.Output]
		}
		records, err := recordsIn(text)
		if err != nil {
			c.note(fmt.Errorf("%s: run %s up to %d bytes: %w", when, r.ID, r.Output, err))
		}
		for _, record := range records {
			counts[record]++
		}
	}
	return counts
}

// coming returns the records that the function is deciding. It may have put their entries already.
func (c *commands) coming() map[content]bool {
	coming := map[content]bool{}
	for _, batch := range append(slices.Clone(c.deciding), c.open) {
		for _, candidate := range batch {
			coming[content{candidate.ID, candidate.Fingerprint}] = true
		}
	}
	return coming
}

// check checks G13 and G7.
func (c *commands) check(when string) {
	rows := c.rows()
	counts, coming := c.counts(rows, when), c.coming()
	is := func(record content) bool {
		_, elsewhere := c.elsewhere[record]
		return counts[record] > 0 || coming[record] || elsewhere
	}
	for record := range c.decided {
		if !is(record) {
			c.note(fmt.Errorf("%s: G13: %v is lost: the function has decided it, and no output has it", when, record))
		}
	}
	for _, r := range rows {
		if !r.Finished {
			continue
		}
		letters := c.lettersOf(r)
		for _, l := range c.read[r.ID] {
			mayBeLetter := l.broken || c.compacted && l.old()
			isLetter := mayBeLetter && (AboutRun(r).File == "" || slices.Contains(letters, l.content))
			if !isLetter && (l.broken || !is(l.content)) {
				c.note(fmt.Errorf("%s: G13: %+v is lost: the finished run %s has read it, and no output has it", when, l, r.ID))
			}
		}
	}
	for record, n := range counts {
		if n > 1 {
			c.note(fmt.Errorf("%s: G7: %v is in the outputs %d times", when, record, n))
		}
		if c.elsewhere[record] {
			c.note(fmt.Errorf("%s: G7: %v is in an output, and was imported", when, record))
		}
	}
	c.checkLists(rows, when)
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
			ID       string
			Broken   string `json:"id of a broken record"`
			FP       string
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
		if line.ID += line.Broken; len(line.Contexts) > 0 {
			line.ID = line.Contexts[0].Data.OriginalEventID
		}
		records = append(records, content{line.ID, line.FP})
	}
}
