package itembank

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A load that was cut stays unfinished until the same items are loaded again. As long as a load is unfinished, no
// container writes into the campaign row that the bank is empty (soldout.go). GiveUpLoad ends a load whose items will
// not be loaded again. The order of its steps keeps G5:
//
//  1. The load row is marked as given up. From then on nobody resumes the load, and a run of it that is still at work
//     stops before its next transaction, or at most loadCheckFor later.
//  2. It waits for DrainTime. Then every transaction of the load has taken effect or never will.
//  3. It counts up the version of the campaign, as the end of a load does. So a proof that the bank is empty is not
//     valid if it read a shard before an item of the load was visible there.
//  4. The load row is finished.
//
// A load row that is marked is still unfinished. So a GiveUpLoad that was cut can be repeated.

// loadCheckFor is how long after a check of its row a run of a load may begin a transaction. DrainTime has to be longer
// by the time that a request takes with all its retries: pkg/awsclient gives a request up after about 10 s.
const loadCheckFor = 10 * time.Second

// UnfinishedLoad is a load that is running, that was cut, or that was given up and is not over yet. A Repair and a
// ReplayStore that add items to the bank count as loads.
type UnfinishedLoad struct {
	LoadID  string `json:"load_id"`
	By      string `json:"by"`    // what began it: load, repair or replay
	Rows    int64  `json:"rows"`  // of a load: rows that are done, at least
	Added   int64  `json:"added"` // items that these rows added
	GivenUp bool   `json:"given_up,omitempty"`
	// StartedAt is when the load was started first; zero: a version of oncebox started it that did not record this.
	StartedAt time.Time `json:"started_at,omitzero"`
}

// UnfinishedLoads lists the unfinished loads of a campaign, in no certain order. While there is one, a campaign that
// burns items is not marked as sold out, so that each container reads all shards once a second while customers ask.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) UnfinishedLoads(ctx context.Context, campaign string) ([]UnfinishedLoad, error) {
	if _, err := b.Campaign(ctx, campaign); err != nil {
		return nil, err
	}
	_, rows, err := b.store.Loads(ctx, campaign)
	if err != nil {
		return nil, err
	}
	loads := make([]UnfinishedLoad, len(rows))
	for i, l := range rows {
		loads[i] = unfinishedLoad(l)
	}
	return loads, nil
}

func unfinishedLoad(l engine.Load) UnfinishedLoad {
	return UnfinishedLoad{l.ID(), commandOf(l), l.Tally.Rows, l.Tally.Added, l.GivenUp, l.StartedAt}
}

// GivenUp is the result of GiveUpLoad.
type GivenUp struct {
	UnfinishedLoad
	Already bool `json:"already"` // the load was finished or given up before, and nothing was changed
}

// GiveUpLoad ends an unfinished load whose items will not be loaded again, such as a load that was stopped because of a
// mistake in its file. The items that the load added stay in the bank. load is the LoadID of an UnfinishedLoad.
//
// GiveUpLoad waits for DrainTime. A run of the load that is still at work ends with ErrLoadGivenUp. If the same items
// are loaded again, that is a new load; it may begin at once. A Repair or a ReplayStore that is still at work goes on,
// as another unfinished load.
//
// GiveUpLoad is safe to repeat, also after it was interrupted. Errors: *InvalidError if the campaign never had the load;
// ErrNoCampaign; ErrTryAgain.
func (b *Operator) GiveUpLoad(ctx context.Context, campaign, load string) (GivenUp, error) {
	if _, err := b.Campaign(ctx, campaign); err != nil {
		return GivenUp{}, err
	}
	l, err := b.findLoadRow(ctx, campaign, load)
	if err != nil {
		return GivenUp{}, err
	}
	l.GivenUp = true
	given := GivenUp{unfinishedLoad(l), true}
	if l.Finished {
		return given, nil
	}
	if over, err := b.store.UpdateLoad(ctx, l); err != nil || over {
		return given, err
	}
	given.Already = false
	if err := b.clock.Sleep(ctx, DrainTime); err != nil {
		return given, err
	}
	return given, b.endLoads(ctx, campaign, l)
}

// endLoads makes the last two steps for loads that were marked as given up at least DrainTime ago.
func (b *Operator) endLoads(ctx context.Context, campaign string, loads ...engine.Load) error {
	if len(loads) == 0 {
		return nil
	}
	if _, err := b.nextVersion(ctx, campaign); err != nil {
		return err
	}
	for _, l := range loads {
		l.Finished = true
		if _, err := b.store.UpdateLoad(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// findLoadRow returns the row of a load. Of a load that is not unfinished it returns only the id and Finished.
func (b *Operator) findLoadRow(ctx context.Context, campaign, id string) (engine.Load, error) {
	digest, number, _ := strings.Cut(id, "#")
	l := engine.Load{Campaign: campaign, Digest: digest, Finished: true}
	l.Number, _ = strconv.Atoi(number)
	if digest == "" || l.Number < 1 || l.ID() != id {
		return l, noLoad(id)
	}
	_, unfinished, err := b.store.Loads(ctx, campaign)
	if err != nil {
		return l, err
	}
	for _, row := range unfinished {
		if row.ID() == id {
			return row, nil
		}
	}
	// The next load of the same items begins only after this one was finished or given up.
	latest, err := b.store.LatestLoad(ctx, campaign, digest)
	if err == nil && (latest == nil || latest.Number < l.Number) {
		err = noLoad(id)
	}
	return l, err
}

func noLoad(id string) error {
	return &InvalidError{"load", fmt.Sprintf("the campaign has no load %q", id)}
}

// loadRow is the row of a load that is at work, or of another command that adds items.
type loadRow struct {
	bank *Operator
	load engine.Load
	// checkedAt is when the last request began which showed that the load was not given up.
	checkedAt time.Time
}

// advance writes the progress of the load. If the load was given up, the error is ErrLoadGivenUp. Then it also counts up
// the version: this process may have been suspended for so long that it added items after the load was over.
func (l *loadRow) advance(ctx context.Context) error {
	now := l.bank.clock.Now()
	givenUp, err := l.bank.store.UpdateLoad(ctx, l.load)
	switch {
	case err != nil:
		return err
	case givenUp:
		_, err := l.bank.nextVersion(ctx, l.load.Campaign)
		return errors.Join(ErrLoadGivenUp, err)
	}
	l.checkedAt = now
	return nil
}

// finish finishes the load when all its transactions have their results. It counts up the version first: a proof that
// the bank is empty may have read a shard before an item of the load was visible there.
func (l *loadRow) finish(ctx context.Context) error {
	if _, err := l.bank.nextVersion(ctx, l.load.Campaign); err != nil {
		return err
	}
	l.load.Finished = true
	return l.advance(ctx)
}

// check returns ErrLoadGivenUp if the load was given up. It asks the store only if the last request that did so began
// loadCheckFor ago. So a load costs more requests only if it is slow.
func (l *loadRow) check(ctx context.Context) error {
	if elapsed(l.checkedAt, l.bank.clock.Now()) < loadCheckFor {
		return nil
	}
	return l.advance(ctx)
}
