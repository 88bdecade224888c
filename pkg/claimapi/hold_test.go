package claimapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

const (
	seats      = "/campaigns/seats"
	seatClaims = seats + "/claims"
)

// newHoldBench has the campaign seats with holds, and the campaign spring without.
func newHoldBench(t testing.TB, from string, items ...string) *bench {
	t.Helper()
	b := newBench(t, from, "SPRING-1")
	b.campaign(t, "seats", itembank.Settings{Hold: time.Hour, MaxHold: 2 * time.Hour}, items...)
	return b
}

// hold claims in the campaign seats, for the caller or for the claimant in the body.
func (b *bench) hold(t testing.TB, r request) (claimID string) {
	t.Helper()
	a := b.do(t, r).wants(t, http.StatusCreated, "")
	if a.text("ends_at") == "" {
		t.Fatalf("the claim is no hold: %s", a.Body)
	}
	return a.text("claim_id")
}

func named(claimant string) string { return fmt.Sprintf(`{"claimant":%q}`, claimant) }

func confirm(claimant, id string) request {
	return post(seatClaims+"/"+claimant+"/confirmation", fmt.Sprintf(`{"claim_id":%q}`, id))
}

// farEnd is the end of no hold.
const farEnd = "2099-01-01T00:00:00.000Z"

func prolong(claimant, id, endsAt string) request {
	return post(seatClaims+"/"+claimant+"/prolongation", fmt.Sprintf(`{"claim_id":%q,"ends_at":%q}`, id, endsAt))
}

func release(claimant, id string) request {
	r := newRequest(http.MethodDelete, seatClaims+"/"+claimant)
	r.RawQueryString = "claim_id=" + id
	return r
}

