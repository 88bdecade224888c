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

// Store is an engine whose calls a test counts, interrupts and breaks. Without hooks, a plan or results, it only
// counts.
type Store struct {
	engine.Store

	// Before runs before each call. Its error replaces the call.
	Before func(method string) error
	// After runs after each call took effect. Its error replaces the reply.
	After func(method string) error

	// Plan says how a call fails. Calls have numbers from 0.
	Plan func(call int, method string) Fault
	// Slow runs during a slow reply.
	Slow func()

	// TakeResults and CloseResults are the results of the first calls of Take and of CloseClaim. These calls do not
	// reach the engine.
	TakeResults  []engine.TakeResult
	CloseResults []engine.CloseResult

	// Server is the clock of the engine. If it is nil, the engine has no clock.
	Server itembank.Clock
	// Due are entries that the index of claims with an end should have forgotten. DueClaims lists them, too.
	Due []engine.DueClaim

	// MaxCalls is the number of calls after which all calls fail, so that a request that would never end does end. 0
	// means no limit.
	MaxCalls int

	// indexBehind makes the index keep every claim that was made through this Store.
	indexBehind bool

	mu     sync.Mutex
	number int      // the number of calls so far
	calls  []string // the methods called since the last Calls
}

var _ engine.Store = (*Store)(nil)

// Fault is a way in which a call fails.
type Fault string

// These are the faults. Throttled and the conflicts are results of an engine that changed nothing. For a method
// without such a result, they are errors.
const (
	None            Fault = ""
	FailedBefore    Fault = "error before the effect"
	LostReply       Fault = "effect, then lost reply"
	SlowReply       Fault = "effect, then slow reply"
	CancelledBefore Fault = "context cancelled before"
	CancelledDuring Fault = "context cancelled during the call"
	CancelledAfter  Fault = "context cancelled after"
	Throttled       Fault = "throttled"
	ClaimConflict   Fault = "conflict on the claim"
	ItemConflict    Fault = "conflict on the item"
	BothConflict    Fault = "conflict on both"

	// endless fails a request that would never end. Its error belongs to no family.
	endless Fault = "endless"
)

// refuses reports whether the engine answers with this fault as a result.
func (f Fault) refuses() bool {
	return f == Throttled || f == ClaimConflict || f == ItemConflict || f == BothConflict
}

// faultsOf returns the faults that make a difference to a Bank. Reads have one kind of failure, because they have no
// effect.
func faultsOf(method string) []Fault {
	faults := []Fault{FailedBefore, CancelledBefore, CancelledDuring, CancelledAfter}
	switch method {
	case "FreeItems", "FreeItemsEventuallyConsistent", "ItemRow", "ItemRows", "ItemRowsEventuallyConsistent", "DueClaims":
		faults = append(faults, SlowReply)
	case "HeldClaim":
		faults = append(faults, SlowReply, ClaimConflict)
	case "ReadItems":
		faults = append(faults, SlowReply, ItemConflict)
	case "Take":
		faults = append(faults, LostReply, Throttled, ClaimConflict, ItemConflict, BothConflict)
	case "ConfirmClaim", "ProlongClaim":
		faults = append(faults, LostReply, ClaimConflict)
	case "CloseClaim", "AddItems", "EndItems", "MarkWithdrawn":
		faults = append(faults, LostReply, Throttled, ItemConflict)
	case "StartFirstLoad":
		faults = append(faults, LostReply, ItemConflict)
	case "CreateCampaign", "ReplaceCampaign", "NextVersion", "MarkEmpty", "StartLoad", "UpdateLoad", "GiveUpLoad",
		"Repair":
		faults = append(faults, LostReply)
	}
	return faults
}

// Calls returns the methods called since the last Calls, in order.
func (s *Store) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// next records a call and returns its fault.
func (s *Store) next(method string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, method)
	s.number++
	if s.MaxCalls > 0 && s.number > s.MaxCalls {
		return endless
	}
	if s.Plan == nil {
		return None
	}
	return s.Plan(s.number-1, method)
}

