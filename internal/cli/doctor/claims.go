package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/claims/scratch"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// ClaimsPlay holds the parts that [PlayClaims] uses.
type ClaimsPlay struct {
	Lambda  Lambda
	Store   *dynamostore.Store    // the tables of the functions, with the operator's credentials
	Claim   Function              // the claim function
	Sweep   *Function             // the sweep function; nil: the deployment has none
	LinkKey *claimlink.PrivateKey // for a function whose claimants come from links; nil: the function has no links
	All     bool                  // also deletes scratch campaigns that another run may be using
	Explain func(error) string    // puts an error of the SDK into plain words
}

// claimsRun is one run of PlayClaims.
type claimsRun struct {
	ClaimsPlay
	*script
	banks
	api
	holds, ended string // the scratch campaigns
}

// PlayClaims makes the claim and the sweep function make, confirm, release and end claims in two scratch campaigns.
// Then it deletes the campaigns. It makes the claims that must have ended with a clock of an hour ago, so that a run
// does not wait. A scheduled sweep closes these claims, too: so a step checks that its claim still exists before it
// sends its request. PlayClaims returns ctx.Err() if ctx ends first: the run was interrupted, but the campaigns were
// deleted.
func PlayClaims(ctx context.Context, p ClaimsPlay, report *Report) error {
	suffix := newSuffix()
	r := &claimsRun{
		ClaimsPlay: p, script: &script{report.Area("claims"), p.Explain, map[string]bool{}}, banks: newBanks(p.Store),
		api:   api{p.Lambda, p.Claim, p.LinkKey},
		holds: scratch.Campaign(suffix, scratch.Holds), ended: scratch.Campaign(suffix, scratch.Ended),
	}
	defer r.cleanUp(ctx)
	for _, s := range slices.Concat(r.lifeOfAClaim(), r.claimEndSteps(), r.itemEndSteps()) {
		if err := r.play(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// These are the resources, in the words of docs/iam.md.
const (
	bankTable   = "bank table"
	dedupeTable = "dedupe table"
	dueIndex    = "index `due` of the dedupe table"
)

// may returns permissions for actions of DynamoDB on the rows with a prefix.
func may(f Kind, table, prefix string, actions ...string) (all []Permission) {
	for _, action := range actions {
		all = append(all, Permission{string(f), "dynamodb:" + action, table, "leading keys `" + prefix + "#*`"})
	}
	return all
}

// closing returns the permissions to end a claim whose item returns. One transaction writes rows of three prefixes.
func closing(f Kind) []Permission {
	return slices.Concat(may(f, bankTable, "item", "GetItem", "UpdateItem"), may(f, dedupeTable, "claim", "DeleteItem"),
		may(f, bankTable, "bank", "PutItem"))
}

// These are the names of steps that other steps need.
const (
	stepMake   = "scratch campaigns"
	stepClaim  = "claim"
	stepReturn = "a claim that has ended, asked for by its claimant"
)

// cannotClaim returns the reason why no request can claim through the function, or "".
func (r *claimsRun) cannotClaim() string {
	if r.Claim.Env["ONCEBOX_CHALLENGE"] != "" {
		return "a claim needs a solution of the challenge, which only a browser gets"
	}
	return r.cannotIdentify()
}

// cannotIdentify returns the reason why no request can have a claimant, or "".
func (r *claimsRun) cannotIdentify() string {
	if r.Claim.Env["ONCEBOX_CLAIMANT_FROM"] == "link" && r.LinkKey == nil {
		return "a claim needs a personal link; give the private key with --link-key"
	}
	return ""
}

// cannotConfirm returns the reason why no request can confirm through the function, or "".
func (r *claimsRun) cannotConfirm() string {
	if !r.backEnd() && r.Claim.Env["ONCEBOX_CLAIMANTS_CONFIRM"] != "on" {
		return "claimants may not confirm their own holds (ONCEBOX_CLAIMANTS_CONFIRM), so the function never does it"
	}
	return r.cannotClaim()
}

func (r *claimsRun) lifeOfAClaim() []step {
	var id string
	return []step{
		{name: stepMake, run: r.make},
		{
			name: "state of a campaign", after: []string{stepMake}, not: r.cannotIdentify(),
			proves: slices.Concat(may(Claim, bankTable, "campaign", "GetItem"), may(Claim, bankTable, "bank", "Query")),
			run: func(ctx context.Context) (string, error) {
				a, err := r.state(ctx, r.holds)
				if err = cmp.Or(err, a.want(http.StatusOK)); err == nil && a.State != string(itembank.Open) {
					err = fmt.Errorf("%w: the campaign is %s", errNotExpected, a.State)
				}
				return "open", err
			},
		},
		{
			name: stepClaim, after: []string{stepMake}, not: r.cannotClaim(),
			proves: slices.Concat(may(Claim, bankTable, "bank", "DeleteItem"),
				may(Claim, dedupeTable, "claim", "PutItem"), may(Claim, bankTable, "item", "BatchGetItem")),
			run: func(ctx context.Context) (string, error) {
				a, err := r.claim(ctx, r.holds, claimantA)
				if err = cmp.Or(err, a.granted()); err == nil && len(a.Columns) == 0 {
					err = fmt.Errorf("%w: the item has no columns", errNotExpected)
				}
				id = a.ClaimID
				return "an item, with its columns", err
			},
		},
		{
			name: "claim, read again", after: []string{stepClaim}, proves: may(Claim, dedupeTable, "claim", "GetItem"),
			run: func(ctx context.Context) (string, error) {
				a, err := r.read(ctx, r.holds, claimantA)
				if err = cmp.Or(err, a.want(http.StatusOK)); err == nil && a.ClaimID != id {
					err = fmt.Errorf("%w: it is another claim", errNotExpected)
				}
				return "200, the same claim", err
			},
		},
		{
			name: "release", after: []string{stepClaim}, proves: closing(Claim),
			run: func(ctx context.Context) (string, error) {
				a, err := r.release(ctx, r.holds, claimantA, id)
				return "204: the claim ended and its item returned, rows of three prefixes in one transaction",
					cmp.Or(err, a.want(http.StatusNoContent))
			},
		},
		{
			name: "hold and its confirmation", after: []string{stepClaim}, not: r.cannotConfirm(),
			proves: may(Claim, dedupeTable, "claim", "UpdateItem"),
			run: func(ctx context.Context) (string, error) {
				a, err := r.claim(ctx, r.holds, claimantA)
				if err = cmp.Or(err, a.granted()); err != nil {
					return "", err
				}
				a, err = r.confirm(ctx, r.holds, claimantA, a.ClaimID)
				if err = cmp.Or(err, a.want(http.StatusOK)); err == nil && a.EndsAt != "" {
					err = fmt.Errorf("%w: the hold still ends", errNotExpected)
				}
				return "200: the claim has no end", err
			},
		},
	}
}

// make makes the campaigns. It first deletes the campaigns of interrupted runs.
func (r *claimsRun) make(ctx context.Context) (string, error) {
	left, kept, err := r.deleteLeft(ctx, r.All)
	// A request that is cancelled may still reach DynamoDB after the clean-up. All other requests change nothing
	// then, because they need rows that are deleted. These requests would leave rows that no later run finds, so they
	// are not cancelled.
	uncut := context.WithoutCancel(ctx)
	if err == nil {
		err = r.makeHolds(uncut, r.holds)
	}
	if err == nil {
		err = r.makeEnded(uncut, r.ended)
	}
	detail := r.holds + " and " + r.ended
	if left > 0 {
		detail += fmt.Sprintf("; deleted %d of interrupted runs", left)
	}
	if kept > 0 {
		r.Warn("old scratch campaigns", fmt.Sprintf("%d of interrupted runs could not be deleted", kept),
			"Run `oncebox doctor --deployed --clean` later.")
	}
	return detail, operatorError(err)
}

// cleanUpTime limits the end of a run that was interrupted.
const cleanUpTime = 30 * time.Second

// cleanUp deletes both campaigns, even after an interruption. At that time a function may still run, and a request of
// doctor may still be on its way. Neither can make a claim: one transaction deletes all items and claims.
func (r *claimsRun) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	err := errors.Join(r.delete(ctx, r.holds), r.delete(ctx, r.ended))
	if err != nil {
		r.Fail("clean-up", r.Explain(err), "Run `oncebox doctor --deployed --clean` later. It deletes the scratch campaigns.")
		return
	}
	r.OK("clean-up", "both scratch campaigns and their claims are deleted")
}
