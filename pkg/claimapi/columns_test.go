package claimapi_test

import (
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// seat is an item with its columns.
type seat struct {
	item    string
	columns []itembank.Column
}

// loadWithColumns loads items into a campaign with columns.
func (b *bench) loadWithColumns(t testing.TB, campaign string, seats ...seat) {
	t.Helper()
	source := func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for i, s := range seats {
				if !yield(itembank.Line{Number: int64(i) + 1, Item: s.item, Columns: s.columns}, nil) {
					return
				}
			}
		}
	}
	_, err := b.bank.Load(t.Context(), campaign, source, nil)
	must(t, err)
}

// TestColumns: an answer with items has their columns, in the order of the load and unchanged.
func TestColumns(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.campaign(t, "hall", itembank.Settings{Columns: true, Choice: true, Publish: true, Hold: time.Hour})
	b.loadWithColumns(t, "hall",
		seat{"1A", []itembank.Column{{Name: "row", Value: `<1> "x"`}, {Name: "price", Value: "40"}}},
		seat{"1B", []itembank.Column{{Name: "row", Value: "1"}}}, seat{item: "1C"})
	const claims = "/campaigns/hall/claims"
	const first = `"item":"1A","columns":{"row":"<1> \"x\"","price":"40"}`
	wants := func(r request, status int, want string) answer {
		t.Helper()
		got := b.do(t, r).wants(t, status, "")
		if !strings.Contains(got.Body, want) {
			t.Errorf("want %s in %s", want, got.Body)
		}
		return got
	}
	one := post(claims, `{"claimant":"ann","item":"1A"}`)
	wants(one, http.StatusCreated, first+`,"claimed_at"`)
	wants(one, http.StatusOK, first+`,"claimed_at"`)
	got := wants(newRequest(http.MethodGet, claims+"/ann"), http.StatusOK, first+`,"claimed_at"`)
	wants(post(claims+"/ann/confirmation", `{"claim_id":"`+got.text("claim_id")+`"}`), http.StatusOK, first)
	wants(newRequest(http.MethodGet, "/campaigns/hall/items"), http.StatusOK, `{"item":"1B","columns":{"row":"1"}}`)
	wants(newRequest(http.MethodGet, "/campaigns/hall/items"), http.StatusOK, `{"item":"1C"}`)
	wants(post(claims, `{"claimant":"bob","items":["1C","1B"]}`), http.StatusCreated,
		`"item":"1C","items":[{"item":"1C"},{"item":"1B","columns":{"row":"1"}}]`)
	if plain := b.do(t, post("/campaigns/spring/claims", `{"claimant":"ann"}`)).wants(t, http.StatusCreated, ""); strings.Contains(plain.Body, "columns") {
		t.Errorf("got %s", plain.Body)
	}
}
