package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Two operators open and close a campaign at once.
var modeCases = []testCase{
	{"open-against-a-change", openAgainstChange},
	{"open-against-a-load", openAgainstLoad},
	{"open-is-reconciled-once", openReconciledOnce},
	{"close-against-everything", closeAgainstEverything},
	{"by-times-against-a-close", byTimesAgainstClose},
	{"open-and-close-sent-twice", modesSentTwice},
}

// A modeSwitch gives a campaign a mode.
type modeSwitch struct {
	mode engine.Mode
	do   func(f *fixture, b *itembank.Operator) error
}

var (
	openIt  = modeSwitch{engine.OpenByHand, func(f *fixture, b *itembank.Operator) error { return b.OpenCampaign(f.ctx, f.name) }}
	closeIt = modeSwitch{engine.ClosedByHand, func(f *fixture, b *itembank.Operator) error { return b.CloseCampaign(f.ctx, f.name) }}

	closeUntilReconciled = modeSwitch{engine.ClosedUntilReconciled, func(f *fixture, b *itembank.Operator) error {
		return b.CloseUntilReconciled(f.ctx, f.name)
	}}
	decideByTimes = modeSwitch{engine.ByTimes, func(f *fixture, b *itembank.Operator) error {
		_, err := b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ByTimes: true})
		return err
	}}
)

// otherPageSize changes the campaign and not its mode.
func otherPageSize(f *fixture) {
	f.Helper()
	pageSize := 77
	_, err := f.bank().ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{PageSize: &pageSize})
	f.Must(err)
}

// noteEmpty does what a container does that has seen the bank empty.
func noteEmpty(f *fixture) {
	f.Helper()
	row, err := f.Store.Campaign(f.ctx, f.name)
	f.Must(err)
	if marked, err := f.Store.MarkEmpty(f.ctx, f.name, row.Version); err != nil || !marked {
		f.Errorf("not marked as empty: %v", err)
	}
}

// stockedIn creates and loads the campaign, and gives it a mode.
func (f *fixture) stockedIn(first modeSwitch) {
	f.Helper()
	f.stocked(1, itembank.Settings{Shards: 1})
	f.Must(first.do(f, f.bank()))
}

func (f *fixture) wantMode(want engine.Mode) {
	f.Helper()
	row, err := f.Store.Campaign(f.ctx, f.name)
	f.Must(err)
	if row.Mode != want {
		f.Errorf("want mode %s, got %s", want, row.Mode)
	}
}

// openedAgainst opens a campaign of each mode. After the first read another operator changes it. The opening must fail
// with the error want, and the mode must be the one that the other operator left.
func (f *fixture) openedAgainst(other func(f *fixture), want error, left func(first engine.Mode) engine.Mode) {
	f.Helper()
	for n, first := range []modeSwitch{decideByTimes, closeIt, closeUntilReconciled} {
		changed := false
		f.named(fmt.Sprint(n)).atCallsFrom(secondCall, func(f *fixture, b *itembank.Operator) {
			f.stockedIn(first)
			changed = false
			err := b.OpenCampaign(f.ctx, f.name)
			if wantErr := changed && want != nil; wantErr && !errors.Is(err, want) || !wantErr && err != nil {
				f.Errorf("%s, changed %t: want %v, got %v", first.mode, changed, want, err)
			}
			if changed {
				f.wantMode(left(first.mode))
			} else {
				f.wantMode(engine.OpenByHand)
			}
		}, func(f *fixture) {
			changed = true
			other(f)
		})
	}
}

// openAgainstChange: a changed page size cannot be told from a close, so the opening says that the campaign was changed.
func openAgainstChange(f *fixture) {
	f.openedAgainst(otherPageSize, itembank.ErrChanged, func(first engine.Mode) engine.Mode { return first })
}

// openAgainstLoad: neither a load nor a note that the bank is empty prevents an opening.
func openAgainstLoad(f *fixture) {
	for name, other := range map[string]func(f *fixture){
		"load": func(f *fixture) { f.load("new") },
		"note": noteEmpty,
	} {
		f.named(name).openedAgainst(other, nil, func(engine.Mode) engine.Mode { return engine.OpenByHand })
	}
}

// openReconciledOnce: a campaign that is loaded just before it is opened is not reconciled again.
func openReconciledOnce(f *fixture) {
	f.stockedIn(closeUntilReconciled)
	store := f.interruptedAt(1, false, func() error {
		f.load("new")
		return nil
	}, "ReplaceCampaign")
	f.Must(itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock())).OpenCampaign(f.ctx, f.name))
	f.wantMode(engine.OpenByHand)
	calls := store.Calls()
	end := slices.Index(calls, "ReplaceCampaign")
	if !slices.Contains(calls[:end], "ListItemRows") {
		f.Errorf("it was not reconciled: %v", calls)
	}
	if got, want := calls[end:], []string{"ReplaceCampaign", "Campaign", "ReplaceCampaign"}; !slices.Equal(got, want) {
		f.Errorf("want the last calls %v, got %v", want, got)
	}
}

// closeAgainstEverything: a close holds, whatever others do meanwhile. It does not remove the condition of a close that
// is later than its first read.
func closeAgainstEverything(f *fixture) {
	for name, other := range map[string]func(f *fixture){
		"open":      func(f *fixture) { f.Must(openIt.do(f, f.bank())) },
		"close":     func(f *fixture) { f.Must(closeIt.do(f, f.bank())) },
		"until":     func(f *fixture) { f.Must(closeUntilReconciled.do(f, f.bank())) },
		"page-size": otherPageSize,
		"load":      func(f *fixture) { f.load("new") },
		"note":      noteEmpty,
	} {
		for n, first := range []modeSwitch{openIt, closeIt, closeUntilReconciled} {
			for _, do := range []modeSwitch{closeIt, closeUntilReconciled} {
				one, want := f.named(fmt.Sprintf("%s-%d-%s", name, n, do.mode)), do.mode
				one.stockedIn(first)
				store := one.interruptedAt(secondCall, false, func() error {
					other(one)
					row, err := one.Store.Campaign(one.ctx, one.name)
					one.Must(err)
					if name != "load" && name != "note" && row.Mode == engine.ClosedUntilReconciled {
						want = row.Mode
					}
					return nil
				})
				if err := do.do(one, itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))); err != nil {
					f.Errorf("%s, then %s against %s: %v", first.mode, do.mode, name, err)
				}
				one.wantMode(want)
			}
		}
	}
}

// byTimesAgainstClose: --by-times takes back the close that its operator has seen, and no later one.
func byTimesAgainstClose(f *fixture) {
	f.stockedIn(closeIt)
	store := f.interruptedAt(secondCall, false, func() error { return closeIt.do(f, f.bank()) })
	if err := decideByTimes.do(f, itembank.NewOperator(store)); !errors.Is(err, itembank.ErrChanged) {
		f.Errorf("want %v, got %v", itembank.ErrChanged, err)
	}
	f.wantMode(engine.ClosedByHand)
}

// modesSentTwice: what was sent twice is not taken for a change by another operator.
func modesSentTwice(f *fixture) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute) // a close that does not know its own write would try for ever
	defer cancel()
	f.ctx = ctx
	f.stocked(1, itembank.Settings{Shards: 1})
	b := itembank.NewOperator(changesTwice{f.Store}, itembank.WithClock(itembankfault.NewClock()))
	for _, s := range []modeSwitch{openIt, closeIt, closeIt, closeUntilReconciled, closeUntilReconciled, openIt, openIt} {
		f.Must(s.do(f, b))
		f.wantMode(s.mode)
	}
}
