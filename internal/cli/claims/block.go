package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// claimantInScope is the arguments of the commands about a claimant in a scope.
type claimantInScope struct {
	Name     string `arg:"" help:"A scope, or a campaign of the scope."`
	Claimant string `arg:"" help:"The claimant."`
}

type claimBlock struct{ claimantInScope }

func (claimBlock) Help() string {
	return `Blocks the claimant in the scope: claims, reads and confirmations of the claimant are refused as "not eligible", in
all campaigns of the scope and in all slots. Claims of other claimants cost no more. Safe to repeat.

A claim that the claimant holds stays, and its slot is not blocked; the exit code is then 4. To block that slot, release
the claim and repeat the command. "oncebox forget" releases all claims and blocks in one step.

A block names the claimant. "oncebox claim unblock" deletes it, and so does "oncebox sweep" 30 days after the last
campaign of the scope has closed by its times.

Examples:
  oncebox claim block spring customer-17`
}

type claimUnblock struct{ claimantInScope }

func (claimUnblock) Help() string {
	return `Deletes the block of a claimant, who can then claim again. It undoes "oncebox claim block" and the block of "oncebox
forget"; it does not bring claims back. Safe to repeat: if there is no block, the command says so, and the exit code is
0. In a SQLite store it then rewrites the file, as "oncebox forget" does.

Examples:
  oncebox claim unblock spring customer-17`
}

// blockJSON is the result of claim block and claim unblock.
type blockJSON struct {
	Scope           string     `json:"scope"`
	Claimant        string     `json:"claimant"`
	Slots           int        `json:"slots"`         // of a claimant in the scope
	Changed         int        `json:"changed_slots"` // that were blocked or unblocked
	Held            []heldJSON `json:"held"`          // the claims that stay
	BlocksStayUntil *time.Time `json:"blocks_stay_until,omitempty"`
}

type heldJSON struct {
	Campaign string `json:"campaign"`
	Slot     int    `json:"slot"`
	ClaimID  string `json:"claim_id"`
}

func toBlockJSON(r itembank.BlockReport) blockJSON {
	result := blockJSON{Scope: r.Scope, Claimant: r.Claimant, Slots: r.Slots, Changed: r.Changed, Held: []heldJSON{}}
	for _, claim := range r.Held {
		result.Held = append(result.Held, heldJSON{claim.Campaign, claim.Slot, claim.ID})
	}
	return result
}

func (c claimBlock) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Name, func(b *itembank.Operator) error {
		scope, _, err := scopeNamed(ctx, b, c.Name)
		if err != nil {
			return err
		}
		r, err := b.Block(ctx, scope, c.Claimant)
		if err != nil {
			return err
		}
		result := toBlockJSON(r)
		result.BlocksStayUntil = cli.Optional(r.PurgedAfter)
		var text []string
		if len(r.Held) < r.Slots {
			text = describeBlock(r.Scope, r.Claimant, r.PurgedAfter)
		}
		for _, claim := range r.Held {
			const form = "slot %d is NOT blocked: it has claim %s of %s, which stays"
			text = append(text, fmt.Sprintf(form, claim.Slot, claim.ID, claim.Campaign))
		}
		err = a.Print(result, strings.Join(text, "\n"))
		if len(r.Held) > 0 {
			const form = "%w: %s not blocked; release the claims and repeat the command, or run `oncebox forget`"
			err = errors.Join(err, fmt.Errorf(form, cli.ErrLook, cli.Quantity(int64(len(r.Held)), "slot")))
		}
		return err
	})
}

func (c claimUnblock) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Name, func(b *itembank.Operator) error {
		scope, _, err := scopeNamed(ctx, b, c.Name)
		if err != nil {
			return err
		}
		r, err := b.Unblock(ctx, scope, c.Claimant)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("unblocked: %s can claim in the scope %s", r.Claimant, r.Scope)
		if r.Changed == 0 {
			text = fmt.Sprintf("nothing to do: %s is not blocked in the scope %s", r.Claimant, r.Scope)
		}
		const hint = "Repeat the command to remove the text of the block from the file on the disk."
		return errors.Join(a.Print(toBlockJSON(r), text), eraseDeleted(ctx, a, hint))
	})
}

// describeBlock returns the lines about the blocks of a claimant.
func describeBlock(scope, claimant string, stayUntil time.Time) []string {
	stay := "it stays, because a campaign of the scope does not close by its times"
	if !stayUntil.IsZero() {
		stay = "`oncebox sweep` deletes it after " + cli.TimeOr(stayUntil, "")
	}
	return []string{
		fmt.Sprintf("blocked: %s cannot claim in the scope %s", claimant, scope),
		"  the block names the claimant; " + stay,
		fmt.Sprintf("  to undo it: oncebox claim unblock %s %q", scope, claimant),
	}
}

// unblockHint adds to ErrNotEligible how to undo a block.
func unblockHint(err error, campaign, claimant string) error {
	if !errors.Is(err, itembank.ErrNotEligible) {
		return err
	}
	return cli.WithHint(err, fmt.Sprintf("`oncebox claim unblock %s %q` lets the claimant claim again.", campaign, claimant))
}
