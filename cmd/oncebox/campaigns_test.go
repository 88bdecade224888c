package main

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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

const campaignsPage = "../../docs/campaigns.md"

// arrow is a line of the table in docs/campaigns.md.
type arrow struct {
	from, to, label string
	commands        []string
	functions       []string
	call            string // to the store
}

var (
	tableRow  = regexp.MustCompile(`(?m)^\| (.*) \|$`)
	drawn     = regexp.MustCompile(`(?m)^ {4}(\S+) --> (\S+): (.+)$`)
	commandIn = regexp.MustCompile("`oncebox ([^`]+)`")
	methodIn  = regexp.MustCompile("`Bank\\.([A-Za-z]+)`")
)

// pageTable returns the cells of the lines of the table with so many columns.
func pageTable(t *testing.T, columns int) (rows [][]string) {
	t.Helper()
	for _, line := range tableRow.FindAllStringSubmatch(page(t), -1) {
		cells := strings.Split(line[1], " | ")
		if len(cells) == columns && strings.HasPrefix(cells[0], "`") {
			rows = append(rows, cells)
		}
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

func arrows(t *testing.T) (all []arrow) {
	t.Helper()
	for _, cells := range pageTable(t, 6) {
		a := arrow{from: strings.Trim(cells[0], "`"), to: strings.Trim(cells[1], "`"), label: cells[2]}
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

// TestDrawnStates: the drawing and the table of docs/campaigns.md have the same
// arrows, and the functions that the table names exist.
func TestDrawnStates(t *testing.T) {
	t.Parallel()
	var fromTable, fromDrawing []string
	for _, a := range arrows(t) {
		fromTable = append(fromTable, fmt.Sprintf("%s --> %s: %s", a.from, a.to, a.label))
		for _, f := range a.functions {
			if _, ok := reflect.TypeFor[*itembank.Bank]().MethodByName(f); !ok {
				t.Errorf("there is no Bank.%s", f)
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

// world is a campaign with one item, and what happens to it.
type world struct {
	*testing.T
	store *itembanktest.Hooked
	clock *itembanktest.Clock
	bank  *itembank.Bank
	name  string
	out   bytes.Buffer
}

const theItem = "A-1"

func newWorld(t *testing.T, store engine.Store, s itembank.Settings) *world {
	t.Helper()
	w := &world{T: t, store: &itembanktest.Hooked{Store: store}, clock: itembanktest.NewClock(), name: strings.ToLower(rand.Text())}
	w.bank = itembank.New(w.store, itembank.WithClock(w.clock))
	w.create(w.name, s)
	return w
}

func (w *world) create(name string, s itembank.Settings) {
	w.Helper()
	s.Scope, s.Shards = w.name, 4
	if _, _, err := w.bank.CreateCampaign(w.Context(), name, s); err != nil {
		w.Fatal(err)
	}
}

// app is the command line of a person who cannot be asked.
func (w *world) app() *app {
	w.out.Reset()
	return &app{globals: globals{Output: "text"}, stdin: strings.NewReader(""), stdout: &w.out, stderr: io.Discard}
}

// do runs a command; a refusal is an answer like others.
func (w *world) do(command func(context.Context, *app, *itembank.Bank) error) {
	w.Helper()
	if err := command(w.Context(), w.app(), w.bank); err != nil && !errors.Is(err, itembank.ErrRefused) && !errors.Is(err, errLook) {
		w.Fatal(err)
	}
}

// The commands, as the table names them.

func (w *world) load() {
	w.Helper()
	source := itembank.Items(theItem)
	w.do(func(ctx context.Context, a *app, b *itembank.Bank) error {
		return loadCommand{Campaign: w.name}.load(ctx, a, b, source)
	})
}

func (w *world) claimFor(claimant string) {
	w.Helper()
	w.do(claimCommand{w.name, claimant}.claim)
}

func (w *world) release() {
	w.Helper()
	w.do(releaseCommand{Campaign: w.name, Claimant: "ann", Yes: true}.release)
}

func (w *world) sweep() {
	w.Helper()
	w.do(sweepCommand{w.name}.sweep)
}

func (w *world) withdraw(item string) {
	w.Helper()
	w.do(func(ctx context.Context, a *app, b *itembank.Bank) error {
		return withdrawCommand{Campaign: w.name}.items(ctx, a, b, itembank.Items(item))
	})
}

func (w *world) withdrawAll() {
	w.Helper()
	w.do(withdrawCommand{Campaign: w.name}.all)
}

// state is where the item is. No two rows may contradict each other.
func (w *world) state() string {
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

// writes are the calls that changed something since the last look.
func (w *world) writes() []string {
	return slices.DeleteFunc(w.store.Calls(), func(call string) bool {
		return !slices.Contains([]string{"AddItems", "Take", "CloseClaim", "EndItems", "Repair"}, call)
	})
}

// walk is how one command takes an arrow.
type walk struct {
	by       string // the command, as the table has it
	settings itembank.Settings
	before   []func(*world) // to the state where the arrow begins
	unmet    func(*world)   // the command, or one like it, with a condition unmet
	meet     func(*world)   // makes it so
	command  func(*world)
}

const aLife = time.Minute

func wait(d time.Duration) func(*world) { return func(w *world) { w.clock.Advance(d) } }

func claimByAnn(w *world) { w.claimFor("ann") }
func claimByBob(w *world) { w.claimFor("bob") }

// closed closes the campaign: its item would go on to another claim otherwise.
func closed(then func(*world)) func(*world) {
	return func(w *world) {
		if err := w.bank.CloseCampaign(w.Context(), w.name); err != nil {
			w.Fatal(err)
		}
		then(w)
	}
}

func loadBadLine(w *world) {
	w.Helper()
	err := loadCommand{Campaign: w.name, File: "codes.txt"}.load(w.Context(), w.app(), w.bank, itembank.Items(theItem, "bad\x00"))
	if !errors.Is(err, itembank.ErrInvalid) {
		w.Errorf("load of a bad line: %v", err)
	}
}

// claimHeldElsewhere claims for somebody who has an item of another campaign.
func claimHeldElsewhere(w *world) {
	w.Helper()
	other := w.name + "-2"
	w.create(other, itembank.Settings{})
	if _, err := w.bank.Load(w.Context(), other, itembank.Items("B-1"), nil); err != nil {
		w.Fatal(err)
	}
	w.do(claimCommand{other, "cid"}.claim)
	w.claimFor("cid")
}

func releaseOtherID(w *world) {
	w.Helper()
	id := "another"
	w.do(releaseCommand{Campaign: w.name, Claimant: "ann", ClaimID: &id}.release)
	if !strings.Contains(w.out.String(), "already released") {
		w.Errorf("want already released, got %s", w.out.String())
	}
}

// withdrawHeld lets ann hold the item while it is withdrawn.
func withdrawHeld(w *world) {
	w.Helper()
	claimByAnn(w)
	w.withdraw(theItem)
	w.withdrawAll()
	w.withdraw("never loaded")
	if got := w.state(); got != "held" {
		w.Errorf("withdrawn while it was held: %s", got)
	}
	w.release()
}

var (
	load     = (*world).load
	held     = []func(*world){load, claimByAnn}
	toReturn = itembank.Settings{OnEnd: itembank.Return}
	shortly  = itembank.Settings{ClaimLife: aLife}
	lending  = itembank.Settings{ClaimLife: aLife, OnEnd: itembank.Return}
	bothEnd  = itembank.Settings{ClaimLife: aLife, ItemLife: aLife, OnEnd: itembank.Return}
)

// walks has one for each command of each line of the table.
var walks = map[string][]walk{
	"load":                   {{by: "load", unmet: loadBadLine, command: load}},
	"claim":                  {{by: "claim", before: []func(*world){load}, unmet: claimHeldElsewhere, command: claimByAnn}},
	"release, on-end return": {{"release", toReturn, held, releaseOtherID, nil, (*world).release}},
	"release, on-end burn":   {{by: "release", before: held, unmet: releaseOtherID, command: (*world).release}},
	"end of the claim, on-end return": {
		{"sweep", lending, append(held, wait(aLife+9*time.Second)), (*world).sweep, wait(2 * time.Second), (*world).sweep},
		{"claim", lending, append(held, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), closed(claimByAnn)},
	},
	"end of the claim, on-end burn": {
		{"sweep", shortly, append(held, wait(aLife+9*time.Second)), (*world).sweep, wait(2 * time.Second), (*world).sweep},
		{"claim", shortly, append(held, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), claimByAnn},
	},
	"end of the claim and of the item": {
		{"sweep", bothEnd, append(held, wait(aLife+9*time.Second)), (*world).sweep, wait(2 * time.Second), (*world).sweep},
		{"claim", bothEnd, append(held, wait(aLife+9*time.Second)), claimByAnn, wait(2 * time.Second), claimByAnn},
		{"release", bothEnd, append(held, wait(aLife)), releaseOtherID, nil, (*world).release},
	},
	"end of the item": {
		{"sweep", itembank.Settings{ItemLife: aLife}, []func(*world){load}, (*world).sweep, wait(aLife), (*world).sweep},
		{"claim", itembank.Settings{ItemLife: aLife}, []func(*world){load}, closed(claimByBob), opened(wait(aLife)), claimByBob},
	},
	"withdraw": {
		{"withdraw FILE", toReturn, []func(*world){load}, withdrawHeld, nil, func(w *world) { w.withdraw(theItem) }},
		{"withdraw --all", toReturn, []func(*world){load}, withdrawHeld, nil, (*world).withdrawAll},
	},
}

func opened(then func(*world)) func(*world) {
	return func(w *world) {
		if err := w.bank.OpenCampaign(w.Context(), w.name); err != nil {
			w.Fatal(err)
		}
		then(w)
	}
}

// TestArrows takes every arrow of docs/campaigns.md by each of its commands: first
// with its condition unmet, which changes nothing, then for good, then again, which
// changes nothing either.
func TestArrows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		left := maps.Clone(walks)
		for _, a := range arrows(t) {
			ways := left[a.label]
			delete(left, a.label)
			var walked []string
			for _, way := range ways {
				walked = append(walked, way.by)
			}
			if !slices.Equal(walked, a.commands) {
				t.Errorf("%s: by %q, and walked by %q", a.label, a.commands, walked)
			}
			for _, way := range ways {
				t.Run(a.label+" by "+way.by, func(t *testing.T) { a.walk(newWorld(t, store, way.settings), way) })
			}
		}
		for label := range left {
			t.Errorf("no such line in %s: %s", campaignsPage, label)
		}
	})
}

func (a arrow) walk(w *world, way walk) {
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

// onEngines runs a test on SQLite and on DynamoDB.
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
		client := dynamodb.New(dynamodb.Options{
			Region: "us-east-1", BaseEndpoint: aws.String(testengine.Dynoxide(t)),
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		})
		bank, claims := "bank-"+rand.Text(), "dedupe-"+rand.Text()
		if err := dynamostore.CreateTables(t.Context(), client, bank, claims); err != nil {
			t.Fatal(err)
		}
		test(t, dynamostore.New(client, bank, claims))
	})
}
