package claims

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

const campaignsPage = "../../../docs/claims.md"

// transition is a row of the table in docs/claims.md: how an item gets from one state to another.
type transition struct {
	from, to, label string
	commands        []string
	functions       []string
	call            string // the store call that makes the transition
}

var (
	tableRow  = regexp.MustCompile("(?m)^\\| (`.*) \\|$")
	drawn     = regexp.MustCompile(`(?m)^ {4}(\S+) --> (\S+): (.+)$`)
	commandIn = regexp.MustCompile("`oncebox ([^`]+)`")
	methodIn  = regexp.MustCompile("`((?:Bank|Operator)\\.[A-Za-z]+)`")
)

// pageTable returns the cells of the rows of the table whose first column has this heading.
func pageTable(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, table, found := strings.Cut(page(t), "\n| "+heading+" |")
	if !found {
		t.Fatalf("%s has no table of %q", campaignsPage, heading)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range tableRow.FindAllStringSubmatch(table, -1) {
		rows = append(rows, strings.Split(line[1], " | "))
	}
	return rows
}

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(campaignsPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func transitions(t *testing.T) (all []transition) {
	t.Helper()
	for _, cells := range pageTable(t, "from") {
		a := transition{from: strings.Trim(cells[0], "`"), to: strings.Trim(cells[1], "`"), label: cells[2]}
		for _, c := range commandIn.FindAllStringSubmatch(cells[3], -1) {
			a.commands = append(a.commands, c[1])
		}
		for _, m := range methodIn.FindAllStringSubmatch(cells[4], -1) {
			a.functions = append(a.functions, m[1])
		}
		a.call, _, _ = strings.Cut(strings.TrimPrefix(cells[5], "`"), "`")
		all = append(all, a)
	}
	return all
}

// TestDrawnStates checks that the drawing and the table of docs/claims.md have the same transitions, and that the
// functions in the table exist.
func TestDrawnStates(t *testing.T) {
	t.Parallel()
	var fromTable, fromDrawing []string
	for _, a := range transitions(t) {
		fromTable = append(fromTable, fmt.Sprintf("%s --> %s: %s", a.from, a.to, a.label))
		for _, f := range a.functions {
			owner, method, _ := strings.Cut(f, ".")
			_, ofBank := reflect.TypeFor[*itembank.Bank]().MethodByName(method)
			_, ofOperator := reflect.TypeFor[*itembank.Operator]().MethodByName(method)
			if ofBank != (owner == "Bank") || !ofOperator {
				t.Errorf("there is no %s", f)
			}
		}
		if len(a.functions) == 0 || len(a.commands) == 0 {
			t.Errorf("%s --> %s: %s: no command or no function", a.from, a.to, a.label)
		}
	}
	for _, d := range drawn.FindAllStringSubmatch(page(t), -1) {
		fromDrawing = append(fromDrawing, strings.TrimSpace(d[0]))
	}
	if len(fromTable) == 0 || !slices.Equal(fromTable, fromDrawing) {
		t.Errorf("the drawing and the table differ:\n%s\n\n%s", strings.Join(fromDrawing, "\n"), strings.Join(fromTable, "\n"))
	}
}

// fixture is a campaign with one item, with a clock and a store that a test controls.
type fixture struct {
	*testing.T
	store *itembankfault.Store
	clock *itembankfault.Clock
	bank  *itembank.Operator
	name  string
	out   bytes.Buffer
}

const theItem = "A-1"

func newFixture(t *testing.T, store engine.Store, s itembank.Settings) *fixture {
	t.Helper()
	w := &fixture{T: t, store: &itembankfault.Store{Store: store}, clock: itembankfault.NewClock(), name: strings.ToLower(rand.Text())}
	w.bank = itembank.NewOperator(w.store, itembank.WithClock(w.clock))
	w.create(w.name, s)
	return w
}

func (w *fixture) create(name string, s itembank.Settings) {
	w.Helper()
	s.Scope, s.Shards = w.name, 4
	if _, _, err := w.bank.CreateCampaign(w.Context(), name, s); err != nil {
		w.Fatal(err)
	}
}

// app runs commands without a terminal.
func (w *fixture) app() *cli.App {
	w.out.Reset()
	return &cli.App{Globals: cli.Globals{Output: "text"}, Process: cli.Process{Stdin: strings.NewReader(""), Stdout: &w.out, Stderr: io.Discard}}
}

// do runs a command. A refusal is a valid answer.
func (w *fixture) do(command func(context.Context, *cli.App, *itembank.Operator) error) {
	w.Helper()
	if err := command(w.Context(), w.app(), w.bank); err != nil && !errors.Is(err, itembank.ErrRefused) && !errors.Is(err, cli.ErrLook) {
		w.Fatal(err)
	}
}

// These are the commands of the table.

func (w *fixture) load() {
	w.Helper()
	source := itembank.Items(theItem)
	w.do(func(ctx context.Context, a *cli.App, b *itembank.Operator) error {
		return loadCommand{Campaign: w.name}.load(ctx, a, b, &items{Source: source})
	})
}

func (w *fixture) claimFor(claimant string) {
	w.Helper()
	w.do(claimMake{w.name, claimant, slotFlag{1}, nil}.claim)
}

func (w *fixture) release() {
	w.Helper()
	w.do(releaseCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", slotFlag: slotFlag{1}}, Yes: true}.release)
}

// replace replaces ann's first claim. The ids of the claims that replace it begin with its id.
func (w *fixture) replace() {
	w.Helper()
	claim, err := w.bank.HeldClaim(w.Context(), w.name, "ann")
	if err != nil {
		w.Fatal(err)
	}
	id, _, _ := strings.Cut(claim.ID, ".")
	w.do(replaceCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", ClaimID: &id, slotFlag: slotFlag{1}}}.replace)
}

// loadAnother loads another item, and waits until no Bank takes the campaign for sold out.
func loadAnother(w *fixture) {
	w.Helper()
	if _, err := w.bank.Load(w.Context(), w.name, itembank.Items("B-1"), nil); err != nil {
		w.Fatal(err)
	}
	w.clock.Advance(itembank.DefaultCampaignCache)
}

func (w *fixture) confirm() {
	w.Helper()
	w.do(confirmCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", slotFlag: slotFlag{1}}}.confirm)
}

func (w *fixture) prolong() {
	w.Helper()
	w.do(prolongCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", slotFlag: slotFlag{1}}}.prolong)
}

func prolongOtherID(w *fixture) {
	w.Helper()
	id := "another"
	w.do(prolongCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", ClaimID: &id, slotFlag: slotFlag{1}}}.prolong)
	w.clock.Advance(aLife / 2)
}

func confirmOtherID(w *fixture) {
	w.Helper()
	id := "another"
	w.do(confirmCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", ClaimID: &id, slotFlag: slotFlag{1}}}.confirm)
	w.clock.Advance(aLife / 2)
}

func (w *fixture) sweep() {
	w.Helper()
	w.do(sweepCommand{Campaign: w.name}.sweep)
}

func (w *fixture) withdraw(item string) {
	w.Helper()
	w.do(func(ctx context.Context, a *cli.App, b *itembank.Operator) error {
		return withdrawCommand{Campaign: w.name}.file(ctx, a, b, itembank.Items(item))
	})
}

func (w *fixture) withdrawAll() {
	w.Helper()
	w.do(withdrawCommand{Campaign: w.name}.all)
}

// state returns the place of the item. It fails if the rows contradict each other.
func (w *fixture) state() string {
	w.Helper()
	r, err := w.bank.Reconcile(w.Context(), w.name)
	if err != nil || len(r.Inconsistencies) > 0 {
		w.Fatalf("reconcile: %+v, %v", r.Inconsistencies, err)
	}
	row, err := w.store.ItemRow(w.Context(), w.name, engine.HashItem(theItem))
	switch {
	case err != nil:
		w.Fatal(err)
	case row == nil:
		return "[*]"
	case row.State != "":
		return string(row.State)
	case r.Free == 1:
		return "free"
	}
	return "held"
}

// writes returns the store calls that changed something since the last call of writes.
func (w *fixture) writes() []string {
	return slices.DeleteFunc(w.store.Calls(), func(call string) bool {
		return !slices.Contains([]string{"AddItems", "Take", "CloseClaim", "ConfirmClaim", "ProlongClaim", "EndItems", "MarkWithdrawn", "Repair"}, call)
	})
}

// scenario makes a transition with one command.
type scenario struct {
	by       string // the command in the table
	settings itembank.Settings
	before   []func(*fixture) // the actions that lead to the first state
	unmet    func(*fixture)   // the command, or a similar one, while a condition is not met
	meet     func(*fixture)   // makes the condition true
	command  func(*fixture)
}

const aLife = time.Minute

func wait(d time.Duration) func(*fixture) { return func(w *fixture) { w.clock.Advance(d) } }

func claimByAnn(w *fixture) { w.claimFor("ann") }
func claimByBob(w *fixture) { w.claimFor("bob") }

// closed closes the campaign first. Otherwise another claim could take the item.
func closed(then func(*fixture)) func(*fixture) {
	return func(w *fixture) {
		if err := w.bank.CloseCampaign(w.Context(), w.name); err != nil {
			w.Fatal(err)
		}
		then(w)
	}
}

func loadBadLine(w *fixture) {
	w.Helper()
	err := loadCommand{Campaign: w.name, File: "codes.txt"}.load(w.Context(), w.app(), w.bank, &items{Source: itembank.Items(theItem, "bad\x00")})
	if !errors.Is(err, itembank.ErrInvalid) {
		w.Errorf("load of a bad line: %v", err)
	}
}

// claimHeldElsewhere claims for a claimant who holds an item of another campaign of the scope.
func claimHeldElsewhere(w *fixture) {
	w.Helper()
	other := w.name + "-2"
	w.create(other, itembank.Settings{})
	if _, err := w.bank.Load(w.Context(), other, itembank.Items("B-1"), nil); err != nil {
		w.Fatal(err)
	}
	w.do(claimMake{other, "cid", slotFlag{1}, nil}.claim)
	w.claimFor("cid")
}

func releaseOtherID(w *fixture) {
	w.Helper()
	id := "another"
	w.do(releaseCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", ClaimID: &id, slotFlag: slotFlag{1}}}.release)
	if !strings.Contains(w.out.String(), "it may have been released before") {
		w.Errorf("want nothing to release, got %s", w.out.String())
	}
}

// withdrawOthers withdraws all free items while ann holds the item.
func withdrawOthers(w *fixture) {
	w.Helper()
	claimByAnn(w)
	w.withdrawAll()
	w.withdraw("never loaded")
	if got := w.state(); got != "held" {
		w.Errorf("withdrawn while it was held: %s", got)
	}
	w.release()
}

var (
	load     = (*fixture).load
	held     = []func(*fixture){load, claimByAnn}
	marked   = []func(*fixture){load, claimByAnn, func(w *fixture) { w.withdraw(theItem) }}
	toReturn = itembank.Settings{OnEnd: itembank.Return}
	shortly  = itembank.Settings{ClaimLife: aLife}
	lending  = itembank.Settings{ClaimLife: aLife, OnEnd: itembank.Return}
	holding  = itembank.Settings{Hold: aLife, MaxHold: 2 * aLife}
	bothEnd  = itembank.Settings{ClaimLife: aLife, ItemLife: aLife, OnEnd: itembank.Return}
)

// scenarios has one scenario for each command of each row of the table.
var scenarios = map[string][]scenario{
	"load":                   {{by: "load", unmet: loadBadLine, command: load}},
	"claim":                  {{by: "claim", before: []func(*fixture){load}, unmet: claimHeldElsewhere, command: claimByAnn}},
	"release, on-end return": {{"release", toReturn, held, releaseOtherID, nil, (*fixture).release}},
	"release, on-end burn":   {{by: "release", before: held, unmet: releaseOtherID, command: (*fixture).release}},
	"replace":                {{by: "replace", before: held, unmet: (*fixture).replace, meet: loadAnother, command: (*fixture).replace}},
	"end of the claim, on-end return": {
		{"sweep", lending, append(held, wait(aLife+9*time.Second)), (*fixture).sweep, wait(2 * time.Second), (*fixture).sweep},
		{"claim", lending, append(held, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), closed(claimByAnn)},
	},
	"end of the claim, on-end burn": {
		{"sweep", shortly, append(held, wait(aLife+9*time.Second)), (*fixture).sweep, wait(2 * time.Second), (*fixture).sweep},
		{"claim", shortly, append(held, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), claimByAnn},
	},
	"end of the claim and of the item": {
		{"sweep", bothEnd, append(held, wait(aLife+9*time.Second)), (*fixture).sweep, wait(2 * time.Second), (*fixture).sweep},
		{"claim", bothEnd, append(held, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), claimByAnn},
		{"release", bothEnd, append(held, wait(aLife)), releaseOtherID, nil, (*fixture).release},
	},
	"confirm": {{"confirm", holding, held, confirmOtherID, nil, (*fixture).confirm}},
	"prolong": {{"prolong", holding, held, prolongOtherID, nil, (*fixture).prolong}},
	"end of the hold": {
		{"sweep", holding, append(held, wait(aLife+9*time.Second)), (*fixture).sweep, wait(2 * time.Second), (*fixture).sweep},
		{"claim", holding, append(held, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), closed(claimByAnn)},
	},
	"end of the item": {
		{"sweep", itembank.Settings{ItemLife: aLife}, []func(*fixture){load}, (*fixture).sweep, wait(aLife), (*fixture).sweep},
		{"claim", itembank.Settings{ItemLife: aLife}, []func(*fixture){load}, closed(claimByBob), opened(wait(aLife)), claimByBob},
	},
	"withdraw": {
		{"withdraw FILE", toReturn, []func(*fixture){load}, withdrawOthers, nil, func(w *fixture) { w.withdraw(theItem) }},
		{"withdraw --all", toReturn, []func(*fixture){load}, withdrawOthers, nil, (*fixture).withdrawAll},
	},
	"release or end of the claim, after withdraw": {
		{"release", toReturn, marked, releaseOtherID, nil, (*fixture).release},
		{"sweep", lending, append(marked, wait(aLife+9*time.Second)), (*fixture).sweep, wait(2 * time.Second), (*fixture).sweep},
		{"claim", lending, append(marked, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), claimByAnn},
	},
}

func opened(then func(*fixture)) func(*fixture) {
	return func(w *fixture) {
		if err := w.bank.OpenCampaign(w.Context(), w.name); err != nil {
			w.Fatal(err)
		}
		then(w)
	}
}

// TestTransitions makes every transition of docs/claims.md with each of its commands. The first attempt comes
// while a condition is not met, and changes nothing. The second makes the transition. The third changes nothing.
func TestTransitions(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		left := maps.Clone(scenarios)
		for _, a := range transitions(t) {
			ways := left[a.label]
			delete(left, a.label)
			var tested []string
			for _, way := range ways {
				tested = append(tested, way.by)
			}
			if !slices.Equal(tested, a.commands) {
				t.Errorf("%s: the table names %q, and there are scenarios for %q", a.label, a.commands, tested)
			}
			for _, way := range ways {
				t.Run(a.label+" by "+way.by, func(t *testing.T) { a.run(newFixture(t, store, way.settings), way) })
			}
		}
		for label := range left {
			t.Errorf("no such line in %s: %s", campaignsPage, label)
		}
	})
}

func (a transition) run(w *fixture, way scenario) {
	w.Helper()
	for _, step := range way.before {
		step(w)
	}
	at := func(when, want string) {
		w.Helper()
		if got := w.state(); got != want {
			w.Fatalf("%s: want the item %s, it is %s", when, want, got)
		}
	}
	at("before", a.from)
	way.unmet(w)
	at("with the condition unmet", a.from)
	if way.meet != nil {
		way.meet(w)
	}
	w.writes()
	way.command(w)
	if got := w.writes(); !slices.Equal(got, []string{a.call}) {
		w.Errorf("want one %s, the store was asked for %v", a.call, got)
	}
	at("after", a.to)
	way.command(w)
	at("after the same again", a.to)
}

// onEngines runs a test on SQLite, and in `make check` also on DynamoDB, as onStores does.
func onEngines(t *testing.T, test func(*testing.T, engine.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "codes.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		test(t, store)
	})
	t.Run("dynamodb", func(t *testing.T) {
		testengine.CheckOnly(t)
		test(t, itembankengines.OwnTables().Create(t, testengine.Dynoxide(t)).Store)
	})
}
