package itembankfault

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Way is a way in which a call of a store fails.
type Way string

// The ways. Those that refuse are the answers of an engine whose transaction met
// another one, or that asks for less: nothing was changed.
const (
	None         Way = ""
	FailBefore   Way = "error before the effect"
	LoseReply    Way = "effect, then lost reply"
	CancelBefore Way = "context cancelled before"
	CancelDuring Way = "context cancelled meanwhile"
	CancelAfter  Way = "context cancelled after"
	SlowReply    Way = "effect, then a slow reply"
	Throttle     Way = "throttled"
	ClaimBusy    Way = "conflict on the claim"
	ItemBusy     Way = "conflict on the item"
	BothBusy     Way = "conflict on both"

	// endless fails a request that would go on for ever, with an error of no family.
	endless Way = "endless"
)

// mostCalls is far above what the longest scenario, history or sequence makes.
const mostCalls = 10_000

// refuses reports that the way is an answer, where the method has one for it.
func (w Way) refuses() bool {
	return w == Throttle || w == ClaimBusy || w == ItemBusy || w == BothBusy
}

// waysOf returns the ways that differ for a Bank. A read that fails has no effect
// before or after.
func waysOf(method string) []Way {
	ways := []Way{FailBefore, CancelBefore, CancelDuring, CancelAfter}
	switch method {
	case "FreeItems", "HeldClaim", "ItemRow":
		ways = append(ways, SlowReply)
	case "Take":
		ways = append(ways, LoseReply, Throttle, ClaimBusy, ItemBusy, BothBusy)
	case "CloseClaim", "AddItems", "EndItems":
		ways = append(ways, LoseReply, Throttle, ItemBusy)
	case "CreateCampaign", "SetMode", "StartLoad", "AdvanceLoad", "Repair":
		ways = append(ways, LoseReply)
	}
	return ways
}

// Fault is the failure of one call of a store, by its number from 0.
type Fault struct {
	At  int
	Way Way
	// Lasting: this and all later calls of the same method fail, until the client's
	// call that made them is over.
	Lasting bool
}

// Faulty is a store whose calls fail as Plan says.
type Faulty struct {
	engine.Store
	Plan func(call int, method string) Way
	Slow func() // what happens while a reply is slow

	mu    sync.Mutex
	calls []string
}

var _ engine.Store = (*Faulty)(nil)

// failOnce plans a single fault. over is to be called when a client's call is.
func failOnce(f Fault) (plan func(int, string) Way, over func()) {
	method, lasts := "", f.Lasting
	plan = func(call int, m string) Way {
		if call == f.At {
			method = m
		}
		if call == f.At || call > f.At && lasts && m == method {
			return f.Way
		}
		return None
	}
	return plan, func() { lasts = lasts && method == "" }
}

// Calls returns the methods called so far.
func (f *Faulty) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// next notes a call and says how it fails.
func (f *Faulty) next(method string) Way {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, method)
	if len(f.calls) > mostCalls {
		return endless
	}
	if f.Plan == nil {
		return None
	}
	return f.Plan(len(f.calls)-1, method)
}

type cancelKey struct{}

// cancellable returns a context that faults can cancel.
func cancellable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), cancel
}

// through makes a call and fails it. refuse is the method's own answer to a way
// that refuses; nil: it has none.
func through[R any](ctx context.Context, f *Faulty, method string, refuse func(Way) R, call func() (R, error)) (R, error) {
	var none R
	way := f.next(method)
	cancel, _ := ctx.Value(cancelKey{}).(context.CancelFunc)
	switch {
	case way == endless:
		return none, fmt.Errorf("%s: more than %d calls: does a request go on for ever?", method, mostCalls)
	case way == LoseReply:
		if _, err := call(); err != nil {
			return none, err
		}
	case way == CancelBefore:
		cancel()
		return call()
	case way == CancelDuring:
		// The delay is of no account: what the engine does with it is the fault.
		time.AfterFunc(100*time.Microsecond, cancel)
		return call()
	case way == CancelAfter:
		defer cancel()
		return call()
	case way == SlowReply:
		reply, err := call()
		f.Slow()
		return reply, err
	case way.refuses() && refuse != nil:
		return refuse(way), nil
	case way == None:
		return call()
	}
	return none, fmt.Errorf("%w: %s: %s", itembank.ErrTryAgain, method, way)
}

// CreateCampaign calls the store and fails the call as planned, as all methods do.
func (f *Faulty) CreateCampaign(ctx context.Context, c engine.Campaign) (*engine.Campaign, error) {
	return through(ctx, f, "CreateCampaign", nil, func() (*engine.Campaign, error) { return f.Store.CreateCampaign(ctx, c) })
}

// Campaign implements engine.Store.
func (f *Faulty) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	return through(ctx, f, "Campaign", nil, func() (*engine.Campaign, error) { return f.Store.Campaign(ctx, name) })
}

// SetMode implements engine.Store.
func (f *Faulty) SetMode(ctx context.Context, name string, m engine.Mode) (bool, error) {
	return through(ctx, f, "SetMode", nil, func() (bool, error) { return f.Store.SetMode(ctx, name, m) })
}

