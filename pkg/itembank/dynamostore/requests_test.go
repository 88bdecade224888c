package dynamostore_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// wire counts the requests to an engine by operation, and the write units that they cost by DynamoDB's documented
// rule. It does not use the units that local engines report: DynamoDB Local counts transactions four times.
type wire struct {
	mu       sync.Mutex
	requests []string
	units    int
	stale    int // eventually consistent reads
	indexed  int // writes of rows that are in the index
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	w.mu.Lock()
	w.requests = append(w.requests, operation)
	w.units += writeUnits(operation, body)
	if (operation == "Query" || operation == "GetItem") && !bytes.Contains(body, []byte(`"ConsistentRead":true`)) {
		w.stale++
	}
	if bytes.Contains(body, []byte(`"due":{"S"`)) || bytes.Contains(body, []byte(`REMOVE ends_at, due`)) {
		w.indexed++
	}
	w.mu.Unlock()
	return http.DefaultClient.Do(r)
}

// since returns the requests and units since the last call.
func (w *wire) since() (requests []string, units int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	requests, units = w.requests, w.units
	w.requests, w.units = nil, 0
	return requests, units
}

// writeUnits returns one unit for each started KB of a write, and twice that in a transaction. A delete counts as one
// unit, because bank rows are smaller than 1 KB.
func writeUnits(operation string, body []byte) int {
	type action struct{ Item map[string]map[string]any }
	var request struct {
		Item          map[string]map[string]any
		TransactItems []map[string]action
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	switch operation {
	case "PutItem":
		return kilobytes(request.Item)
	case "UpdateItem", "DeleteItem":
		return 1
	case "TransactWriteItems":
		units := 0
		for _, item := range request.TransactItems {
			for _, a := range item {
				units += 2 * kilobytes(a.Item)
			}
		}
		return units
	}
	return 0
}

func kilobytes(item map[string]map[string]any) int {
	size := 0
	for name, value := range item {
		for _, v := range value {
			size += len(name) + len(fmt.Sprint(v)) // a stored number is shorter than its text
		}
	}
	return max(1, (size+1023)/1024)
}

// TestRequestsPerClaim counts the requests and write units of a claim.
func TestRequestsPerClaim(t *testing.T) {
	onLocalEngines(t, func(t *testing.T, endpoint string) {
		itembankengines.DynamoDB(t, endpoint) // makes the tables
		counted := &wire{}
		store := dynamostore.New(itembankengines.Client(endpoint, counted), bankTable, dedupeTable)
		testRequests(t, itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock())), counted)
	})
}

// TestPageReads: a read before a change of the page is consistent. A read for display costs half.
func TestPageReads(t *testing.T) {
	onLocalEngines(t, func(t *testing.T, endpoint string) {
		itembankengines.DynamoDB(t, endpoint)
		counted := &wire{}
		store := dynamostore.New(itembankengines.Client(endpoint, counted), bankTable, dedupeTable)
		for stale, consistent := range []engine.Consistency{engine.Strong, engine.Eventual} {
			counted.stale = 0
			if _, err := store.PageDocument(t.Context(), "requests", consistent); err != nil || counted.stale != stale {
				t.Errorf("consistent %t: want %d stale reads, got %d, %v", consistent, stale, counted.stale, err)
			}
		}
	})
}