type cancelKey struct{}

// cancellable returns a context that faults can cancel.
func cancellable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), cancel
}

// call is one call of a method. refuse returns the method's result for a fault that refuses. It is nil if the method
// has no such result.
type call[R any] struct {
	method string
	do     func() (R, error)
	refuse func(Fault) R
}

// through runs the hooks, makes the call between them, and fails it as planned.
func through[R any](ctx context.Context, s *Store, c call[R]) (R, error) {
	var none R
	fault := s.next(c.method)
	if s.Before != nil {
		if err := s.Before(c.method); err != nil {
			return none, err
		}
	}
	result, err := broken(ctx, s, c, fault)
	if s.After != nil {
		if lost := s.After(c.method); lost != nil {
			return none, lost
		}
	}
	return result, err
}

// broken makes a call with a fault.
func broken[R any](ctx context.Context, s *Store, c call[R], fault Fault) (R, error) {
	var none R
	cancel, _ := ctx.Value(cancelKey{}).(context.CancelFunc)
	switch {
	case fault == None:
		return c.do()
	case fault == endless:
		return none, fmt.Errorf("%s: more than %d calls: does a request go on for ever?", c.method, s.MaxCalls)
	case fault == LostReply:
		if _, err := c.do(); err != nil {
			return none, err
		}
	case fault == SlowReply:
		reply, err := c.do()
		s.Slow()
		return reply, err
	case fault == CancelledBefore:
		cancel()
		return c.do()
	case fault == CancelledDuring:
		// Any delay will do: the fault tests how the engine handles the cancelled context.
		time.AfterFunc(100*time.Microsecond, cancel)
		return c.do()
	case fault == CancelledAfter:
		defer cancel()
		return c.do()
	case fault.refuses() && c.refuse != nil:
		return c.refuse(fault), nil
	}
	return none, fmt.Errorf("%w: %s: %s", itembank.ErrTryAgain, c.method, fault)
}

// pop takes the first result that a test has set.
func pop[R any](s *Store, results *[]R) (first R, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(*results) == 0 {
		return first, false
	}
	first, *results = (*results)[0], (*results)[1:]
	return first, true
}

// CreateCampaign implements engine.Store. As every method does, it counts the call, runs the hooks, and fails the
// call as planned.
func (s *Store) CreateCampaign(ctx context.Context, c engine.Campaign) (engine.CreateResult, error) {
	return through(ctx, s, call[engine.CreateResult]{method: "CreateCampaign", do: func() (engine.CreateResult, error) {
		return s.Store.CreateCampaign(ctx, c)
	}})
}

// Campaign implements engine.Store.
func (s *Store) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	return through(ctx, s, call[*engine.Campaign]{method: "Campaign", do: func() (*engine.Campaign, error) {
		return s.Store.Campaign(ctx, name)
	}})
}

// Campaigns implements engine.Store.
func (s *Store) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	return through(ctx, s, call[[]engine.Campaign]{method: "Campaigns", do: func() ([]engine.Campaign, error) {
		return s.Store.Campaigns(ctx)
	}})
}

// ReplaceCampaign implements engine.Store.
func (s *Store) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	return through(ctx, s, call[bool]{method: "ReplaceCampaign", do: func() (bool, error) {
		return s.Store.ReplaceCampaign(ctx, old, now)
	}})
}

// FreeItems implements engine.Store.
func (s *Store) FreeItems(
	ctx context.Context, shard engine.Shard, r engine.Range, limit int, c engine.Consistency,
) (engine.FreePage, error) {
	return through(ctx, s, call[engine.FreePage]{method: read("FreeItems", c), do: func() (engine.FreePage, error) {
		return s.Store.FreeItems(ctx, shard, r, limit, c)
	}})
}