// FreeItems implements engine.Store.
func (f *Faulty) FreeItems(ctx context.Context, s engine.Shard, r engine.Range, limit int) (engine.FreePage, error) {
	return through(ctx, f, "FreeItems", nil, func() (engine.FreePage, error) { return f.Store.FreeItems(ctx, s, r, limit) })
}

// Take implements engine.Store.
func (f *Faulty) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	refuse := func(w Way) engine.TakeResult {
		return engine.TakeResult{
			Throttled: w == Throttle, ClaimConflict: w == ClaimBusy || w == BothBusy, ItemConflict: w == ItemBusy || w == BothBusy,
		}
	}
	return through(ctx, f, "Take", refuse, func() (engine.TakeResult, error) { return f.Store.Take(ctx, i, c) })
}

// HeldClaim implements engine.Store.
func (f *Faulty) HeldClaim(ctx context.Context, scope, claimant string) (*engine.Claim, error) {
	return through(ctx, f, "HeldClaim", nil, func() (*engine.Claim, error) { return f.Store.HeldClaim(ctx, scope, claimant) })
}

// HeldClaimEventuallyConsistent implements engine.Store.
func (f *Faulty) HeldClaimEventuallyConsistent(ctx context.Context, scope, claimant string) (*engine.Claim, error) {
	return through(ctx, f, "HeldClaimEventuallyConsistent", nil, func() (*engine.Claim, error) { return f.Store.HeldClaimEventuallyConsistent(ctx, scope, claimant) })
}

// ItemRow implements engine.Store.
func (f *Faulty) ItemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	return through(ctx, f, "ItemRow", nil, func() (*engine.ItemRow, error) { return f.Store.ItemRow(ctx, campaign, h) })
}

// CloseClaim implements engine.Store.
func (f *Faulty) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	refuse := func(w Way) engine.CloseResult {
		return engine.CloseResult{Throttled: w == Throttle, Conflict: w != Throttle}
	}
	return through(ctx, f, "CloseClaim", refuse, func() (engine.CloseResult, error) { return f.Store.CloseClaim(ctx, c) })
}

// EndItems implements engine.Store. Nothing is settled by a way that refuses.
func (f *Faulty) EndItems(ctx context.Context, e []engine.EndRequest) ([]engine.EndResult, error) {
	refuse := func(Way) []engine.EndResult { return make([]engine.EndResult, len(e)) }
	return through(ctx, f, "EndItems", refuse, func() ([]engine.EndResult, error) { return f.Store.EndItems(ctx, e) })
}

// ListClaims implements engine.Store.
func (f *Faulty) ListClaims(ctx context.Context, scope, cursor string) (claims []engine.Claim, next string, err error) {
	claims, err = through(ctx, f, "ListClaims", nil, func() ([]engine.Claim, error) {
		claims, next, err = f.Store.ListClaims(ctx, scope, cursor)
		return claims, err
	})
	return claims, next, err
}

// ListItemRows implements engine.Store.
func (f *Faulty) ListItemRows(ctx context.Context, campaign, cursor string) (rows []engine.ListedItem, next string, err error) {
	rows, err = through(ctx, f, "ListItemRows", nil, func() ([]engine.ListedItem, error) {
		rows, next, err = f.Store.ListItemRows(ctx, campaign, cursor)
		return rows, err
	})
	return rows, next, err
}

// Repair implements engine.Store.
func (f *Faulty) Repair(ctx context.Context, m engine.RepairRequest) (bool, error) {
	return through(ctx, f, "Repair", nil, func() (bool, error) { return f.Store.Repair(ctx, m) })
}

// LatestLoad implements engine.Store.
func (f *Faulty) LatestLoad(ctx context.Context, campaign, digest string) (*engine.Load, error) {
	return through(ctx, f, "LatestLoad", nil, func() (*engine.Load, error) { return f.Store.LatestLoad(ctx, campaign, digest) })
}

// Loaded implements engine.Store.
func (f *Faulty) Loaded(ctx context.Context, campaign string) (bool, error) {
	return through(ctx, f, "Loaded", nil, func() (bool, error) { return f.Store.Loaded(ctx, campaign) })
}

// StartLoad implements engine.Store.
func (f *Faulty) StartLoad(ctx context.Context, l engine.Load) (bool, error) {
	return through(ctx, f, "StartLoad", nil, func() (bool, error) { return f.Store.StartLoad(ctx, l) })
}

// AdvanceLoad implements engine.Store.
func (f *Faulty) AdvanceLoad(ctx context.Context, l engine.Load) error {
	_, err := through(ctx, f, "AdvanceLoad", nil, func() (struct{}, error) { return struct{}{}, f.Store.AdvanceLoad(ctx, l) })
	return err
}

// AddItems implements engine.Store. By a way that refuses, only items that are
// known have an answer.
func (f *Faulty) AddItems(ctx context.Context, a []engine.AddRequest) ([]engine.AddResult, error) {
	refuse := func(Way) []engine.AddResult {
		added := make([]engine.AddResult, len(a))
		for i := range a {
			if row, err := f.Store.ItemRow(ctx, a[i].Item.Shard.Campaign, a[i].Item.Hash); err == nil && row != nil {
				added[i] = engine.AddResult{Outcome: engine.AddKnown, Existing: *row}
			}
		}
		return added
	}
	return through(ctx, f, "AddItems", refuse, func() ([]engine.AddResult, error) { return f.Store.AddItems(ctx, a) })
}
