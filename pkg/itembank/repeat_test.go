package itembank_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var repeatCases = []testCase{
	{"claim-is-read-first-among-repeats", claimReadFirst},
	{"claim-is-read-first-where-items-return", claimReadFirstWhereItemsReturn},
	{"stale-read-of-a-claim", staleRead},
	{"stale-read-of-a-claim-elsewhere", staleReadElsewhere},
}

// claimReadFirst: a Bank reads the claim first while many claimants come again, and stops when few do.
func claimReadFirst(f *fixture) {
	f.stocked(100, itembank.Settings{Shards: 1, PageSize: 100})
	counted := f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(itembankfault.NewClock()))
	f.claim(b, "ann")
	for i := range 20 {
		f.claim(b, fmt.Sprintf("new-%d", i))
	}
	if calls := counted.Calls(); slices.Contains(calls, "HeldClaimEventuallyConsistent") {
		f.Errorf("no claimant came again: want no claim read first, got %v", calls)
	}
	f.claim(b, "ann")
	f.claim(b, "ann")
	counted.Calls()
	f.claim(b, "ann")
	f.wantCalls("a repeated claim among others", counted, "HeldClaimEventuallyConsistent")
	f.claim(b, "bob")
	f.wantCalls("a new claimant among repeated claims", counted, "HeldClaimEventuallyConsistent", "Take")
	for i := range 20 {
		f.claim(b, fmt.Sprintf("newer-%d", i))
	}
	counted.Calls()
	f.claim(b, "ann")
	f.wantCalls("a repeated claim among new claimants", counted, "Take")
}

// readsFirst makes a Bank that has had so many repeated claims that it reads the claim first.
func (f *fixture) readsFirst(s engine.Store, options ...itembank.Option) *itembank.Operator {
	f.Helper()
	b := itembank.NewOperator(s, options...)
	for range 5 {
		f.claim(b, "regular")
	}
	return b
}

// claimReadFirstWhereItemsReturn: the read is consistent. An old answer could have an item that another claimant now
// holds.
func claimReadFirstWhereItemsReturn(f *fixture) {
	f.stocked(4, itembank.Settings{Shards: 1, OnEnd: itembank.Return})
	counted := f.counted()
	b := f.readsFirst(counted, itembank.WithClock(itembankfault.NewClock()))
	counted.Calls()
	f.claim(b, "regular")
	f.wantCalls("a repeated claim", counted, "HeldClaim")
	f.claim(b, "ann")
	f.wantCalls("a new claimant", counted, "HeldClaim", "Take")
}

// staleReads is an engine whose eventually consistent reads return old claims.
type staleReads struct {
	engine.Store
	claims map[string]engine.Claim
}

func (s *staleReads) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (*engine.Claim, bool, error) {
	if how == engine.Strong {
		return s.Store.HeldClaim(ctx, key, how)
	}
	if claim, ok := s.claims[key.Claimant]; ok {
		return &claim, false, nil
	}
	return nil, false, nil
}

// staleRead: an old answer never has an item that another claimant can have. If items are burned, it may have a claim
// that was just released; no claimant gets that item. If the read misses a claim or returns an ended one, the
// transaction finds the right one.
func staleRead(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		one := f.named(string(onEnd))
		c, items := one.stocked(12, itembank.Settings{Shards: 1, OnEnd: onEnd, ClaimLife: time.Hour})
		clock := itembankfault.NewClock()
		old := &staleReads{one.Store, map[string]engine.Claim{}}
		b := one.readsFirst(old, itembank.WithClock(clock))
		fresh := one.bank(itembank.WithClock(clock))
		released, ended := one.claim(fresh, "ann").Claim, one.claim(fresh, "bob").Claim
		old.claims["ann"], old.claims["bob"] = rowOf(released), rowOf(ended)

		missed := one.claim(fresh, "cid").Claim
		if again := one.claim(b, "cid"); !reflect.DeepEqual(again.Claim, missed) || !again.Replayed {
			f.Errorf("%s: a claim that the read misses: want %+v, got %+v", onEnd, missed, again)
		}

		want := itembank.Released{Ended: "burned"}
		if onEnd == itembank.Return {
			want = itembank.Released{Returned: true}
		}
		one.released(fresh, rowOf(released), want)
		if onEnd == itembank.Return {
			one.Take(c, "dan", released.Items[0])
		}
		again := one.claim(b, "ann").Claim
		switch where := one.Where(c, again.Items[0], "ann", "dan"); {
		case where == "held by ann" && !reflect.DeepEqual(again, released):
		case onEnd == itembank.Burn && where == "burned" && reflect.DeepEqual(again, released):
		default:
			f.Errorf("%s: ann released %s and got %s, which is %q", onEnd, released.Items[0], again.Items[0], where)
		}

		clock.Advance(time.Hour + endGrace + time.Millisecond)
		one.loadAt(clock, items...)
		next := one.claim(fresh, "bob").Claim
		if again := one.claim(b, "bob"); reflect.DeepEqual(next, ended) || !reflect.DeepEqual(again.Claim, next) {
			f.Errorf("%s: a read of an ended claim: want %+v, got %+v", onEnd, next, again)
		}
	}
}

// staleReadElsewhere: a claimant who just released a claim of another campaign in the scope can claim here.
func staleReadElsewhere(f *fixture) {
	c, _ := f.stocked(4, itembank.Settings{Shards: 1, Scope: f.name + "-scope"})
	other := f.createNamed(f.name+"-other", itembank.Settings{Scope: c.Scope})
	f.loadInto(other.Name, "x")
	old := &staleReads{f.Store, map[string]engine.Claim{}}
	b := f.readsFirst(old, itembank.WithClock(itembankfault.NewClock()))
	claim := f.Take(other, "ann", "x")
	old.claims["ann"] = claim
	f.refused(b, "ann", itembank.ErrClaimedElsewhere)
	f.Close(enginerows.BurnOf(other, claim))
	f.claim(b, "ann")
}
