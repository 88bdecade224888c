package claimapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestSlots: a request names its slot in the body or the query. Without a slot it is about slot 1.
func TestSlots(t *testing.T) {
	t.Parallel()
	const tickets = "/campaigns/tickets/claims"
	b := newBench(t, "body")
	b.campaign(t, "tickets", itembank.Settings{PerClaimant: 3, Hold: time.Hour}, "T-1", "T-2", "T-3")
	claim := func(body string, status int) answer {
		t.Helper()
		return b.do(t, post(tickets, body)).wants(t, status, "")
	}
	at := func(method, path, query string) request {
		r := newRequest(method, path)
		r.RawQueryString = query
		return r
	}
	first := claim(`{"claimant":"ann"}`, http.StatusCreated)
	second := claim(`{"claimant":"ann","slot":2}`, http.StatusCreated)
	if first.text("item") == second.text("item") || second.Headers["Location"] != tickets+"/ann?slot=2" {
		t.Errorf("got %s, and then %s at %s", first.Body, second.Body, second.Headers["Location"])
	}
	for body, want := range map[string]answer{
		`{"claimant":"ann"}`: first, `{"slot":1,"claimant":"ann"}`: first, `{"slot":2,"claimant":"ann"}`: second,
		`{"claimant":"ann","slot":1.0}`: first, `{"claimant":"ann","slot":20e-1}`: second,
	} {
		if again := claim(body, http.StatusOK); again.text("claim_id") != want.text("claim_id") {
			t.Errorf("%s: want %s, got %s", body, want.Body, again.Body)
		}
	}
	for query, want := range map[string]answer{"": first, "slot=1": first, "slot=2": second} {
		if got := b.do(t, at(http.MethodGet, tickets+"/ann", query)).wants(t, http.StatusOK, ""); got.text("claim_id") != want.text("claim_id") {
			t.Errorf("%s: want %s, got %s", query, want.Body, got.Body)
		}
	}
	b.do(t, at(http.MethodGet, tickets+"/ann", "slot=3")).wants(t, http.StatusNotFound, "no-claim")
	for _, query := range []string{"slot=4", "slot=0", "slot=01", "slot=+1", "slot=two", "slot=1&slot=2", "slot=99999999999999999999"} {
		b.do(t, at(http.MethodGet, tickets+"/ann", query)).wants(t, http.StatusBadRequest, "invalid-request")
	}
	for _, slot := range []string{"4", "0", "-1", `"2"`, "1.5", "1e99", "1e999", "null", "[1]", "true"} {
		b.do(t, post(tickets, `{"claimant":"ann","slot":`+slot+`}`)).wants(t, http.StatusBadRequest, "invalid-request")
	}
	b.do(t, post("/campaigns/spring/claims", `{"claimant":"ann","slot":2}`)).wants(t, http.StatusBadRequest, "invalid-request")

	id := second.text("claim_id")
	b.do(t, post(tickets+"/ann/confirmation", `{"claim_id":"`+id+`"}`)).wants(t, http.StatusConflict, "claim-ended")
	b.do(t, post(tickets+"/ann/confirmation", `{"claim_id":"`+id+`","slot":2}`)).wants(t, http.StatusOK, "")
	b.do(t, at(http.MethodDelete, tickets+"/ann", "slot=2&claim_id="+id)).wants(t, http.StatusConflict, "claim-confirmed")
	b.released(t, at(http.MethodDelete, tickets+"/ann", "claim_id="+first.text("claim_id")))
	b.do(t, at(http.MethodGet, tickets+"/ann", "")).wants(t, http.StatusNotFound, "no-claim")
}
