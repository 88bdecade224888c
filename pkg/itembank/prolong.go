package itembank

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Prolong moves the end of a hold: the hold then ends Hold from now, but no later than MaxHold after it was made. The
// end never moves back. claimID is the id of the claim that the caller saw, and endsAt its end, so Prolong prolongs
// neither a later claim nor the same hold twice: if the hold has another end, it was prolonged since, and Prolong
// returns it as it is. So it is safe to repeat. It also returns a confirmed claim as it is, and a hold that cannot
// become longer: compare Claim.EndsAt.
//
// A hold can be prolonged until it is closed, as for Confirm, also while its campaign is closed.
//
// Errors: *InvalidError, also if the holds of the campaign are not prolonged; ErrRestored; and the errors of Confirm.
func (b *Bank) Prolong(
	ctx context.Context, campaign, claimant, claimID string, endsAt time.Time, options ...ClaimOption,
) (Claim, error) {
	c, key, err := b.holdKeyOf(ctx, campaign, claimant, options)
	switch {
	case err != nil:
		return Claim{}, err
	case c.MaxHold == 0:
		const detail = "has holds that are not prolonged; `max-hold` is set when a campaign is created"
		return Claim{}, &InvalidError{"campaign", detail}
	case endsAt.IsZero():
		return Claim{}, &InvalidError{"ends_at", "is missing: it is the end of the hold that the caller saw"}
	}
	if err := b.notMarked(ctx, campaign); err != nil {
		return Claim{}, err
	}
	held, err := b.heldClaim(ctx, key)
	if err != nil {
		return Claim{}, err
	}
	named := engine.Claim{ID: claimID, Campaign: campaign}
	claim, err := namedClaim(named, held)
	if err != nil {
		return Claim{}, err
	}
	if end := c.prolongedEnd(*held, b.serverNow()); held.EndsAt.Equal(endsAt) && end.After(endsAt) {
		if claim, err = b.prolongHold(ctx, *held, end); err != nil {
			return Claim{}, err
		}
	}
	return b.withColumns(ctx, c, claim)
}

// prolongedEnd returns the end of a hold that is prolonged now. It may be earlier than the end that the hold has.
func (c Campaign) prolongedEnd(hold engine.Claim, now time.Time) time.Time {
	end, last := now.Add(c.Hold), hold.ClaimedAt.Add(c.MaxHold)
	if end.After(last) {
		return last
	}
	return end
}

// prolongHold moves the end of a hold, unless the hold has another end by then. It returns the claim that its claimant
// then has.
func (b *Bank) prolongHold(ctx context.Context, hold engine.Claim, endsAt time.Time) (Claim, error) {
	result, err := whileBusy(ctx, b, claimBusy, func() (engine.ConfirmResult, bool, error) {
		result, err := b.store.ProlongClaim(ctx, hold, endsAt)
		return result, result.Conflict, err
	})
	if err != nil {
		return Claim{}, err
	}
	return namedClaim(hold, result.Held)
}
