package enginetest

import (
	"context"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Engine is an engine under test.
type Engine struct {
	Store engine.Store
	Raw   Raw
}

// Raw writes and deletes single rows of an engine without any condition. Deleting an absent row is no error.
type Raw interface {
	PutBankRow(ctx context.Context, item engine.FreeItem) error
	DropBankRow(ctx context.Context, item engine.FreeItem) error
	PutItemRow(ctx context.Context, campaign string, row engine.ListedItem) error
	DropItemRow(ctx context.Context, campaign string, h engine.Hash) error
	// PutClaim puts a claim that DueClaims does not list.
	PutClaim(ctx context.Context, claim engine.Claim) error
	DropClaim(ctx context.Context, key engine.ClaimKey) error
	// DropCampaign deletes a campaign's row, and its name from the list.
	DropCampaign(ctx context.Context, name string) error
	// DropScope deletes the row of a scope, if it is there.
	DropScope(ctx context.Context, name string) error
}

// Case is one test of the suite. Run fails the given test if the engine does not behave as the case requires.
type Case struct {
	Name string
	Run  func(t testing.TB, e Engine)
}

// Cases returns all cases of the suite.
func Cases() []Case {
	var cases []Case
	for _, c := range slices.Concat(
		campaignCases, claimCases, slotCases, blockCases, listedCases, holdCases, endCases, replaceCases, loadCases, listCases,
		repairCases, pageCases, columnCases, isolationCases,
	) {
		cases = append(cases, Case{c.name, func(t testing.TB, e Engine) { c.run(newFixture(t, e)) }})
	}
	return cases
}

// Run runs all cases, in parallel. newEngine may return the same engine for several
// cases.
func Run(t *testing.T, newEngine func(testing.TB) Engine) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, newEngine(t))
		})
	}
}

type testCase struct {
	name string
	run  func(*fixture)
}

// fixture is the environment of a case: the engine, and the name of a campaign that no other case uses.
type fixture struct {
	enginerows.Rows
	raw  Raw
	name string
}

func newFixture(t testing.TB, e Engine) *fixture {
	return &fixture{Rows: enginerows.Rows{TB: t, Store: e.Store}, raw: e.Raw, name: enginerows.NewName()}
}

// campaign returns a new campaign with the defaults of a Bank.
func (f *fixture) campaign(shards int) engine.Campaign {
	return engine.Campaign{
		Name: f.name, Mode: engine.ByTimes, Scope: f.name, Shards: shards, PageSize: 30, OnEnd: engine.Burn,
	}
}

// create creates a campaign, whose name must be free.
func (f *fixture) create(c engine.Campaign) engine.Campaign {
	f.Helper()
	result, err := f.Store.CreateCampaign(f.Context(), c)
	f.Must(err)
	if !result.Created() {
		f.Fatalf("campaign %s was not created: %+v", c.Name, result)
	}
	return c
}

// load adds items to a campaign.
func (f *fixture) load(c engine.Campaign, items ...string) {
	f.Helper()
	row := int64(0)
	for chunk := range slices.Chunk(items, engine.MaxAddItems) {
		var requests []engine.AddRequest
		for _, item := range chunk {
			row++
			requests = append(requests, engine.AddRequest{Item: enginerows.FreeItem(c, item), LoadID: "load", Row: row})
		}
		f.Add(requests, slices.Repeat([]engine.AddOutcome{engine.AddDone}, len(chunk))...)
	}
}

// stocked creates a campaign with n items.
func (f *fixture) stocked(n, shards int) (engine.Campaign, []string) {
	f.Helper()
	c := f.create(f.campaign(shards))
	items := enginerows.Texts("code", n)
	f.load(c, items...)
	return c, items
}

// putState marks the row of an item without any condition.
func (f *fixture) putState(c engine.Campaign, item string, state engine.ItemState) {
	f.Helper()
	row := *f.ItemRow(c, item)
	row.State = state
	f.Must(f.raw.PutItemRow(f.Context(), c.Name, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: row}))
}

func (f *fixture) dropItemRow(c engine.Campaign, item string) {
	f.Helper()
	f.Must(f.raw.DropItemRow(f.Context(), c.Name, engine.HashItem(item)))
}