// read names a call that reads. Plans and tests tell reads of the two consistencies apart.
func read(method string, c engine.Consistency) string {
	if c == engine.Eventual {
		return method + "EventuallyConsistent"
	}
	return method
}

// Take implements engine.Store.
func (s *Store) Take(ctx context.Context, items []engine.FreeItem, claim engine.Claim) (engine.TakeResult, error) {
	return through(ctx, s, call[engine.TakeResult]{
		method: "Take",
		do: func() (engine.TakeResult, error) {
			if result, found := pop(s, &s.TakeResults); found {
				return result, nil
			}
			result, err := s.Store.Take(ctx, items, claim)
			s.taken(result, err, claim)
			return result, err
		},
		refuse: refusedTake,
	})
}

// taken records a new claim with an end, so that the index keeps it.
func (s *Store) taken(result engine.TakeResult, err error, claim engine.Claim) {
	if err == nil && result.Taken() && s.indexBehind && !claim.EndsAt.IsZero() {
		s.mu.Lock()
		s.Due = append(s.Due, engine.DueClaim{ClaimKey: claim.Key(), EndsAt: claim.EndsAt})
		s.mu.Unlock()
	}
}

func refusedTake(f Fault) engine.TakeResult {
	return engine.TakeResult{
		ItemThrottled: f == Throttled,
		ClaimConflict: f == ClaimConflict || f == BothConflict,
		ItemConflict:  f == ItemConflict || f == BothConflict,
	}
}

// HeldClaim implements engine.Store.
func (s *Store) HeldClaim(
	ctx context.Context, key engine.ClaimKey, c engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	if c == engine.Eventual {
		held, err = through(ctx, s, call[*engine.Claim]{method: read("HeldClaim", c), do: func() (*engine.Claim, error) {
			held, _, err := s.Store.HeldClaim(ctx, key, c)
			return held, err
		}})
		return held, false, err
	}
	type reply struct {
		held     *engine.Claim
		conflict bool
	}
	r, err := through(ctx, s, call[reply]{
		method: "HeldClaim",
		do: func() (reply, error) {
			held, conflict, err := s.Store.HeldClaim(ctx, key, c)
			return reply{held, conflict}, err
		},
		refuse: func(Fault) reply { return reply{conflict: true} },
	})
	return r.held, r.conflict, err
}

// ConfirmClaim implements engine.Store.
func (s *Store) ConfirmClaim(ctx context.Context, claim engine.Claim) (engine.ConfirmResult, error) {
	return through(ctx, s, call[engine.ConfirmResult]{
		method: "ConfirmClaim",
		do: func() (engine.ConfirmResult, error) {
			return s.Store.ConfirmClaim(ctx, claim)
		},
		refuse: func(Fault) engine.ConfirmResult { return engine.ConfirmResult{Conflict: true} },
	})
}

// ProlongClaim implements engine.Store.
func (s *Store) ProlongClaim(
	ctx context.Context, claim engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	return through(ctx, s, call[engine.ConfirmResult]{
		method: "ProlongClaim",
		do: func() (engine.ConfirmResult, error) {
			return s.Store.ProlongClaim(ctx, claim, endsAt)
		},
		refuse: func(Fault) engine.ConfirmResult { return engine.ConfirmResult{Conflict: true} },
	})
}

// DueClaims implements engine.Store.
func (s *Store) DueClaims(
	ctx context.Context, shard engine.Shard, after, before time.Time, limit int,
) (engine.DuePage, error) {
	return through(ctx, s, call[engine.DuePage]{method: "DueClaims", do: func() (engine.DuePage, error) {
		page, err := s.Store.DueClaims(ctx, shard, after, before, limit)
		return s.behind(page, after, before, limit), err
	}})
}