// released gives a request to the handler, which must answer 204 without a body.
func (b *bench) released(t testing.TB, r request) {
	t.Helper()
	got, err := b.Handle(t.Context(), r)
	must(t, err)
	if got.StatusCode != http.StatusNoContent || got.Body != "" || len(got.Headers) != 1 ||
		got.Headers["Cache-Control"] != "no-store" {
		t.Fatalf("answered %+v, want an empty 204", got)
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1", "A-2")
	id := b.hold(t, post(seatClaims, named("team/ann")))
	for range 2 {
		a := b.do(t, confirm("team/ann", id)).wants(t, http.StatusOK, "")
		equal(t, "claim_id", a.text("claim_id"), id)
		equal(t, "claimant", a.text("claimant"), "team/ann")
		equal(t, "ends_at", a.text("ends_at"), "")
		equal(t, "Idempotent-Replayed", a.Headers["Idempotent-Replayed"], "true")
	}
	read := b.do(t, get(seatClaims+"/team/ann")).wants(t, http.StatusOK, "")
	equal(t, "ends_at", read.text("ends_at"), "")
	b.do(t, release("team/ann", id)).wants(t, http.StatusConflict, "claim-confirmed")

	b.do(t, confirm("bob", id)).wants(t, http.StatusNotFound, "no-claim")
	other := b.hold(t, post(seatClaims, named("bob")))
	b.do(t, confirm("bob", id)).wants(t, http.StatusConflict, "claim-ended")
	b.do(t, confirm("bob", other)).wants(t, http.StatusOK, "")
}

// TestProlong: the answer has the end that the hold has then. A repeated request does not prolong the hold again.
func TestProlong(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1", "A-2")
	made := b.do(t, post(seatClaims, named("team/ann"))).wants(t, http.StatusCreated, "")
	id, end := made.text("claim_id"), made.text("ends_at")
	longer := func(endsAt string) string {
		a := b.do(t, prolong("team/ann", id, endsAt)).wants(t, http.StatusOK, "")
		equal(t, "claim_id", a.text("claim_id"), id)
		equal(t, "claimant", a.text("claimant"), "team/ann")
		equal(t, "Idempotent-Replayed", a.Headers["Idempotent-Replayed"], "true")
		equal(t, "ends_at", b.do(t, get(seatClaims+"/team/ann")).text("ends_at"), a.text("ends_at"))
		return a.text("ends_at")
	}
	for longer(end) <= end { // until the clock has moved on by a millisecond
	}
	later := longer(farEnd)
	equal(t, "ends_at", longer(end), later)
	b.do(t, confirm("team/ann", id)).wants(t, http.StatusOK, "")
	equal(t, "ends_at of a confirmed hold", longer(later), "")

	b.do(t, prolong("bob", id, end)).wants(t, http.StatusNotFound, "no-claim")
	b.hold(t, post(seatClaims, named("bob")))
	b.do(t, prolong("bob", id, end)).wants(t, http.StatusConflict, "claim-ended")
}

// TestProlongationsAreChecked: the body needs the id and the end of the hold.
func TestProlongationsAreChecked(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1")
	id := b.hold(t, post(seatClaims, named("ann")))
	for body, pointer := range map[string]string{
		``: "/claim_id", `{"ends_at":"` + farEnd + `"}`: "/claim_id",
		`{"claim_id":"` + id + `"}`:                                           "/ends_at",
		`{"claim_id":"` + id + `","ends_at":""}`:                              "/ends_at",
		`{"claim_id":"` + id + `","ends_at":1}`:                               "/ends_at",
		`{"claim_id":"` + id + `","ends_at":"tomorrow"}`:                      "/ends_at",
		`{"claim_id":"` + id + `","ends_at":"2099-01-01"}`:                    "/ends_at",
		`{"claim_id":"` + id + `","ends_at":"` + farEnd + `","hold":"1h"}`:    "/hold",
		`{"claim_id":"` + id + `","ends_at":"` + farEnd + `","slot":2}`:       "/slot",
		`{"claim_id":"` + id + `","ends_at":"0001-01-01T00:00:00Z","slot":1}`: "/ends_at",
	} {
		a := b.do(t, post(seatClaims+"/ann/prolongation", body)).wants(t, http.StatusBadRequest, "invalid-request")
		equal(t, "pointers for "+body, a.pointers(), pointer)
	}
	b.campaign(t, "short", itembank.Settings{Hold: time.Hour}, "B-1")
	short := strings.Replace(seatClaims, "seats", "short", 1)
	made := b.do(t, post(short, named("ann"))).wants(t, http.StatusCreated, "")
	body := fmt.Sprintf(`{"claim_id":%q,"ends_at":%q}`, made.text("claim_id"), made.text("ends_at"))
	a := b.do(t, post(short+"/ann/prolongation", body)).wants(t, http.StatusBadRequest, "invalid-request")
	equal(t, "pointers", a.pointers(), "/campaign")
}

func TestReleaseOfAHold(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1")
	id := b.hold(t, post(seatClaims, named("team/ann")))
	b.released(t, release("team/ann", "another"))
	b.do(t, get(seatClaims+"/team/ann")).wants(t, http.StatusOK, "")
	b.released(t, release("team/ann", id))
	b.do(t, get(seatClaims+"/team/ann")).wants(t, http.StatusNotFound, "no-claim")
	b.released(t, release("team/ann", id))

	bobs := b.hold(t, post(seatClaims, named("bob")))
	b.released(t, release("bob", id))
	equal(t, "claim of bob", b.do(t, get(seatClaims+"/bob")).text("claim_id"), bobs)
}

// TestHoldsNeedACampaignWithHolds: in other campaigns, repeated claims and releases could empty a bank of codes.
func TestHoldsNeedACampaignWithHolds(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body")
	id := b.do(t, post(spring, named("ann"))).wants(t, http.StatusCreated, "").text("claim_id")
	confirmation := post(spring+"/ann/confirmation", fmt.Sprintf(`{"claim_id":%q}`, id))
	deletion := newRequest(http.MethodDelete, spring+"/ann")
	deletion.RawQueryString = "claim_id=" + id
	prolongation := post(spring+"/ann/prolongation", fmt.Sprintf(`{"claim_id":%q,"ends_at":%q}`, id, farEnd))
	for _, r := range []request{confirmation, deletion, prolongation} {
		a := b.do(t, r).wants(t, http.StatusBadRequest, "invalid-request")
		equal(t, "pointers", a.pointers(), "/campaign")
	}
	b.do(t, get(spring+"/ann")).wants(t, http.StatusOK, "")
	missing := post("/campaigns/autumn/claims/ann/confirmation", `{"claim_id":"1"}`)
	b.do(t, missing).wants(t, http.StatusNotFound, "no-such-campaign")
}

func TestClaimIDs(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1")
	id := b.hold(t, post(seatClaims, named("ann")))
	for body, pointer := range map[string]string{
		``: "/claim_id", `{}`: "/claim_id", `{"claim_id":""}`: "/claim_id", `{"claim_id":null}`: "/claim_id", `{"claim_id":1}`: "/claim_id",
		`{"claim_id":"` + id + `","claim_id":"` + id + `"}`: "/claim_id",
		`{"Claim_id":"` + id + `"}`:                         "/Claim_id",
		`{"claimant":"bob","claim_id":"` + id + `"}`:        "/claimant",
	} {
		a := b.do(t, post(seatClaims+"/ann/confirmation", body)).wants(t, http.StatusBadRequest, "invalid-request")
		equal(t, "pointers for "+body, a.pointers(), pointer)
	}
	for _, query := range []string{"", "claim_id", "claim_id=", "Claim_id=" + id, "claim_id=" + id + "&claim_id=" + id, "%", "a;b"} {
		r := release("ann", "")
		r.RawQueryString = query
		a := b.do(t, r).wants(t, http.StatusBadRequest, "invalid-request")
		equal(t, "pointers for "+query, a.pointers(), "/claim_id")
	}
	text := confirm("ann", id)
	text.Headers = map[string]string{"content-type": "text/plain"}
	b.do(t, text).wants(t, http.StatusUnsupportedMediaType, "not-json")
	equal(t, "claimant", b.do(t, confirm("ann", id)).wants(t, http.StatusOK, "").text("claimant"), "ann")
}

// TestWhoMayConfirm: customers may release and prolong their own holds. They may confirm them only if the settings allow it.
func TestWhoMayConfirm(t *testing.T) {
	t.Parallel()
	const user = "arn:aws:iam::123456789012:user/ann"
	for _, c := range []struct {
		from, claimant string
		by             func(request) request
	}{
		{"jwt:sub", "ann", func(r request) request { return withSub(r, "ann") }},
		{"iam", user, func(r request) request { return withARN(r, user) }},
	} {
		b := newHoldBench(t, c.from, "A-1")
		id := b.hold(t, c.by(post(seatClaims, "")))
		for _, name := range []string{"me", c.claimant} {
			b.do(t, c.by(confirm(name, id))).wants(t, http.StatusForbidden, "may-not-confirm")
		}
		for _, name := range []string{"me", c.claimant} {
			b.do(t, c.by(prolong(name, id, farEnd))).wants(t, http.StatusOK, "")
		}
		for _, r := range []request{confirm("bob", id), release("bob", id), prolong("bob", id, farEnd)} {
			b.do(t, c.by(r)).wants(t, http.StatusForbidden, "not-your-claim")
			b.do(t, r).wants(t, http.StatusUnauthorized, "unauthenticated")
		}
		b.released(t, c.by(release("me", id)))

		from, err := claimapi.ParseClaimantFrom(c.from)
		must(t, err)
		b.Handler = claimapi.New(b.bank.Bank, from, discard(), claimapi.WithClaimantsConfirm(true))
		id = b.hold(t, c.by(post(seatClaims, "")))
		b.do(t, c.by(confirm("bob", id))).wants(t, http.StatusForbidden, "not-your-claim")
		b.do(t, c.by(confirm("me", id))).wants(t, http.StatusOK, "")
	}
}

// TestAnyCallerMayNotConfirm: where every visitor may name any claimant, a visitor would confirm without paying.
func TestAnyCallerMayNotConfirm(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1")
	id := b.hold(t, post(seatClaims, named("ann")))
	from, err := claimapi.ParseClaimantFrom("body")
	must(t, err)
	b.Handler = claimapi.New(b.bank.Bank, from, discard(), claimapi.WithAnyCaller(true))
	body := strings.NewReader(`{"claim_id":"` + id + `"}`)
	serve(t, b, http.MethodPost, seatClaims+"/ann/confirmation", body).wants(t, http.StatusForbidden, "may-not-confirm")
	b.do(t, confirm("ann", id)).wants(t, http.StatusForbidden, "may-not-confirm") // also with an IAM identity
	b.Handler = claimapi.New(b.bank.Bank, from, discard(), claimapi.WithAnyCaller(true), claimapi.WithClaimantsConfirm(true))
	b.do(t, confirm("ann", id)).wants(t, http.StatusOK, "")
}

// TestHoldsOverHTTP goes through a server of net/http, where the claimant is percent-encoded.
func TestHoldsOverHTTP(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1")
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	id := b.hold(t, post(seatClaims, named("team/ann%")))
	for range 2 {
		url := server.URL + seatClaims + "/team%2Fann%25?claim_id=" + id
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
		must(t, err)
		answer, err := server.Client().Do(r)
		must(t, err)
		must(t, answer.Body.Close())
		equal(t, "status", answer.StatusCode, http.StatusNoContent)
		equal(t, "content type", answer.Header.Get("Content-Type"), "")
	}
	b.do(t, get(seatClaims+"/team/ann%")).wants(t, http.StatusNotFound, "no-claim")
}

// TestInvokeOfARelease: API Gateway can read an answer without a body.
func TestInvokeOfARelease(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1")
	id := b.hold(t, post(seatClaims, named("ann")))
	event, err := json.Marshal(withARN(release("ann", id), backEnd))
	must(t, err)
	raw, err := b.Invoke(t.Context(), event)
	must(t, err)
	var answer map[string]any
	must(t, json.Unmarshal(raw, &answer))
	equal(t, "status", answer["statusCode"], any(204.0))
	equal(t, "body", answer["body"], any(""))
}
