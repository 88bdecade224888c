package itembank

import (
	"context"
	"errors"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// announceItems raises the version of a campaign before items are added to its bank. If containers may believe that
// the bank is empty, it waits until none does.
func (b *Operator) announceItems(ctx context.Context, campaign string) error {
	row, err := b.nextVersion(ctx, campaign)
	if err != nil || row.EmptyVersion == 0 {
		return err
	}
	return b.clock.Sleep(ctx, soldOutGap)
}

func (b *Operator) nextVersion(ctx context.Context, campaign string) (engine.Campaign, error) {
	row, err := b.store.NextVersion(ctx, campaign)
	b.rules.forget(campaign)
	switch {
	case err != nil:
		return engine.Campaign{}, err
	case row == nil:
		return engine.Campaign{}, ErrNoCampaign
	}
	return *row, nil
}

// adding is the part of a Repair or a ReplayStore that adds items to the bank. It keeps the rules of a load, so that
// no container writes that the bank is empty while an item may still come (soldout.go):
//
//  1. Before the first item it begins a load row, and then raises the version of the campaign.
//  2. It knows the result of each transaction.
//  3. It raises the version again, and finishes the row.
//
// A run that was killed leaves its row unfinished, because its last transaction may become visible at any time. The
// next run of the command gives the row up (drain). Each run begins a row of its own: a run that went on with the row
// of another one could finish it while that one still adds items.
type adding struct {
	bank     *Operator
	campaign Campaign
	command  string   // repairing or replaying
	row      *loadRow // nil: the next item needs a row
}

// The commands that add items without a Load. The digests of their load rows begin with these words.
const (
	repairing = "repair"
	replaying = "replay"
)

// commandOf returns the command that began a load row; "load": a Load did.
func commandOf(l engine.Load) string {
	for _, command := range []string{repairing, replaying} {
		if strings.HasPrefix(l.Digest, command+"-") {
			return command
		}
	}
	return "load"
}

// before has to be called before each transaction that adds items. If another run of the command has given the row up,
// because it takes this run for killed, before begins another row.
func (a *adding) before(ctx context.Context) error {
	for {
		if a.row == nil {
			if err := a.begin(ctx); err != nil {
				return err
			}
		}
		if err := a.row.check(ctx); !errors.Is(err, ErrLoadGivenUp) {
			return err
		}
		a.row = nil
	}
}

func (a *adding) begin(ctx context.Context) error {
	id, err := a.bank.randomHash()
	if err != nil {
		return err
	}
	now := a.bank.clock.Now()
	load, err := a.bank.findLoad(ctx, a.campaign, a.command+"-"+id.String())
	if err != nil {
		return err
	}
	if err := a.bank.announceItems(ctx, a.campaign.Name); err != nil {
		return err
	}
	a.row = &loadRow{a.bank, load, now}
	return nil
}

// finish finishes the row, if the run has one. If the row was given up, another run finishes it.
func (a *adding) finish(ctx context.Context) error {
	if a.row == nil {
		return nil
	}
	if err := a.row.finish(ctx); !errors.Is(err, ErrLoadGivenUp) {
		return err
	}
	return nil
}

// drain waits until no request can hand out an item of a campaign that was just closed. Earlier runs of the command may
// have left load rows unfinished. It gives these up, as GiveUpLoad does, because that takes the same time.
func (b *Operator) drain(ctx context.Context, campaign, command string) error {
	_, unfinished, err := b.store.Loads(ctx, campaign)
	if err != nil {
		return err
	}
	var marked []engine.Load
	for _, l := range unfinished {
		if commandOf(l) != command {
			continue
		}
		l.GivenUp = true
		over, err := b.store.UpdateLoad(ctx, l)
		if err != nil {
			return err
		}
		if !over {
			marked = append(marked, l)
		}
	}
	if err := b.clock.Sleep(ctx, DrainTime); err != nil {
		return err
	}
	return b.endLoads(ctx, campaign, marked...)
}