func testRequests(t *testing.T, bank *itembank.Operator, counted *wire) {
	ctx, name := t.Context(), "requests-"+strings.ToLower(rand.Text())
	_, _, err := bank.CreateCampaign(ctx, name, itembank.Settings{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bank.Load(ctx, name, itembank.Items("code-1", "code-2", "code-3"), nil); err != nil {
		t.Fatal(err)
	}
	claim := func(claimant string, want error) {
		t.Helper()
		if _, err := bank.Claim(ctx, name, claimant); !errors.Is(err, want) {
			t.Fatalf("claim for %s: want %v, got %v", claimant, want, err)
		}
	}
	expect := func(what string, units int, requests ...string) {
		t.Helper()
		got, gotUnits := counted.since()
		if !slices.Equal(got, requests) || gotUnits != units {
			t.Errorf("%s: want %v and %d write units, got %v and %d", what, requests, units, got, gotUnits)
		}
	}
	claim("warm-up", nil)
	counted.since()
	claim("ann", nil)
	expect("a new claim on a warm page", 4, "TransactWriteItems")
	claim("ann", nil)
	expect("a repeated claim, which is a cancelled transaction", 4, "TransactWriteItems")
	if counted.stale > 0 {
		t.Errorf("%d reads were not consistent", counted.stale)
	}
	claim("ann", nil)
	counted.since()
	claim("ann", nil)
	expect("one of many repeated claims", 0, "GetItem")
	claim("bob", nil)
	expect("a new claim among repeated claims", 4, "GetItem", "TransactWriteItems")
	claim("cid", itembank.ErrSoldOut)
	expect("the first sold out", 1, "GetItem", "Query", "GetItem", "Query", "UpdateItem", "TransactGetItems")
	counted.stale = 0 // these three reads may be eventually consistent
	claim("dan", itembank.ErrSoldOut)
	expect("sold out while that is remembered", 0, "TransactGetItems")
	if err := bank.CloseCampaign(ctx, name); err != nil {
		t.Fatal(err)
	}
	claim("eve", itembank.ErrClosed)
	counted.since()
	claim("eve", itembank.ErrClosed)
	expect("closed", 0, "TransactGetItems")
	held, err := bank.HeldClaim(ctx, name, "ann")
	if err != nil {
		t.Fatal(err)
	}
	counted.since()
	if _, err := bank.Release(ctx, name, "ann", held.ID); err != nil {
		t.Fatal(err)
	}
	expect("a release", 4, "TransactGetItems", "GetItem", "TransactWriteItems")
	if _, err := bank.ConsistentCounts(ctx, name); err != nil {
		t.Fatal(err)
	}
	if counted.stale > 0 {
		t.Errorf("%d reads were not consistent", counted.stale)
	}
	counted.since()
	if _, err := bank.Counts(ctx, name); err != nil {
		t.Fatal(err)
	}
	if reads, _ := counted.since(); counted.stale != len(reads)-1 { // all except the read of the campaign
		t.Errorf("of %d reads of a count %d are eventually consistent", len(reads), counted.stale)
	}
}

// TestRequestsOfHolds counts the requests and write units of a hold, its confirmation and its end. For each change of
// the index DynamoDB adds one unit, which no request shows: a hold adds an entry, and a confirmation or a close removes
// it (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes).
// So a hold costs 5 units, its confirmation 2, and its close 7.
func TestRequestsOfHolds(t *testing.T) {
	onLocalEngines(t, func(t *testing.T, endpoint string) {
		itembankengines.DynamoDB(t, endpoint) // makes the tables
		counted := &wire{}
		store := dynamostore.New(itembankengines.Client(endpoint, counted), bankTable, dedupeTable)
		testRequestsOfHolds(t, store, counted)
	})
}

func testRequestsOfHolds(t *testing.T, store *dynamostore.Store, counted *wire) {
	ctx, bank := t.Context(), itembank.NewOperator(store)
	expect := func(what string, err error, units, indexed int, requests ...string) {
		t.Helper()
		got, gotUnits := counted.since()
		if err != nil || !slices.Equal(got, requests) || gotUnits != units || counted.indexed != indexed {
			t.Errorf("%s: want %v, %d write units, %d writes of the index; got %v, %d, %d, %v",
				what, requests, units, indexed, got, gotUnits, counted.indexed, err)
		}
		counted.indexed = 0
	}
	stocked := func(s itembank.Settings) string {
		t.Helper()
		name := "holds-" + strings.ToLower(rand.Text())
		s.Shards = 1
		_, _, create := bank.CreateCampaign(ctx, name, s)
		_, load := bank.Load(ctx, name, itembank.Items("seat-1", "seat-2", "seat-3", "seat-4"), nil)
		_, warmUp := bank.Claim(ctx, name, "warm-up")
		if err := errors.Join(create, load, warmUp); err != nil {
			t.Fatal(err)
		}
		counted.since()
		counted.indexed = 0
		return name
	}
	_, err := bank.Claim(ctx, stocked(itembank.Settings{OnEnd: itembank.Return}), "ann")
	expect("a claim without an end", err, 4, 0, "TransactWriteItems")

	name := stocked(itembank.Settings{Hold: time.Minute})
	ann, err := bank.Claim(ctx, name, "ann")
	expect("a hold", err, 4, 1, "TransactWriteItems")
	_, err = bank.Confirm(ctx, name, "ann", ann.Claim.ID)
	expect("its confirmation", err, 1, 1, "UpdateItem")
	_, err = bank.Confirm(ctx, name, "ann", ann.Claim.ID)
	expect("its confirmation again", err, 1, 1, "UpdateItem") // the condition fails, so the index does not change
	bob, err := bank.Claim(ctx, name, "bob")
	expect("another hold", err, 4, 1, "TransactWriteItems")
	_, err = bank.ReleaseHold(ctx, name, "bob", bob.Claim.ID)
	expect("its release", err, 6, 0, "TransactGetItems", "GetItem", "TransactWriteItems")

	over := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Hour)
	shard := engine.Shard{Campaign: name}
	page, err := store.FreeItems(ctx, shard, engine.Range{}, 1, engine.Strong)
	if err != nil || len(page.Items) == 0 {
		t.Fatalf("no free item: %+v, %v", page, err)
	}
	taken, err := store.Take(ctx, page.Items[:1], engine.Claim{
		ID: rand.Text(), Campaign: name, Scope: name, Claimant: "cid", Slot: 1, Item: page.Items[0].Value, ItemHash: page.Items[0].Hash,
		ClaimedAt: over, EndsAt: over,
	})
	if err != nil || !taken.Taken() {
		t.Fatalf("not taken: %+v, %v", taken, err)
	}
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); { // until the index has the claim
		due, err := store.DueClaims(ctx, shard, time.Time{}, time.Now(), 1)
		if err != nil || len(due.Claims) > 0 {
			break
		}
	}
	counted.since()
	counted.indexed = 0
	report, err := bank.SweepDue(ctx, name, nil)
	if report.Returned != 1 {
		t.Errorf("want one item returned, got %+v", report)
	}
	expect("a sweep of what is due", err, 6, 0, "GetItem", "Query", "GetItem", "GetItem", "TransactWriteItems")
}
