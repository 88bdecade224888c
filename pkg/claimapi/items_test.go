package claimapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestFreeItems: a campaign that publishes its items lists them in pages, which may be cached for a second.
func TestFreeItems(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.campaign(t, "hall", itembank.Settings{Publish: true, Choice: true, OnEnd: itembank.Return}, "1A", "1B", "1C")
	get := func(campaign, query string) request {
		r := newRequest(http.MethodGet, "/campaigns/"+campaign+"/items")
		r.RawQueryString = query
		return r
	}
	b.do(t, post("/campaigns/hall/claims", `{"claimant":"ann","item":"1B"}`)).wants(t, http.StatusCreated, "")
	var items []string
	for query := "limit=1"; query != ""; {
		got, err := b.Handle(t.Context(), get("hall", query))
		must(t, err)
		if got.StatusCode != http.StatusOK || got.Headers["Cache-Control"] != "public, max-age=1" {
			t.Fatalf("got %+v", got)
		}
		var body struct {
			Campaign string
			Items    []struct{ Item string }
			Next     string
		}
		must(t, json.Unmarshal([]byte(got.Body), &body))
		if body.Campaign != "hall" || body.Items == nil || len(body.Items) > 1 {
			t.Errorf("got %s", got.Body)
		}
		for _, i := range body.Items {
			items = append(items, i.Item)
		}
		if query = ""; body.Next != "" {
			query = "limit=1&cursor=" + body.Next
		}
	}
	if slices.Sort(items); !slices.Equal(items, []string{"1A", "1C"}) {
		t.Errorf("got %v", items)
	}
	for _, query := range []string{"limit=0", "limit=501", "limit=x", "cursor=x", "cursor=0&cursor=1"} {
		b.do(t, get("hall", query)).wants(t, http.StatusBadRequest, "invalid-request")
	}
	b.do(t, get("spring", "")).wants(t, http.StatusNotFound, "not-published")
	b.do(t, get("nothing", "")).wants(t, http.StatusNotFound, "no-such-campaign")
}

// TestItemsThatAreNotListedYet: a page that would take a second read of the bank in one second is refused for a moment.
func TestItemsThatAreNotListedYet(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body")
	_, _, err := b.bank.CreateCampaign(t.Context(), "wide", itembank.Settings{Publish: true, Shards: 100})
	must(t, err)
	from, err := claimapi.ParseClaimantFrom("body")
	must(t, err)
	b.Handler = claimapi.New(itembank.New(b.store, itembank.WithClock(itembankfault.NewClock())), from, discard())
	list := newRequest(http.MethodGet, "/campaigns/wide/items")
	list.RawQueryString = "cursor=" + b.do(t, list).wants(t, http.StatusOK, "").text("next")
	a := b.do(t, list).wants(t, http.StatusTooManyRequests, "not-listed-yet")
	if after := a.Headers["Retry-After"]; after < "1" || after > "3" {
		t.Errorf("Retry-After is %q", after)
	}
}
