package itembankfault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// Play is how a scenario is played.
type Play struct {
	Scenario Scenario
	Engine   enginetest.Engine // prepares and checks
	Through  engine.Store      // for the calls of the clients; nil: the engine's own
	Random   io.Reader         // of the Banks; nil: unpredictable
	Fresh    bool              // a Bank that failed is replaced
	Full     bool              // the check in the end reads all rows
	callOver func()            // called when a client's call is over
	mutant   *Mutant           // breaks a rule, also while the scenario is prepared
}

// maxCalls is far above what the longest scenario, history or sequence makes.
const maxCalls = 10_000

// Run plays the scenario, and returns the first violation of a guarantee.
func (p Play) Run(ctx context.Context) error {
	w := newWorld(ctx, p.Engine)
	if p.Random != nil {
		w.random = p.Random
		w.newBank()
	}
	if broken, ok := p.Through.(*Store); ok {
		broken.Slow, broken.MaxCalls, broken.Server, broken.indexBehind = w.slow, maxCalls, w.clock, true
		if p.mutant != nil {
			p.Through = w.mutate(p.mutant, broken)
		}
	} else if p.Through != nil {
		p.Through = worldTime{p.Through, w.clock}
	}
	return w.violated(func() {
		p.Scenario.Prepare(w)
		w.fresh, w.trace = p.Fresh, nil
		if p.callOver != nil {
			w.callOver = p.callOver
		}
		if p.Through != nil {
			w.through = p.Through
		}
		w.newBank() // one that remembers nothing
		p.Scenario.Act(w)
		w.checkRows(p.Full)
		w.dropCampaigns()
	})
}

// worldTime is an engine whose clock is that of the world.
type worldTime struct {
	engine.Store
	clock *Clock
}

// ServerTime implements engine.Store.
func (w worldTime) ServerTime() time.Time { return w.clock.Now() }

// fullCheckEvery is how many plays have one full check. On an engine behind a network
// full checks would take most of the time.
const fullCheckEvery = 16

// RunFaults plays each scenario without a fault and counts the calls. Then it plays
// the scenario again for each call and each fault: with the fault once and, where the
// engine refuses, for as long as the client's call lasts; and with the same Bank after
// the fault, or with a new one.
//
// Of these plays, one in share is chosen at random, with either Bank. Where all are to
// be played (see Share), each is played with both.
func RunFaults(t *testing.T, newEngine func(testing.TB) enginetest.Engine, share int) {
	share = Share(share)
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			calls, err := countCalls(t.Context(), s, e)
			if err != nil {
				t.Fatal(err)
			}
			played := 0
			one := share
			if share > 1 { // fewer of a long scenario
				one += share * len(calls) / listParts
			}
			for _, i := range injections(calls) {
				coin := rand.IntN(2) == 0
				for _, fresh := range []bool{false, true} {
					if rand.IntN(one) > 0 || !playAll() && fresh != coin {
						continue
					}
					played++
					if err := playFault(t.Context(), s, e, i, fresh, played%fullCheckEvery == 0); err != nil {
						t.Errorf("%s at call %d, %s (lasting %t, new Bank %t): %v\n%s",
							i.fault, i.call, calls[i.call], i.lasting, fresh, err, Replay(t))
					}
				}
			}
			t.Logf("%d calls, %d faults", len(calls), played)
		})
	}
}

// allVariable is the environment variable that has everything played, whatever the
// share.
const allVariable = "ITEMBANKFAULT_ALL"

// Share returns n, or 1 if everything is to be played.
func Share(n int) int {
	if playAll() {
		return 1
	}
	return n
}

// Replay says how to play everything of a test that chose at random.
func Replay(t *testing.T) string {
	return fmt.Sprintf("replay: %s=1 go test -run '%s'", allVariable, t.Name())
}

func playAll() bool { return os.Getenv(allVariable) != "" }

// countCalls plays a scenario without a fault.
func countCalls(ctx context.Context, s Scenario, e enginetest.Engine) ([]string, error) {
	counting := &Store{Store: e.Store}
	if err := (Play{Scenario: s, Engine: e, Through: counting, Random: Seeded(), Full: true}).Run(ctx); err != nil {
		return nil, fmt.Errorf("without a fault: %w", err)
	}
	return counting.Calls(), nil
}

// injection is the failure of one call.
type injection struct {
	call  int // its number, from 0
	fault Fault
	// lasting: this and all later calls of the same method fail, until the client's call
	// that made them is over.
	lasting bool
}

// injections lists all faults of all calls. Of a list that an engine reads in hundreds
// of calls in a row, the first call, the last, and one between stand for all.
func injections(calls []string) (all []injection) {
	for i, method := range calls {
		if insideList(calls, i) && rand.IntN(listParts) > 0 {
			continue
		}
		for _, fault := range faultsOf(method) {
			all = append(all, injection{call: i, fault: fault})
			if fault.refuses() {
				all = append(all, injection{call: i, fault: fault, lasting: true})
			}
		}
	}
	return all
}

// listParts is how many reads a list takes on DynamoDB.
const listParts = 64

// insideList reports that a call is one of a list, neither the first nor the last.
func insideList(calls []string, i int) bool {
	method := calls[i]
	return (method == "ListClaims" || method == "ListItemRows") &&
		i > 0 && i < len(calls)-1 && calls[i-1] == method && calls[i+1] == method
}

// plan returns the plan of a Store in which an injection is the only fault. callOver is to be
// called when a client's call is over.
func (i injection) plan() (plan func(int, string) Fault, callOver func()) {
	method, lasts := "", i.lasting
	plan = func(call int, m string) Fault {
		if call == i.call {
			method = m
		}
		if call == i.call || call > i.call && lasts && m == method {
			return i.fault
		}
		return None
	}
	return plan, func() { lasts = lasts && method == "" }
}

// ErrNeverMade says that a scenario made fewer calls than in another play. A claim is read beside a search of the bank,
// and that read is cut when the search ends first.
var ErrNeverMade = errors.New("the call that was to fail was never made")

// mostPlays is how often a scenario is played until it makes the call that is to fail.
const mostPlays = 20

// UntilMade repeats a play while the call that is to fail was never made.
func UntilMade(play func() error) (err error) {
	for range mostPlays {
		if err = play(); !errors.Is(err, ErrNeverMade) {
			return err
		}
	}
	return err
}

func playFault(ctx context.Context, s Scenario, e enginetest.Engine, i injection, fresh, full bool) error {
	return UntilMade(func() error {
		plan, callOver := i.plan()
		broken := &Store{Store: e.Store, Plan: plan}
		err := Play{Scenario: s, Engine: e, Through: broken, Random: Seeded(), Fresh: fresh, Full: full, callOver: callOver}.Run(ctx)
		if made := len(broken.Calls()); err == nil && made <= i.call {
			err = fmt.Errorf("%w: the scenario made %d calls", ErrNeverMade, made)
		}
		return err
	})
}

// Seeded returns a source of random bytes that are the same for every play. So all
// plays of a scenario make the same calls until one fails.
func Seeded() io.Reader { return &lockedReader{r: rand.NewChaCha8([32]byte{6})} }

type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}
