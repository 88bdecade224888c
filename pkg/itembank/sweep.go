package itembank

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// SweepReport says what became of the items that a sweep moved. It burns none: at the
// end of a claim an item that does not return expires, and so its row says.
type SweepReport struct {
	Returned int64 `json:"returned"` // items of ended claims that are in the bank again
	Expired  int64 `json:"expired"`  // items of ended claims, and free ones, that have ended
}

// Progress is called now and then during a long operation, with the number of rows
// that are done. total is 0 where nobody knows it.
type Progress func(done, total int64)

// Sweep closes the campaign's claims that ended longer than the grace ago, and
// takes free items out whose life has ended. Requests do the same with what they
// meet, so a sweep only makes items come back, and counts come right, sooner. It
// reads all claims of the scope and the whole bank; progress, which may be nil, is told
// how many rows of these. It is safe to repeat, to interrupt, and to run several times
// at once.
//
// A claim whose rows contradict each other stays as it is, and the sweep goes on. At
// its end that is an error of the family ErrInconsistent, which names the first few.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain, the family ErrInconsistent. The
// report says what was done also when there is an error.
func (b *Bank) Sweep(ctx context.Context, campaign string, progress Progress) (SweepReport, error) {
	var report SweepReport
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	var left contradictions
	seen := count(progress)
	if err := b.sweepClaims(ctx, c, &report, &left, seen); err != nil {
		return report, left.before(err)
	}
	if err := b.sweepBank(ctx, c, &report, seen); err != nil {
		return report, left.before(err)
	}
	return report, left.err()
}

func (b *Bank) sweepClaims(ctx context.Context, c Campaign, report *SweepReport, left *contradictions, seen func(int)) error {
	return b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		seen(1)
		if claim.Campaign != c.Name || !closable(claim, b.now()) {
			return nil
		}
		released, err := b.closeEnded(ctx, claim)
		switch {
		case errors.Is(err, ErrInconsistent):
			left.note(err)
		case err != nil:
			return err
		case released.Returned:
			report.Returned++
		case released.Ended == string(engine.Expired):
			report.Expired++
		}
		return nil
	})
}

func (b *Bank) sweepBank(ctx context.Context, c Campaign, report *SweepReport, seen func(int)) error {
	return b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		_, ended := partition(items, b.now())
		seen(len(items) - len(ended))
		for len(ended) > 0 {
			n := min(len(ended), engine.MaxAddItems)
			answers, err := b.endItems(ctx, endings(ended[:n], engine.Expired, b.now()))
			for _, a := range answers {
				if a == engine.EndDone {
					report.Expired++
				}
			}
			if err != nil {
				return err
			}
			seen(n)
			ended = ended[n:]
		}
		return nil
	})
}

// count adds up what is done, for progress.
func count(progress Progress) func(int) {
	done := int64(0)
	return func(more int) {
		if done += int64(more); progress != nil && more > 0 {
			progress(done, 0)
		}
	}
}

// contradictions gathers the errors of claims that were left as they are.
type contradictions struct {
	count int
	first []error
}

// named is how many of them an error names: they may be as many as the claims.
const named = 5

func (c *contradictions) note(err error) {
	if c.count++; len(c.first) < named {
		c.first = append(c.first, err)
	}
}

func (c *contradictions) err() error {
	if c.count == 0 {
		return nil
	}
	more := ""
	if n := c.count - len(c.first); n > 0 {
		more = fmt.Sprintf("\nand %d more", n)
	}
	return fmt.Errorf("claims whose rows contradict each other, and that were left as they are: %d\n%w%s", c.count, errors.Join(c.first...), more)
}

// before adds them to the error that ended the sweep, which decides what to do: the
// next sweep meets them again.
func (c *contradictions) before(err error) error {
	if c.count == 0 {
		return err
	}
	return fmt.Errorf("%w; before that, %s", err, c.err().Error())
}

// eachClaim calls do for the claims of a scope.
func (b *Bank) eachClaim(ctx context.Context, scope string, do func(engine.Claim) error) error {
	for cursor := ""; ; {
		claims, next, err := b.store.ListClaims(ctx, scope, cursor)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			if err := do(claim); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// listPage is how many free items are read at a time where all are read.
const listPage = 1000

// eachFreePage calls do for the free items of a campaign, of all generations.
func (b *Bank) eachFreePage(ctx context.Context, c Campaign, do func([]engine.FreeItem) error) error {
	for generation := 1; generation <= c.generation; generation++ {
		for n := range c.Shards {
			if err := b.eachPageOf(ctx, engine.Shard{Campaign: c.Name, Generation: generation, Number: n}, do); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bank) eachPageOf(ctx context.Context, s engine.Shard, do func([]engine.FreeItem) error) error {
	for w := (walk{s, []engine.Range{{}}}); !w.over(); {
		items, err := b.read(ctx, &w, listPage)
		if err != nil {
			return err
		}
		if err := do(items); err != nil {
			return err
		}
	}
	return nil
}
