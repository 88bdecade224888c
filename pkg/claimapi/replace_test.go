package claimapi_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/openapitest"
	"github.com/oncebox/oncebox/pkg/claimapi"
)

// replaceRequest asks for another item for a claim of the campaign spring.
func replaceRequest(claimant, id string) request {
	return post(spring+"/"+claimant+"/replacement", fmt.Sprintf(`{"claim_id":%q}`, id))
}

// TestReplace: a back end gets another item for its customer, once for a claim, or the customer keeps the claim.
func TestReplace(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1", "SPRING-2")
	raw, err := os.ReadFile("openapi.json")
	must(t, err)
	document, err := openapitest.Parse(raw)
	must(t, err)
	do := func(r request) answer {
		t.Helper()
		a := b.do(t, r)
		must(t, document.Check(openapitest.Answer{
			Operation: "POST /campaigns/{campaign}/claims/{claimant}/replacement",
			Status:    a.StatusCode, Headers: a.Headers, Body: a.Body,
		}))
		return a
	}
	old := b.do(t, post(spring, named("team/ann"))).wants(t, http.StatusCreated, "")
	id := old.text("claim_id")
	do(replaceRequest("bob", id)).wants(t, http.StatusNotFound, "no-claim")
	do(replaceRequest("team/ann", "another")).wants(t, http.StatusConflict, "claim-ended")
	do(replaceRequest("team/ann", "")).wants(t, http.StatusBadRequest, "invalid-request")
	do(post(spring+"/team/ann/replacement", `{"claim_id":"x","item":"SPRING-2"}`)).wants(t, http.StatusBadRequest, "invalid-request")

	next := do(inStage(post("/prod"+spring+"/team/ann/replacement", fmt.Sprintf(`{"claim_id":%q}`, id)), "prod")).wants(t, http.StatusCreated, "")
	equal(t, "Location", next.Headers["Location"], "/prod"+spring+"/team%2Fann")
	if next.text("item") == old.text("item") || !strings.HasPrefix(next.text("claim_id"), id+".") {
		t.Errorf("%s was replaced by %s", old.Body, next.Body)
	}
	again := do(replaceRequest("team/ann", id)).wants(t, http.StatusOK, "")
	equal(t, "Idempotent-Replayed", again.Headers["Idempotent-Replayed"], "true")
	equal(t, "claim_id", again.text("claim_id"), next.text("claim_id"))

	do(replaceRequest("team/ann", next.text("claim_id"))).wants(t, http.StatusConflict, "sold-out")
	equal(t, "item", b.do(t, get(spring+"/team/ann")).text("item"), next.text("item"))
	must(t, b.bank.CloseCampaign(t.Context(), "spring"))
	do(replaceRequest("team/ann", next.text("claim_id"))).wants(t, http.StatusConflict, "closed")
	do(replaceRequest("team/ann", id)).wants(t, http.StatusOK, "")
}

func source(t *testing.T, from string) claimapi.ClaimantFrom {
	t.Helper()
	s, err := claimapi.ParseClaimantFrom(from)
	must(t, err)
	return s
}

// TestWhoMayReplace: no customer may, also where customers may confirm, and no caller of an API that is open to all.
func TestWhoMayReplace(t *testing.T) {
	t.Parallel()
	const user = "arn:aws:iam::123456789012:user/ann"
	for _, c := range []struct {
		from string
		by   func(request) request
	}{
		{"jwt:sub", func(r request) request { return withSub(r, "ann") }},
		{"iam", func(r request) request { return withARN(r, user) }},
		{"body", func(r request) request { return r }},
	} {
		b := newBench(t, c.from, "SPRING-1", "SPRING-2")
		b.Handler = claimapi.New(b.bank.Bank, source(t, c.from), discard(),
			claimapi.WithClaimantsConfirm(true), claimapi.WithAnyCaller(c.from == "body"))
		body := ""
		if c.from == "body" {
			body = named("me")
		}
		id := b.do(t, c.by(post(spring, body))).wants(t, http.StatusCreated, "").text("claim_id")
		b.do(t, c.by(replaceRequest("me", id))).wants(t, http.StatusForbidden, "may-not-replace")
		if c.from != "body" {
			b.do(t, c.by(replaceRequest("bob", id))).wants(t, http.StatusForbidden, "not-your-claim")
			b.do(t, replaceRequest("me", id)).wants(t, http.StatusUnauthorized, "unauthenticated")
		}
		equal(t, "claim_id", b.do(t, c.by(get(spring+"/me"))).text("claim_id"), id)
	}
}
