package claimapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/openapitest"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestExamplesAreAnswers: a handler answers like the examples of the OpenAPI document, except for ids and times.
func TestExamplesAreAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-MH47-YFPN")
	b.campaign(t, "seats", itembank.Settings{Hold: 15 * time.Minute, MaxHold: time.Hour}, "12A")
	b.campaign(t, "winter", itembank.Settings{OpensAt: time.Date(2099, 12, 1, 0, 0, 0, 0, time.UTC)})
	b.campaign(t, "autumn", itembank.Settings{ClosesAt: time.Date(2099, 4, 1, 0, 0, 0, 0, time.UTC)}, "AUTUMN-1")
	b.campaign(t, "evening", itembank.Settings{OnEnd: itembank.Return}, "EVENING-1")
	b.campaign(t, "later", itembank.Settings{})
	b.campaign(t, "summer", itembank.Settings{}, "SUMMER-1")
	b.campaign(t, "tickets", itembank.Settings{PerClaimant: 2}, "T-1")
	b.campaign(t, "hall", itembank.Settings{Choice: true, Publish: true, Columns: true})
	for _, item := range []string{"12A", "12B", "12C", "14A", "14B"} {
		b.loadWithColumns(t, "hall", seat{item, []itembank.Column{{Name: "row", Value: item[:2]}, {Name: "price", Value: "40"}}})
	}
	must(t, b.bank.CloseCampaign(t.Context(), "summer"))

	raw, err := os.ReadFile("openapi.json")
	must(t, err)
	document, err := openapitest.Parse(raw)
	must(t, err)
	compare := func(example string, got answer) {
		t.Helper()
		var want map[string]any
		must(t, json.Unmarshal([]byte(exampleText(t, document, example)), &want))
		if !reflect.DeepEqual(steady(got.members), steady(want)) {
			t.Errorf("the example %s is %v, and the answer is %s", example, want, got.Body)
		}
	}
	claimant := exampleText(t, document, "claim-request")
	const seats = "/campaigns/seats/claims"
	b.do(t, post("/campaigns/evening/claims", claimant)).wants(t, http.StatusCreated, "")

	compare("claimed", b.do(t, post(spring, claimant)))
	compare("held", b.do(t, post(spring, claimant)))
	hold := b.do(t, post(seats, claimant))
	compare("claimed-hold", hold)
	compare("held-hold", b.do(t, get(hold.Headers["Location"])))
	later := b.do(t, post(hold.Headers["Location"]+"/prolongation", `{"claim_id":"`+hold.text("claim_id")+`","ends_at":"`+hold.text("ends_at")+`"}`))
	compare("prolonged", later)
	compare("confirmed", b.do(t, post(hold.Headers["Location"]+"/confirmation", `{"claim_id":"`+hold.text("claim_id")+`"}`)))
	for campaign, name := range map[string]string{"tickets": "slot", "hall": "chosen"} {
		body := exampleText(t, document, name+"-request")
		compare("claimed-"+name, b.do(t, post("/campaigns/"+campaign+"/claims", body)))
		compare("held-"+name, b.do(t, post("/campaigns/"+campaign+"/claims", body)))
	}
	page := get("/campaigns/hall/items")
	page.RawQueryString = "limit=2"
	compare("free-items", b.do(t, page))
	for example, campaign := range map[string]string{
		"open": "autumn", "scheduled": "winter", "sold-out-state": "evening", "empty": "later", "closed-state": "summer",
	} {
		compare(example, b.do(t, get("/campaigns/"+campaign)))
	}
}

func exampleText(t *testing.T, d *openapitest.Document, name string) string {
	t.Helper()
	text, err := json.Marshal(d.At("components", "examples", name, "value"))
	must(t, err)
	return string(text)
}

// steady is an answer without the values that differ from run to run.
func steady(members map[string]any) map[string]any {
	members = maps.Clone(members)
	for name := range members {
		if slices.Contains([]string{"claim_id", "claimed_at", "ends_at", "next"}, name) {
			members[name] = "..."
		}
	}
	return members
}
