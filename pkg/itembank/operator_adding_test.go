package itembank_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// The cases of commands that add items to the bank without a load: they have load rows, too.
var addingCases = eachAddition([]additionCase{
	{"adds-beside-a-container", addsBesideAContainer},
	{"waits-until-nobody-believes-the-row", additionWaits},
	{"was-killed-and-is-ended-by-the-next", killedAdditionIsEnded},
	{"was-killed-and-is-given-up", killedAdditionIsGivenUp},
	{"was-suspended-and-taken-for-killed", suspendedAddition},
	{"adds-nothing", addsNothing},
})

// addition is a command that adds items to the bank of a closed campaign.
type addition struct {
	by   string // as in an UnfinishedLoad
	put  string // the call that adds items
	puts int    // the number of these calls
	// prepare makes a closed campaign that burns items. ann has its only item, and the command will add two items.
	prepare func(f *fixture)
	// run runs the command. With idle it adds nothing.
	run func(f *fixture, store engine.Store, clock itembank.Clock, idle bool) error
}

type additionCase struct {
	name string
	run  func(*fixture, addition)
}

var additions = []addition{
	{by: "repair", put: "Repair", puts: 2, prepare: func(f *fixture) {
		c, items := f.stocked(3, itembank.Settings{Shards: 1})
		f.Must(f.raw.DropBankRow(f.ctx, enginerows.FreeItem(c, items[1])))
		f.Must(f.raw.DropBankRow(f.ctx, enginerows.FreeItem(c, items[2])))
		f.claim(f.bank(), "ann")
		f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	}, run: func(f *fixture, store engine.Store, clock itembank.Clock, idle bool) error {
		o := itembank.RepairOptions{Items: itembank.Items(codes("code", 3)...), ReturnSeenItems: true}
		if idle {
			o.Items = nil
		}
		_, err := itembank.NewOperator(store, itembank.WithClock(clock)).Repair(f.ctx, f.name, o)
		return err
	}},
	{by: "replay", put: "AddItems", puts: 1, prepare: func(f *fixture) {
		f.stocked(1, itembank.Settings{Shards: 1})
		f.claim(f.bank(), "ann")
		f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	}, run: func(f *fixture, store engine.Store, clock itembank.Clock, idle bool) error {
		old := inMemory(f)
		old.name = f.name
		f.Must(itembankfault.CopyCampaign(f.ctx, f.Store, enginetest.Engine{Store: old.Store, Raw: old.raw}, f.name))
		f.Must(old.bank().CloseWithoutReplay(f.ctx, f.name))
		old.load(codes("code", 3)...)
		f.Must(f.bank().CloseRestored(f.ctx, f.name))
		_, err := itembank.NewOperator(store, itembank.WithClock(clock)).ReplayStore(f.ctx, f.name, old.bank(), itembank.ReplayOptions{Loads: !idle})
		return err
	}},
}

// eachAddition makes a case of each command.
func eachAddition(cases []additionCase) (all []testCase) {
	for _, a := range additions {
		for _, c := range cases {
			all = append(all, testCase{a.by + "-" + c.name, func(f *fixture) { c.run(f, a) }})
		}
	}
	return all
}

// killed runs the command until the call that adds items. Whether the call takes effect depends on after. Then it opens
// the campaign.
func (a addition) killed(f *fixture, after bool) {
	f.Helper()
	a.prepare(f)
	if err := a.run(f, f.cutAt(1, after, a.put), itembankfault.NewClock(), false); !errors.Is(err, errCut) {
		f.Fatalf("want it cut, got %v", err)
	}
	f.Must(f.bank().OpenWithoutReplay(f.ctx, f.name))
}

// wantUnfinishedBy checks that the command left one unfinished load, and returns its id.
func (a addition) wantUnfinishedBy(f *fixture) string {
	f.Helper()
	loads, err := f.bank().UnfinishedLoads(f.ctx, f.name)
	f.Must(err)
	if len(loads) != 1 || loads[0].By != a.by || !strings.HasPrefix(loads[0].LoadID, a.by+"-") || loads[0].StartedAt.IsZero() {
		f.Fatalf("want an unfinished load by %s, got %+v", a.by, loads)
	}
	return loads[0].LoadID
}

// wantSoldOut claims all items. Then the row says that the bank is empty if it may.
func (f *fixture) wantSoldOut(marked bool) {
	f.Helper()
	b := f.bank()
	for i := 0; ; i++ {
		if _, err := b.Claim(f.ctx, f.name, fmt.Sprintf("late-%d", i)); errors.Is(err, itembank.ErrSoldOut) {
			break
		} else {
			f.Must(err)
		}
	}
	f.refused(f.bank(), "zoe", itembank.ErrSoldOut)
	if f.marked() != marked {
		f.Errorf("the row says that the bank is empty: %t, want %t", f.marked(), marked)
	}
}

// addsBesideAContainer: the campaign is opened while the command runs, and a container reads the shards. It asks for
// unfinished loads after any step of the command, which is killed there. It must not mark the bank as empty if an item is
// free.
func addsBesideAContainer(f *fixture, a addition) {
	const start, put = 3, 5 // LatestLoad, Loads, StartLoad, NextVersion, then the puts, NextVersion, AdvanceLoad
	for _, reads := range []int{start, put} {
		for asks := reads; asks <= put+a.puts+2; asks++ {
			one := f.named(fmt.Sprintf("%d-%d", reads, asks))
			a.prepare(one)
			a.besideAContainer(one, reads, asks)
			counts, err := one.bank().Counts(f.ctx, one.name)
			if one.Must(err); counts.Free > 0 && one.marked() {
				f.Errorf("read before step %d, asked before step %d: marked with %d free items", reads, asks, counts.Free)
			}
		}
	}
}