// behind returns a page of an index that still has older entries, of any shard.
func (s *Store) behind(page engine.DuePage, after, before time.Time, limit int) engine.DuePage {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.Due {
		if !d.EndsAt.Before(after) && d.EndsAt.Before(before) && !slices.Contains(page.Claims, d) {
			page.Claims = append(page.Claims, d)
		}
	}
	slices.SortStableFunc(page.Claims, func(a, b engine.DueClaim) int { return a.EndsAt.Compare(b.EndsAt) })
	if len(page.Claims) > limit {
		page.Claims, page.More = page.Claims[:limit], true
	}
	return page
}

// ServerTime implements engine.Store.
func (s *Store) ServerTime() time.Time {
	if s.Server == nil {
		return s.Store.ServerTime()
	}
	return s.Server.Now()
}

// CloseClaim implements engine.Store.
func (s *Store) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	return through(ctx, s, call[engine.CloseResult]{
		method: "CloseClaim",
		do: func() (engine.CloseResult, error) {
			if result, found := pop(s, &s.CloseResults); found {
				return result, nil
			}
			return s.Store.CloseClaim(ctx, r)
		},
		refuse: func(f Fault) engine.CloseResult {
			return engine.CloseResult{Throttled: f == Throttled, Conflict: f != Throttled}
		},
	})
}

// ItemRow implements engine.Store.
func (s *Store) ItemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	return through(ctx, s, call[*engine.ItemRow]{method: "ItemRow", do: func() (*engine.ItemRow, error) {
		return s.Store.ItemRow(ctx, campaign, h)
	}})
}

// ItemRows implements engine.Store.
func (s *Store) ItemRows(
	ctx context.Context, campaign string, hashes []engine.Hash, c engine.Consistency,
) ([]*engine.ItemRow, error) {
	return through(ctx, s, call[[]*engine.ItemRow]{method: read("ItemRows", c), do: func() ([]*engine.ItemRow, error) {
		return s.Store.ItemRows(ctx, campaign, hashes, c)
	}})
}

// ReadItems implements engine.Store.
func (s *Store) ReadItems(ctx context.Context, keys []engine.FreeItem) ([]engine.ItemRead, error) {
	return through(ctx, s, call[[]engine.ItemRead]{
		method: "ReadItems",
		do: func() ([]engine.ItemRead, error) {
			return s.Store.ReadItems(ctx, keys)
		},
		refuse: func(Fault) []engine.ItemRead {
			reads := make([]engine.ItemRead, len(keys))
			for i := range reads {
				reads[i].Conflict = true
			}
			return reads
		},
	})
}

// AddItems implements engine.Store. A fault that refuses gives results only for known items, as a DynamoDB
// transaction does.
func (s *Store) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	return through(ctx, s, call[[]engine.AddResult]{
		method: "AddItems",
		do: func() ([]engine.AddResult, error) {
			return s.Store.AddItems(ctx, requests)
		},
		refuse: func(Fault) []engine.AddResult {
			results := make([]engine.AddResult, len(requests))
			for i, r := range requests {
				if row, err := s.Store.ItemRow(ctx, r.Item.Shard.Campaign, r.Item.Hash); err == nil && row != nil {
					results[i] = engine.AddResult{Outcome: engine.AddKnown, Existing: *row}
				}
			}
			return results
		},
	})
}

// EndItems implements engine.Store. A fault that refuses gives no results.
func (s *Store) EndItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	return through(ctx, s, call[[]engine.EndResult]{
		method: "EndItems",
		do: func() ([]engine.EndResult, error) {
			return s.Store.EndItems(ctx, requests)
		},
		refuse: func(Fault) []engine.EndResult { return make([]engine.EndResult, len(requests)) },
	})
}

// MarkWithdrawn implements engine.Store. A fault that refuses marks nothing.
func (s *Store) MarkWithdrawn(ctx context.Context, item engine.FreeItem) (bool, error) {
	return through(ctx, s, call[bool]{
		method: "MarkWithdrawn",
		do:     func() (bool, error) { return s.Store.MarkWithdrawn(ctx, item) },
		refuse: func(Fault) bool { return false },
	})
}

