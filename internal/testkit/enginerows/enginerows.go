// Package enginerows reads and writes the rows of an engine in tests, with the methods of engine.Store.
package enginerows

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Rows is the store of a test. Its methods fail the test on an error.
type Rows struct {
	testing.TB
	Store engine.Store
}

// Must ends the test on an error.
func (r Rows) Must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// NewName returns a unique name for a campaign, a scope or a claim.
func NewName() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails
	return "t-" + hex.EncodeToString(raw[:])
}

// Texts returns n texts that begin with the prefix.
func Texts(prefix string, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return texts
}

// FreeItem returns the bank row of an item, with the item's shard. The row need not exist.
func FreeItem(c engine.Campaign, item string) engine.FreeItem {
	h := engine.HashItem(item)
	shard := engine.Shard{Campaign: c.Name, Number: h.ShardOf(c.Shards)}
	return engine.FreeItem{Shard: shard, Hash: h, Value: item}
}

// NewClaim returns a claim as a Bank would put it.
func NewClaim(c engine.Campaign, claimant, item string) engine.Claim {
	return engine.Claim{
		ID: NewName(), Campaign: c.Name, Scope: c.Scope, Claimant: claimant, Slot: 1, Item: item,
		ItemHash: engine.HashItem(item), ClaimedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
}

// ReturnOf returns the request that closes a claim and returns its item to the bank.
func ReturnOf(c engine.Campaign, claim engine.Claim) engine.CloseRequest {
	item := FreeItem(c, claim.Item)
	return engine.CloseRequest{Claim: claim, Return: &item}
}

// BurnOf returns the request that closes a claim and burns its item.
func BurnOf(c engine.Campaign, claim engine.Claim) engine.CloseRequest {
	return engine.CloseRequest{Claim: claim, State: engine.Burned}
}

// AtOnce runs functions at the same time and waits for all of them.
func AtOnce(functions ...func()) {
	var all sync.WaitGroup
	for _, f := range functions {
		all.Go(f)
	}
	all.Wait()
}

// FirstSlot returns the key of the first claim of a claimant in the scope of a campaign.
func FirstSlot(c engine.Campaign, claimant string) engine.ClaimKey {
	return engine.ClaimKey{Scope: c.Scope, Claimant: claimant, Slot: 1}
}

// Held reads the first claim of a claimant in the scope of a campaign.
func (r Rows) Held(c engine.Campaign, claimant string) *engine.Claim {
	r.Helper()
	claim, _, err := r.Store.HeldClaim(r.Context(), FirstSlot(c, claimant), engine.Strong)
	r.Must(err)
	return claim
}

// ItemRow reads the row of an item.
func (r Rows) ItemRow(c engine.Campaign, item string) *engine.ItemRow {
	r.Helper()
	row, err := r.Store.ItemRow(r.Context(), c.Name, engine.HashItem(item))
	r.Must(err)
	return row
}

// BankRow reads the bank row with the key of an item.
func (r Rows) BankRow(key engine.FreeItem) *engine.FreeItem {
	r.Helper()
	before := key.Hash
	for n := len(before) - 1; ; n-- { // the hash before it in order
		if before[n]--; before[n] != 0xff {
			break
		}
	}
	page, err := r.Store.FreeItems(r.Context(), key.Shard, engine.Range{After: &before, Through: &key.Hash}, 1, engine.Strong)
	r.Must(err)
	if len(page.Items) == 0 {
		return nil
	}
	return &page.Items[0]
}

// CountFree counts the free items of a bank with at most 1,000 items a shard. It needs few reads.
func (r Rows) CountFree(c engine.Campaign) (free int) {
	r.Helper()
	for n := range c.Shards {
		shard := engine.Shard{Campaign: c.Name, Number: n}
		page, err := r.Store.FreeItems(r.Context(), shard, engine.Range{}, 1000, engine.Strong)
		r.Must(err)
		free += len(page.Items)
	}
	return free
}

// Where names the places of an item: the bank, the claims of the given claimants, and its end. After all calls have
// ended, an item has one place.
func (r Rows) Where(c engine.Campaign, item string, claimants ...string) string {
	r.Helper()
	var places []string
	if r.BankRow(FreeItem(c, item)) != nil {
		places = append(places, "free")
	}
	for _, claimant := range claimants {
		if held := r.Held(c, claimant); held != nil && held.Item == item && held.Campaign == c.Name {
			places = append(places, "held by "+claimant)
		}
	}
	if row := r.ItemRow(c, item); row == nil {
		places = append(places, "not loaded")
	} else if row.State != "" {
		places = append(places, string(row.State))
	}
	return strings.Join(places, ", ")
}

// WantWhere compares the places of an item.
func (r Rows) WantWhere(want string, c engine.Campaign, item string, claimants ...string) {
	r.Helper()
	if got := r.Where(c, item, claimants...); got != want {
		r.Errorf("item %s: want it %q, got %q", item, want, got)
	}
}

// WantCounts compares the counts of a campaign.
func (r Rows) WantCounts(c engine.Campaign, want engine.Counts) {
	r.Helper()
	got, err := r.Store.Counts(r.Context(), c, engine.Strong)
	r.Must(err)
	if got != want {
		r.Errorf("counts: want %+v, got %+v", want, got)
	}
}

// Add adds items until every request has a result, and compares the results.
func (r Rows) Add(requests []engine.AddRequest, want ...engine.AddOutcome) []engine.AddResult {
	r.Helper()
	results := settle(r, requests, r.Store.AddItems, func(a engine.AddResult) bool { return a.Outcome != engine.AddUnsettled })
	for i, result := range results {
		if result.Outcome != want[i] {
			r.Errorf("request %d: want outcome %d, got %d", i, want[i], result.Outcome)
		}
	}
	return results
}

// End ends free items until every request has a result.
func (r Rows) End(requests ...engine.EndRequest) []engine.EndResult {
	r.Helper()
	return settle(r, requests, r.Store.EndItems, func(e engine.EndResult) bool { return e != engine.EndUnsettled })
}

// mostConflicts is how often no request may get a result, because other transactions worked on the rows.
const mostConflicts = 100

// settle sends requests until every request has a result.
func settle[Request, Result any](
	r Rows, requests []Request, send func(context.Context, []Request) ([]Result, error), settled func(Result) bool,
) []Result {
	r.Helper()
	results := make([]Result, len(requests))
	for range len(requests) + mostConflicts {
		var open []int
		var part []Request
		for i, result := range results {
			if !settled(result) {
				open, part = append(open, i), append(part, requests[i])
			}
		}
		if len(open) == 0 {
			return results
		}
		got, err := send(r.Context(), part)
		if err != nil {
			r.Error(err)
			return results
		}
		for i, j := range open {
			results[j] = got[i]
		}
	}
	r.Errorf("requests stay unsettled: %v", results)
	return results
}

// Take takes an item for a claimant. It fails the test if the claimant does not get the item.
func (r Rows) Take(c engine.Campaign, claimant, item string) engine.Claim {
	r.Helper()
	return r.TakeUntil(c, claimant, item, time.Time{})
}

// TakeUntil takes an item with a claim that has an end.
func (r Rows) TakeUntil(c engine.Campaign, claimant, item string, end time.Time) engine.Claim {
	r.Helper()
	claim := NewClaim(c, claimant, item)
	claim.EndsAt = end
	if result, err := r.Store.Take(r.Context(), []engine.FreeItem{FreeItem(c, item)}, claim); err != nil || !result.Taken() {
		r.Fatalf("%s does not get %s: %+v, %v", claimant, item, result, err)
	}
	return claim
}

// Close closes a claim. It fails the test if the claim is not closed.
func (r Rows) Close(request engine.CloseRequest) {
	r.Helper()
	if result, err := r.Store.CloseClaim(r.Context(), request); err != nil || !result.Closed() {
		r.Fatalf("not closed: %+v, %v", result, err)
	}
}

// List reads all pages of a list, and counts the pages that are not empty.
func List[Row any](r Rows, name string, list func(ctx context.Context, name, cursor string) ([]Row, string, error)) (rows []Row, pages int) {
	r.Helper()
	for cursor := ""; ; {
		page, next, err := list(r.Context(), name, cursor)
		r.Must(err)
		if rows = append(rows, page...); len(page) > 0 {
			pages++
		}
		if cursor = next; cursor == "" {
			return rows, pages
		}
	}
}
