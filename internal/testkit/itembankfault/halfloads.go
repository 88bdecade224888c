package itembankfault

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// cutRun is a run of a command that adds items to the bank of a campaign that burns items. The command is killed while
// its transaction becomes visible. Then an operator runs another command, and customers ask. No answer may be "sold
// out" long after the item was visible.
type cutRun struct {
	*World
	store  engine.Store // what the commands and the customers use
	random *rand.Rand
	spread time.Duration // of the engine
	killed chan struct{} // closed when the transaction of the killed command is visible
}

// cut plays the run. kill begins the first command and kills it. operator does what an operator does next.
func cut(kill, operator func(*cutRun)) func(ctx context.Context, e enginetest.Engine, seed uint64, m *Mutant) error {
	return func(ctx context.Context, e enginetest.Engine, seed uint64, m *Mutant) error {
		spreads := halfSpreads[1:]
		half := halfRun{seed, spreads[seed%uint64(len(spreads))]}
		r := &cutRun{
			World: newWorld(ctx, e), random: rand.New(rand.NewPCG(seed, 1)), spread: half.spread, killed: make(chan struct{}),
		}
		r.store = half.start(r.World)
		if m != nil {
			r.store = m.Wrap(enginetest.Engine{Store: r.store, Raw: e.Raw}, r.clock)
		}
		return r.violated(func() {
			r.Create("", itembank.Settings{Shards: 1})
			r.Load("", "old")
			r.Get("", "ann")
			kill(r)
			operator(r)
			note(r.state.Asked, r.name, "bob", "dan")
			r.ask("cid")
			r.checkRows(true)
		})
	}
}

// killLoad begins to load "new", and kills the process when its transaction was sent.
func killLoad(r *cutRun) {
	note(r.state.Loading, r.name, "new")
	ctx, kill := context.WithCancel(r.ctx)
	go func() {
		defer close(r.killed)
		_, _ = r.container().Load(ctx, r.name, itembank.Items("new"), nil)
	}()
	time.Sleep(3 * halfWay) // the transaction was sent
	kill()
	r.pause(r.spread / 2)
}

// pause waits for a random time.
func (r *cutRun) pause(longest time.Duration) {
	time.Sleep(time.Duration(r.random.Int64N(int64(longest))))
}

// container returns a new Bank on the engine that shows transactions in part.
func (r *cutRun) container() *itembank.Operator {
	return itembank.NewOperator(r.store, itembank.WithClock(r.clock))
}

// visible waits until all transactions are visible, and the item is loaded.
func (r *cutRun) visible() {
	<-r.killed
	r.state.Freed = r.clock.Now()
	row, err := r.engine.Store.ItemRow(r.ctx, r.name, engine.HashItem("new"))
	if r.must(err); row != nil {
		note(r.state.Loaded, r.name, "new")
	}
}

// ask claims in a new container, long after the item was visible. The answer is "sold out" only if no item is free.
func (r *cutRun) ask(claimant string) {
	r.clock.Advance(2 * emptyMemory)
	r.newBank()
	_, _ = r.Claim("", claimant)
}

// repeatLoad repeats the load at once, as the message of the killed command says.
func repeatLoad(r *cutRun) {
	for {
		_, err := r.container().Load(r.ctx, r.name, itembank.Items("new"), nil)
		if err == nil {
			break
		}
		if !errors.Is(err, itembank.ErrTryAgain) {
			r.must(err)
		}
	}
	r.pause(halfWay)
	_, _ = r.container().Claim(r.ctx, r.name, "bob") // any answer is right
	r.visible()
}

// giveLoadUp gives the load up. Customers ask all the time.
func giveLoadUp(r *cutRun) {
	over := make(chan error, 1)
	go func() {
		operator := r.container()
		loads, err := operator.UnfinishedLoads(r.ctx, r.name)
		for _, l := range loads {
			_, failed := operator.GiveUpLoad(r.ctx, r.name, l.LoadID)
			err = errors.Join(err, failed)
		}
		over <- err
	}()
	r.pause(2 * halfWay)
	_, _ = r.container().Claim(r.ctx, r.name, "bob") // any answer is right
	r.visible()
	r.ask("dan")
	r.must(<-over)
}
