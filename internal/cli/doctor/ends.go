package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// claimEndSteps returns the steps for the three ways in which a function finds a claim that has ended: its claimant
// asks again, another claimant finds no free item, or the sweep runs.
func (r *claimsRun) claimEndSteps() []step {
	cannotSweep := ""
	if r.Sweep == nil {
		cannotSweep = "there is no sweep function of these tables"
	}
	return []step{
		{
			name: stepReturn, after: []string{stepMake, stepClaim}, proves: closing(Claim),
			run: r.askAgain,
		},
		{
			name: "a claim that has ended, found by its index", after: []string{stepMake, stepClaim},
			proves: may(Claim, dueIndex, "due", "Query"), run: r.findDue,
		},
		{
			name: "sold out", after: []string{stepMake, stepClaim}, proves: may(Claim, bankTable, "load", "Query"),
			run: r.soldOut,
		},
		{
			name: "sweep", after: []string{stepMake}, not: cannotSweep,
			proves: slices.Concat(
				[]Permission{{string(Sweep), "dynamodb:Query", bankTable, "leading keys `campaigns*`"}},
				may(Sweep, bankTable, "campaign", "GetItem"), may(Sweep, dueIndex, "due", "Query"),
				may(Sweep, dedupeTable, "claim", "GetItem"), closing(Sweep)),
			run: func(ctx context.Context) (string, error) { return r.sweep(ctx) },
		},
		{
			name: "sweep of a claim with several items", after: []string{stepMake}, not: cannotSweep,
			proves: may(Sweep, bankTable, "item", "BatchGetItem"),
			run:    func(ctx context.Context) (string, error) { return r.sweep(ctx, itemsOf(r.holds)...) },
		},
	}
}

var errSwept = errors.New("the schedule swept the claim each time, before the function was asked; run it again")

// endedClaim returns the id of a claim that has ended. It returns id if that claim still exists, or else the id of a
// new claim: a scheduled sweep may close the claim at any time.
func (r *claimsRun) endedClaim(ctx context.Context, claimant, id string) (string, error) {
	for range tries {
		held, err := r.heldID(ctx, r.holds, claimant)
		if err != nil {
			return "", operatorError(err)
		}
		if id != "" && held == id {
			return id, nil
		}
		if err := r.freeAnItem(ctx); err != nil {
			return "", err
		}
		if id, err = r.claimInThePast(ctx, r.holds, claimant); err != nil {
			return "", err
		}
	}
	return "", errSwept
}

// freeAnItem ends the claims of the earlier steps, except for claimantA's, so that one of the two items is free.
func (r *claimsRun) freeAnItem(ctx context.Context) error {
	return r.releaseAll(ctx, r.holds, claimants[1:])
}

// askAgain sends a request of a claimant whose claim has ended. The function closes that claim before it makes a new
// one.
func (r *claimsRun) askAgain(ctx context.Context) (string, error) {
	id, err := r.endedClaim(ctx, claimantB, "")
	if err != nil {
		return "", err
	}
	a, err := r.claim(ctx, r.holds, claimantB)
	if err = cmp.Or(err, a.granted()); err == nil && a.ClaimID == id {
		err = fmt.Errorf("%w: it is the claim that has ended", errNotExpected)
	}
	return "another claim: the old one ended and its item returned, rows of three prefixes in one transaction", err
}

// findDue sends a request when one of the two items is in claimantA's hold, and the other is in a claim that has
// ended. The function must give out the item twice in a row. A scheduled sweep may have returned the item the first
// time, after the last check of the claim. But the next sweep comes a minute later.
func (r *claimsRun) findDue(ctx context.Context) (string, error) {
	// Without claimantA's hold an item would be free.
	a, err := r.claim(ctx, r.holds, claimantA)
	if err = cmp.Or(err, a.granted()); err != nil {
		return "", err
	}
	for range 2 {
		if err := r.untilFound(ctx); err != nil {
			return "", err
		}
	}
	return "the item of the claim that has ended, twice", nil
}

// untilFound sends requests of claimantD until the answer is not 409, because the index may be a moment late. Before
// each request it checks that the claim that has ended still exists: after a sweep, a request would find a free item
// without the index.
func (r *claimsRun) untilFound(ctx context.Context) error {
	var id string
	var a answer
	for range tries {
		var err error
		if id, err = r.endedClaim(ctx, claimantC, id); err != nil {
			return err
		}
		if a, err = r.claim(ctx, r.holds, claimantD); err != nil || a.status != http.StatusConflict {
			return cmp.Or(err, a.granted())
		}
		if err := pause.For(ctx, between); err != nil {
			return err
		}
	}
	return a.granted()
}