// Loads implements engine.Store.
func (s *Store) Loads(ctx context.Context, campaign string) (some bool, unfinished []engine.Load, err error) {
	some, err = through(ctx, s, call[bool]{method: "Loads", do: func() (bool, error) {
		some, unfinished, err = s.Store.Loads(ctx, campaign)
		return some, err
	}})
	return some, unfinished, err
}

// NextVersion implements engine.Store.
func (s *Store) NextVersion(ctx context.Context, campaign string) (*engine.Campaign, error) {
	return through(ctx, s, call[*engine.Campaign]{method: "NextVersion", do: func() (*engine.Campaign, error) {
		return s.Store.NextVersion(ctx, campaign)
	}})
}

// MarkEmpty implements engine.Store.
func (s *Store) MarkEmpty(ctx context.Context, campaign string, version int64) (bool, error) {
	return through(ctx, s, call[bool]{method: "MarkEmpty", do: func() (bool, error) {
		return s.Store.MarkEmpty(ctx, campaign, version)
	}})
}

// LatestLoad implements engine.Store.
func (s *Store) LatestLoad(ctx context.Context, campaign, digest string) (*engine.Load, error) {
	return through(ctx, s, call[*engine.Load]{method: "LatestLoad", do: func() (*engine.Load, error) {
		return s.Store.LatestLoad(ctx, campaign, digest)
	}})
}

// StartLoad implements engine.Store. The call for the first load of a campaign is named StartFirstLoad.
func (s *Store) StartLoad(ctx context.Context, l engine.Load, first bool) (started, conflict bool, err error) {
	type reply struct{ started, conflict bool }
	start := call[reply]{
		method: "StartLoad",
		do: func() (reply, error) {
			started, conflict, err := s.Store.StartLoad(ctx, l, first)
			return reply{started, conflict}, err
		},
	}
	if first {
		start.method, start.refuse = "StartFirstLoad", func(Fault) reply { return reply{conflict: true} }
	}
	r, err := through(ctx, s, start)
	return r.started, r.conflict, err
}

// UpdateLoad implements engine.Store. A call that gives a load up is named GiveUpLoad.
func (s *Store) UpdateLoad(ctx context.Context, l engine.Load) (refused bool, err error) {
	method := "UpdateLoad"
	if l.GivenUp {
		method = "GiveUpLoad"
	}
	return through(ctx, s, call[bool]{method: method, do: func() (bool, error) { return s.Store.UpdateLoad(ctx, l) }})
}

// ListClaims implements engine.Store.
func (s *Store) ListClaims(ctx context.Context, scope, cursor string) (claims []engine.Claim, next string, err error) {
	claims, err = through(ctx, s, call[[]engine.Claim]{method: "ListClaims", do: func() ([]engine.Claim, error) {
		claims, next, err = s.Store.ListClaims(ctx, scope, cursor)
		return claims, err
	}})
	return claims, next, err
}

// ListItemRows implements engine.Store.
func (s *Store) ListItemRows(ctx context.Context, campaign, cursor string) (rows []engine.ListedItem, next string, err error) {
	rows, err = through(ctx, s, call[[]engine.ListedItem]{method: "ListItemRows", do: func() ([]engine.ListedItem, error) {
		rows, next, err = s.Store.ListItemRows(ctx, campaign, cursor)
		return rows, err
	}})
	return rows, next, err
}

// Counts implements engine.Store.
func (s *Store) Counts(ctx context.Context, c engine.Campaign, how engine.Consistency) (engine.Counts, error) {
	return through(ctx, s, call[engine.Counts]{method: "Counts", do: func() (engine.Counts, error) {
		return s.Store.Counts(ctx, c, how)
	}})
}

// Repair implements engine.Store.
func (s *Store) Repair(ctx context.Context, r engine.RepairRequest) (bool, error) {
	return through(ctx, s, call[bool]{method: "Repair", do: func() (bool, error) {
		return s.Store.Repair(ctx, r)
	}})
}
