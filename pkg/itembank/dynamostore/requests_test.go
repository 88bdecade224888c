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

	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

// wire counts what really goes to the engine: requests by operation, with the
// write units they cost by the documented rule. The local engines' own figures
// cannot be used: DynamoDB Local counts transactions at four times.
type wire struct {
	mu       sync.Mutex
	requests []string
	units    int
	stale    int // reads that may be answered with old rows
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
	w.mu.Unlock()
	return http.DefaultClient.Do(r)
}

// since returns what was counted since the last call.
func (w *wire) since() (requests []string, units int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	requests, units = w.requests, w.units
	w.requests, w.units = nil, 0
	return requests, units
}

// writeUnits: one unit a started KB and write, twice that in a transaction.
// A delete is taken as one unit's worth; bank rows are below 1 KB.
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
			size += len(name) + len(fmt.Sprint(v)) // a number is shorter stored than written
		}
	}
	return max(1, (size+1023)/1024)
}

// TestRequestsPerClaim pins what a claim costs, request by request.
func TestRequestsPerClaim(t *testing.T) {
	for name, endpoint := range map[string]func(testing.TB) string{
		"dynoxide": testengine.Dynoxide, "DynamoDBLocal": testengine.DynamoDBLocal,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := endpoint(t)
			newEngine(t, url) // makes the tables
			counted := &wire{}
			bank := itembank.New(dynamostore.New(newClient(url, counted), bankTable, dedupeTable), itembank.WithClock(itembanktest.NewClock()))
			testRequests(t, bank, counted)
		})
	}
}

func testRequests(t *testing.T, bank *itembank.Bank, counted *wire) {
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
	expect("a repeat, which is a cancelled transaction", 4, "TransactWriteItems")
	if counted.stale > 0 {
		t.Errorf("%d reads were not consistent", counted.stale)
	}
	claim("ann", nil)
	counted.since()
	claim("ann", nil)
	expect("one of many repeats", 0, "GetItem")
	claim("bob", nil)
	expect("a new claim among repeats", 4, "GetItem", "TransactWriteItems")
	counted.stale = 0 // these two may be answered with an old row
	claim("cid", itembank.ErrSoldOut)
	expect("the first sold out", 0, "Query", "GetItem", "GetItem")
	claim("dan", itembank.ErrSoldOut)
	expect("sold out while that is remembered", 0, "GetItem")
	if err := bank.CloseCampaign(ctx, name); err != nil {
		t.Fatal(err)
	}
	claim("eve", itembank.ErrClosed)
	counted.since()
	claim("eve", itembank.ErrClosed)
	expect("closed", 0, "GetItem")
	held, err := bank.HeldClaim(ctx, name, "ann")
	if err != nil {
		t.Fatal(err)
	}
	counted.since()
	if _, err := bank.Release(ctx, name, "ann", held.ID); err != nil {
		t.Fatal(err)
	}
	expect("a release", 4, "GetItem", "GetItem", "TransactWriteItems")
	if _, err := bank.Counts(ctx, name); err != nil {
		t.Fatal(err)
	}
	if counted.stale > 0 {
		t.Errorf("%d reads were not consistent", counted.stale)
	}
}