// soldOut reads the state while all items are in claims that have not ended.
func (r *claimsRun) soldOut(ctx context.Context) (string, error) {
	if err := r.freeAnItem(ctx); err != nil {
		return "", err
	}
	if _, err := r.now.Claim(ctx, r.holds, claimantD); err != nil {
		return "", operatorError(err)
	}
	var a answer
	for range tries { // the function may remember a free item for a moment
		var err error
		a, err = r.state(ctx, r.holds)
		if err = cmp.Or(err, a.want(http.StatusOK)); err != nil || a.State == string(itembank.SoldOut) {
			return "the state is sold_out", err
		}
		if err := pause.For(ctx, between); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: the state is %s", errNotExpected, a.State)
}

// sweep runs the sweep function until a claim of these items, or of any item, is gone. No other program sends
// requests to the campaign, so only a sweep ends the claim. The function also fails if it cannot finish the sweep of
// another campaign. If the claim is gone, that is only a warning.
func (r *claimsRun) sweep(ctx context.Context, items ...string) (string, error) {
	if err := r.releaseAll(ctx, r.holds, claimants); err != nil { // a claim of several items needs all items
		return "", err
	}
	if _, err := r.claimInThePast(ctx, r.holds, claimantE, items...); err != nil {
		return "", err
	}
	event := map[string]string{"source": "oncebox.doctor", "detail-type": "Scheduled Event"}
	for range tries {
		_, _, failure := r.Sweep.invoke(ctx, r.Lambda, event)
		if _, notSent := errors.AsType[*ownError](failure); notSent {
			return "", failure
		}
		id, err := r.heldID(ctx, r.holds, claimantE)
		switch {
		case err != nil:
			return "", operatorError(err)
		case id == "" && failure != nil:
			r.Warn("sweep of all campaigns", r.Explain(failure), "docs/operations.md, sweep-function-errors.")
			fallthrough
		case id == "":
			return "the claim that has ended is closed", nil
		case failure != nil:
			return "", failure
		}
		if err := pause.For(ctx, between); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: the function did not find the claim that has ended", errNotExpected)
}

// itemEndSteps returns the steps that claim when all free items have ended. The function removes the items, and writes
// that the campaign is sold out. It answers 409 even if it may not do that. So the step reads the rows.
func (r *claimsRun) itemEndSteps() []step {
	const stepEnd = "an item that has ended"
	return []step{
		{
			name: stepEnd, after: []string{stepMake}, not: r.cannotClaim(),
			proves: slices.Concat(may(Claim, bankTable, "bank", "DeleteItem"), may(Claim, bankTable, "item", "UpdateItem")),
			run: func(ctx context.Context) (string, error) {
				a, err := r.claim(ctx, r.ended, claimantA)
				if err = cmp.Or(err, a.want(http.StatusConflict)); err != nil {
					return "", err
				}
				for _, item := range itemsOf(r.ended) {
					row, err := r.store.ItemRow(ctx, r.ended, engine.HashItem(item))
					switch {
					case err != nil:
						return "", operatorError(err)
					case row == nil || row.State != engine.Expired:
						return "", fmt.Errorf("%w: the item was not taken out of the bank", errNotExpected)
					}
				}
				return "409, and the items are expired", nil
			},
		},
		{
			name: "sold out, in the row of the campaign", after: []string{stepEnd},
			proves: may(Claim, bankTable, "campaign", "UpdateItem"), run: r.marked,
		},
	}
}

// marked sends requests until the row of the campaign says that it is sold out.
func (r *claimsRun) marked(ctx context.Context) (string, error) {
	for range tries {
		row, err := r.store.Campaign(ctx, r.ended)
		if err != nil {
			return "", operatorError(err)
		}
		switch {
		case row == nil:
			return "", fmt.Errorf("%w: the row is gone; another doctor may have deleted it, with --clean", errNotExpected)
		case row.EmptyVersion > 0:
			return "the row says so", nil
		}
		if err := pause.For(ctx, between); err != nil {
			return "", err
		}
		if a, err := r.claim(ctx, r.ended, claimantB); err != nil || a.status != http.StatusConflict {
			return "", cmp.Or(err, a.want(http.StatusConflict))
		}
	}
	return "", fmt.Errorf("%w: the row of the campaign does not say that it is sold out", errNotExpected)
}
