package itembank_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// cutLoad cuts a load after its first transaction, and returns the id of the load.
func (f *fixture) cutLoad(items ...string) string {
	f.Helper()
	cut := itembank.NewOperator(f.cutAt(1, true, "AddItems"), itembank.WithClock(itembankfault.NewClock()))
	report, err := cut.Load(f.ctx, f.name, itembank.Items(items...), nil)
	if !errors.Is(err, errCut) {
		f.Fatalf("the load was not cut: %v", err)
	}
	return report.LoadID
}

// giveUp gives up a load, and compares Already.
func (f *fixture) giveUp(load string, already bool) {
	f.Helper()
	given, err := f.bank(itembank.WithClock(itembankfault.NewClock())).GiveUpLoad(f.ctx, f.name, load)
	if err != nil || given.Already != already || given.LoadID != load {
		f.Errorf("load %s: want already %t, got %+v, %v", load, already, given, err)
	}
}

func (f *fixture) wantUnfinished(want ...string) {
	f.Helper()
	loads, err := f.bank().UnfinishedLoads(f.ctx, f.name)
	f.Must(err)
	var got []string
	for _, l := range loads {
		got = append(got, l.LoadID)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		f.Errorf("want the unfinished loads %v, got %v", want, got)
	}
}

// cutLoadIsGivenUp: a load was cut, and its file was corrected. When the first load is given up, the campaign can be
// marked as sold out, and then no container reads shards.
func cutLoadIsGivenUp(f *fixture) {
	f.create(itembank.Settings{Shards: 16})
	first := f.cutLoad("code-1", "code-X")
	f.load("code-1", "code-X", "code-2")
	clock := itembankfault.NewClock()
	counted := f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	for _, who := range []string{"ann", "bob", "cid"} {
		f.claim(b, who)
	}
	f.refused(b, "dan", itembank.ErrSoldOut)
	if f.marked() {
		f.Error("the row says that the bank is empty, and a load is unfinished")
	}
	f.wantUnfinished(first)
	f.giveUp(first, false)
	f.giveUp(first, true)
	f.wantUnfinished()
	for range 2 { // the first proof may be of the version before
		clock.Advance(itembank.DefaultCampaignCache)
		f.refused(b, "dan", itembank.ErrSoldOut)
	}
	counted.Calls()
	for range 10 {
		clock.Advance(time.Second)
		f.refused(b, "dan", itembank.ErrSoldOut)
	}
	if calls := counted.Calls(); !f.marked() || slices.Contains(calls, "FreeItems") {
		f.Errorf("sold out: marked %t, calls in 10 s: %v", f.marked(), calls)
	}
}

// givenUpItemsAreLoadedAgain: the items of a load that was given up can be loaded again, as another load with an exact
// tally. That may begin before the first load is over.
func givenUpItemsAreLoadedAgain(f *fixture) {
	f.create(itembank.Settings{})
	items := codes("code", 120)
	first := f.cutLoad(items...)
	cut := itembank.NewOperator(f.cutAt(1, false, "NextVersion"), itembank.WithClock(itembankfault.NewClock()))
	if _, err := cut.GiveUpLoad(f.ctx, f.name, first); !errors.Is(err, errCut) {
		f.Fatal(err)
	}
	f.wantUnfinished(first)
	dry, err := f.bank().DryRun(f.ctx, f.name, itembank.Items(items...))
	f.Must(err)
	report := f.load(items...)
	want := itembank.Tally{Rows: 120, Added: 70, Known: 50}
	if report.Tally != want || report.LoadID == first || report.Resumed > 0 {
		f.Errorf("want %+v in another load than %s, got %+v", want, first, report)
	}
	if dry != report {
		f.Errorf("a dry run said %+v, and the load %+v", dry, report)
	}
	f.wantUnfinished(first)
	f.giveUp(first, false)
	f.giveUp(report.LoadID, true)
	f.wantUnfinished()
	f.wantTally(itembank.Tally{Rows: 120, Known: 120}, items...)
	f.wantCounts(engine.Counts{Loaded: 120, Free: 120})
}

func givenUpLoadThatNeverWas(f *fixture) {
	f.create(itembank.Settings{})
	id := f.load("a").LoadID
	for _, load := range []string{"", "#", "codes.txt", "#000001", id[:len(id)-1] + "2", id[:len(id)-1], id + "#", "0" + id} {
		if _, err := f.bank().GiveUpLoad(f.ctx, f.name, load); !errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("load %q: want an *InvalidError, got %v", load, err)
		}
	}
	if _, err := f.bank().GiveUpLoad(f.ctx, "no-campaign", id); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
	if _, err := f.bank().UnfinishedLoads(f.ctx, "no-campaign"); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
}

// drainClock is a clock on which a function runs during the wait for DrainTime.
type drainClock struct {
	*itembankfault.Clock
	drain func()
}

func (c drainClock) Sleep(ctx context.Context, d time.Duration) error {
	if d == itembank.DrainTime {
		c.drain()
	}
	return c.Clock.Sleep(ctx, d)
}

// givenUpWhileAContainerAsks: the transaction of a killed load is visible in part when the load is given up. During the
// drain time a container reads the shards, and then the item becomes visible. The container asks for unfinished loads
// after any step of the command, which may be cut there and repeated. It must not mark the bank as empty.
func givenUpWhileAContainerAsks(f *fixture) {
	const calls = 6 // Campaign, Loads, and from the mark: GiveUpLoad, NextVersion, GiveUpLoad; and none
	for call := 3; call <= calls; call++ {
		for _, cut := range []bool{false, true} {
			one := f.named(interruption{call, false, cut}.String())
			one.stocked(1, itembank.Settings{})
			one.claim(one.bank(), "ann")
			one.giveUpBesideAContainer(call, cut)
			if counts, err := one.bank().Counts(f.ctx, one.name); err != nil || counts.Free != 1 || one.marked() {
				f.Errorf("asked before call %d, cut %t: marked %t with %+v, %v", call, cut, one.marked(), counts, err)
			}
		}
	}
}

// giveUpBesideAContainer gives up a load. The container asks for unfinished loads before a call of the command.
func (f *fixture) giveUpBesideAContainer(call int, cut bool) {
	f.Helper()
	load := f.cutLoad("new")
	half := &halfAdded{Store: f.Store, item: "new"}
	half.hidden.Store(true)
	asks, goOn := make(chan struct{}), make(chan struct{})
	var first, last sync.Once
	container := &itembankfault.Store{Store: half, Before: func(method string) error {
		if method == "Loads" {
			first.Do(func() { close(asks) })
			<-goOn
		}
		return nil
	}}
	answered := make(chan struct{})
	resume := func() {
		last.Do(func() {
			close(goOn)
			<-answered
		})
	}
	drained := false
	clock := drainClock{itembankfault.NewClock(), func() {
		if drained {
			return
		}
		drained = true
		go func() {
			defer close(answered)
			_, _ = itembank.NewOperator(container).Claim(f.ctx, f.name, "bob") // any answer is right
		}()
		<-asks
		half.hidden.Store(false)
	}}
	command := f.interruptedAt(call, false, func() error {
		if !drained {
			return nil
		}
		if resume(); cut {
			return errCut
		}
		return nil
	})
	_, err := itembank.NewOperator(command, itembank.WithClock(clock)).GiveUpLoad(f.ctx, f.name, load)
	if resume(); err == nil {
		return
	}
	if !errors.Is(err, errCut) {
		f.Fatal(err)
	}
	_, err = f.bank(itembank.WithClock(clock)).GiveUpLoad(f.ctx, f.name, load)
	f.Must(err)
}