// besideAContainer runs the command. A container reads the bank before one step. Before another step it asks for loads,
// and the command is killed.
func (a addition) besideAContainer(f *fixture, reads, asks int) {
	f.Helper()
	asking, goOn, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first sync.Once
	container := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
		if method == "Loads" {
			first.Do(func() { close(asking) })
			<-goOn
		}
		return nil
	}}
	claim := func() {
		defer close(answered)
		_, _ = itembank.NewOperator(container).Claim(f.ctx, f.name, "bob") // any answer is right
	}
	step := 0
	command := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
		if step > 0 || method == "LatestLoad" {
			step++
		}
		if step == reads {
			f.Must(f.bank().OpenWithoutReplay(f.ctx, f.name))
			go claim()
			select {
			case <-asking:
			case <-answered:
			}
		}
		if step != asks {
			return nil
		}
		close(goOn)
		<-answered
		return errCut
	}}
	if err := a.run(f, command, itembankfault.NewClock(), false); !errors.Is(err, errCut) {
		f.Fatalf("want it killed before step %d, got %v after %d steps", asks, err, step)
	}
}

// additionWaits: the campaign is opened, and containers learn that it is sold out, before the command has announced its
// items. It waits until no container believes that.
func additionWaits(f *fixture, a addition) {
	a.prepare(f)
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	opened := f.interruptedAt(1, false, func() error {
		f.Must(b.OpenWithoutReplay(f.ctx, f.name))
		f.refused(b, "bob", itembank.ErrSoldOut)
		if !f.marked() {
			f.Error("the row does not say that the bank is empty")
		}
		return nil
	}, "StartLoad")
	asked := &itembankfault.Store{Store: opened, After: func(method string) error {
		if method == a.put {
			f.claim(b, "cid")
			return errCut
		}
		return nil
	}}
	if err := a.run(f, asked, clock, false); !errors.Is(err, errCut) {
		f.Fatal(err)
	}
}

// killedAdditionIsEnded: a command is killed. Its load stays unfinished, and the bank is not marked as empty, until the
// command runs again, even if it has nothing more to do.
func killedAdditionIsEnded(f *fixture, a addition) {
	for _, after := range []bool{false, true} {
		one := f.named(fmt.Sprint(after))
		a.killed(one, after)
		a.wantUnfinishedBy(one)
		one.wantSoldOut(false)
		one.Must(one.bank().CloseCampaign(f.ctx, one.name))
		one.Must(a.run(one, one.Store, itembankfault.NewClock(), true))
		one.wantUnfinished()
		one.Must(one.bank().OpenWithoutReplay(f.ctx, one.name))
		one.wantSoldOut(true)
	}
}

// killedAdditionIsGivenUp: the load of a killed command can be given up while the campaign is open.
func killedAdditionIsGivenUp(f *fixture, a addition) {
	a.killed(f, true)
	id := a.wantUnfinishedBy(f)
	f.giveUp(id, false)
	f.giveUp(id, true)
	f.wantUnfinished()
	f.wantSoldOut(true)
}

// suspendedAddition: a command is suspended after any of its calls. Meanwhile its load is ended by another run of the
// command, the campaign is opened, and a container may mark the bank as empty. When the command goes on, it adds items as
// another load, and leaves none unfinished. The mark is not valid then.
func suspendedAddition(f *fixture, a addition) {
	for call := 1; call <= 8; call++ {
		one := f.named(fmt.Sprint(call))
		a.prepare(one)
		clock := itembankfault.NewClock()
		step := 0
		command := &itembankfault.Store{Store: one.Store, Before: func(method string) error {
			if method == a.put {
				a.wantUnfinishedBy(one)
			}
			return nil
		}, After: func(method string) error {
			if step > 0 || method == "LatestLoad" {
				step++
			}
			if step != call {
				return nil
			}
			one.Must(a.run(one, one.Store, clock, true))
			one.wantUnfinished()
			one.Must(one.bank().OpenWithoutReplay(f.ctx, one.name))
			_, _ = one.bank().Claim(f.ctx, one.name, "bob") // any answer is right
			return one.bank().CloseCampaign(f.ctx, one.name)
		}}
		if err := a.run(one, command, clock, false); err != nil || step < call {
			f.Errorf("suspended after call %d of %d: %v", call, step, err)
		}
		one.wantUnfinished()
		counts, err := one.bank().Counts(f.ctx, one.name)
		if one.Must(err); counts.Loaded != 3 || counts.Free == 0 || one.marked() {
			f.Errorf("suspended after call %d: marked %t with %+v", call, one.marked(), counts)
		}
	}
}

// addsNothing: a command that adds no item begins no load.
func addsNothing(f *fixture, a addition) {
	a.prepare(f)
	counted := f.counted()
	f.Must(a.run(f, counted, itembankfault.NewClock(), true))
	for _, call := range counted.Calls() {
		if slices.Contains([]string{"StartLoad", "StartFirstLoad", "NextVersion", "UpdateLoad", "GiveUpLoad"}, call) {
			f.Errorf("it called %s", call)
		}
	}
}
