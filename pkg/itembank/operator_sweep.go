package itembank

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// SweepReport counts the items that a Sweep moved. A Sweep burns no item: if a claim ends and its item does not
// return, the item expires.
type SweepReport struct {
	Returned int64 `json:"returned"` // items of ended claims that are in the bank again
	Expired  int64 `json:"expired"`  // items of ended claims, and free items, that have ended
	// Withdrawn counts items of ended claims that Withdraw had marked
	Withdrawn int64 `json:"withdrawn"`
}

// Progress is called now and then during a long operation, with the number of rows that are done. total is 0 if the
// operation does not know it.
type Progress func(done, total int64)

// Sweep closes the campaign's claims that ended more than 10 seconds ago, and takes free items whose life is over out
// of the bank. Requests also do this for the claims and items that they find. So without a Sweep, items come back and
// counts are right later.
//
// Sweep reads all claims of the scope and the whole bank; SweepDue reads less. progress may be nil; it gets the
// number of rows that were read. Sweep is safe to repeat, to interrupt, and to run several times at once.
//
// If the rows of a claim contradict each other, the claim stays as it is, and the Sweep continues. At its end it
// returns an error of the family ErrInconsistent, which names the first few such claims.
//
// Errors: *InvalidError, ErrNoCampaign, ErrMoved, ErrRestored, ErrTryAgain, the family ErrInconsistent. After an error
// the report has the results up to then.
func (b *Operator) Sweep(ctx context.Context, campaign string, progress Progress) (SweepReport, error) {
	s := sweep{bank: b, count: counter(progress)}
	c, err := b.unmarkedCampaign(ctx, campaign)
	if err != nil {
		return s.report, err
	}
	if err := s.claims(ctx, c); err != nil {
		return s.report, s.skipped.addTo(err)
	}
	if err := s.freeItems(ctx, c); err != nil {
		return s.report, s.skipped.addTo(err)
	}
	return s.report, s.skipped.err()
}

// sweep is one call of Sweep or SweepDue.
type sweep struct {
	bank    *Operator
	mu      sync.Mutex // guards the fields below while several shards are swept at a time
	report  SweepReport
	skipped skippedClaims
	count   func(int) // reports progress
}

// claims closes the ended claims of a campaign.
func (s *sweep) claims(ctx context.Context, c Campaign) error {
	return s.bank.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		s.count(1)
		if claim.Campaign != c.Name || !closable(claim, s.bank.serverNow()) {
			return nil
		}
		return s.closed(s.bank.closeEnded(ctx, claim))
	})
}

// closed records the result of closing a claim.
func (s *sweep) closed(released closedClaim, err error) error {
	switch {
	case errors.Is(err, ErrInconsistent):
		s.skipped.add(err)
	case err != nil:
		return err
	}
	s.report.Returned += released.items.Returned
	s.report.Expired += released.items.Expired
	s.report.Withdrawn += released.items.Withdrawn
	return nil
}

// freeItems ends the free items of a campaign whose life is over.
func (s *sweep) freeItems(ctx context.Context, c Campaign) error {
	b := s.bank
	return b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		_, ended := splitEnded(items, b.serverNow())
		s.count(len(items) - len(ended))
		for len(ended) > 0 {
			n := min(len(ended), engine.MaxAddItems)
			results, err := b.endItems(ctx, endRequests(ended[:n], engine.Expired, b.serverNow()))
			for _, r := range results {
				if r == engine.EndDone {
					s.report.Expired++
				}
			}
			if err != nil {
				return err
			}
			s.count(n)
			ended = ended[n:]
		}
		return nil
	})
}

// counter adds up the rows that are done and reports them as progress.
func counter(progress Progress) func(int) {
	done := int64(0)
	return func(more int) {
		if done += int64(more); progress != nil && more > 0 {
			progress(done, 0)
		}
	}
}

// skippedClaims collects the errors of claims that a Sweep left as they are.
type skippedClaims struct {
	count int
	first []error
}

func (s *skippedClaims) add(err error) {
	if s.count++; len(s.first) < maxNamed {
		s.first = append(s.first, err)
	}
}

func (s *skippedClaims) err() error {
	if s.count == 0 {
		return nil
	}
	more := ""
	if n := s.count - len(s.first); n > 0 {
		more = fmt.Sprintf("\nand %d more", n)
	}
	return fmt.Errorf("claims that were skipped because their rows contradict each other: %d\n%w%s",
		s.count, errors.Join(s.first...), more)
}

// addTo adds the skipped claims to the text of the error that ended the sweep. The family of the result is the family
// of err. The next sweep finds the claims again.
func (s *skippedClaims) addTo(err error) error {
	if s.count == 0 {
		return err
	}
	return fmt.Errorf("%w; before that, %s", err, s.err().Error())
}
