package itembankfault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// Play holds the options of one run of a scenario.
type Play struct {
	Scenario Scenario
	Engine   enginetest.Engine // prepares the scenario and checks its rows
	Through  engine.Store      // the store that the clients call; nil: the engine's store
	Random   io.Reader         // the source of random bytes of the Banks; nil: an unpredictable source
	Fresh    bool              // replace a Bank after it has failed
	Full     bool              // the last check reads all rows
	callOver func()            // called when a client's call is over
	mutant   *Mutant           // breaks a rule, also while the scenario is prepared
}

// maxCalls is far more calls than the longest scenario, history or sequence makes.
const maxCalls = 10_000

// Run plays the scenario, and returns the first violation of a guarantee as an error.
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
		w.newBank() // the new Bank remembers nothing
		p.Scenario.Act(w)
		w.checkRows(p.Full)
		w.dropCampaigns()
	})
}

// worldTime is an engine that uses the world's clock as its server time.
type worldTime struct {
	engine.Store
	clock *Clock
}

// ServerTime implements engine.Store.
func (w worldTime) ServerTime() time.Time { return w.clock.Now() }

// fullCheckEvery is the number of plays for each full check. On an engine behind a network, more full checks would
// take most of the time of the test.
const fullCheckEvery = 16

// RunFaults plays each scenario without a fault and counts the calls. Then it plays the scenario again for each call
// and each fault. Each fault comes once. A fault that the engine answers with a refusal is also played on every later
// call of the method until the client's call ends. After a fault a play goes on with the same Bank, or with a new
// Bank.
//
// RunFaults picks one play in share at random, with either kind of Bank. If the tests play everything (see Share), it
// plays all, with both kinds of Bank.
func RunFaults(t *testing.T, newEngine func(testing.TB) enginetest.Engine, share int) {
	share = search.Share(share)
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			calls, err := countCalls(t.Context(), s, e)
			if err != nil {
				t.Fatal(err)
			}
			played := 0
			search.Some(t, share, injections(calls), make(chan struct{}, 1), func(i injection) error {
				coin := rand.IntN(2) == 0
				for _, fresh := range []bool{false, true} {
					if !search.All() && fresh != coin {
						continue
					}
					played++
					if err := playFault(t.Context(), s, e, i, fresh, played%fullCheckEvery == 0); err != nil {
						return fmt.Errorf("new Bank %t: %w", fresh, err)
					}
				}
				return nil
			})
		})
	}
}

// countCalls plays a scenario without a fault, and lists the calls of the store.
func countCalls(ctx context.Context, s Scenario, e enginetest.Engine) ([]string, error) {
	counting := &Store{Store: e.Store}
	if err := (Play{Scenario: s, Engine: e, Through: counting, Random: Seeded(), Full: true}).Run(ctx); err != nil {
		return nil, fmt.Errorf("without a fault: %w", err)
	}
	return counting.Calls(), nil
}

type injection = search.Injection[string, Fault]

// injections lists every fault for every call. A fault that lasts does so until the client's call ends.
func injections(calls []string) []injection { return search.Injections(calls, faultsOf, Fault.refuses) }

// planOf returns a plan for a Store with one fault. The caller calls callOver when a client's call has ended.
func planOf(i injection) (plan func(int, string) Fault, callOver func()) {
	met, over := false, false
	plan = func(call int, method string) Fault {
		if over || !i.Hits(call, method) {
			return None
		}
		met = true
		return i.Fault
	}
	return plan, func() { over = met }
}

// ErrNeverMade says that a scenario made fewer calls than in an earlier play. A Bank may read a claim while it
// searches the bank, and it cancels that read when the search ends first.
var ErrNeverMade = errors.New("the call that was to fail was never made")

// mostPlays is how often a scenario is played at most until it makes the call that must fail.
const mostPlays = 20

// UntilMade repeats a play until the scenario makes the call that must fail, at most mostPlays times.
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
		plan, callOver := planOf(i)
		broken := &Store{Store: e.Store, Plan: plan}
		err := Play{Scenario: s, Engine: e, Through: broken, Random: Seeded(), Fresh: fresh, Full: full, callOver: callOver}.Run(ctx)
		if made := len(broken.Calls()); err == nil && made <= i.Call {
			err = fmt.Errorf("%w: the scenario made %d calls", ErrNeverMade, made)
		}
		return err
	})
}

// Seeded returns a source of random bytes that is the same for every play. So all plays of a scenario make the same
// calls until one fails.
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
