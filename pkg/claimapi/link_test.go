package claimapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// linkBench is a bench whose claimants come from links. Its links expire in an hour.
type linkBench struct {
	*bench
	key   *claimlink.PrivateKey
	reads *atomic.Int64 // of campaign rows
}

func newLinkBench(t testing.TB, items ...string) linkBench {
	t.Helper()
	b := newBench(t, "link", items...)
	key, err := claimlink.NewKey()
	must(t, err)
	l := linkBench{b, key, &atomic.Int64{}}
	l.handle(t)
	return l
}

// handle replaces the handler by a handler with these options.
func (b linkBench) handle(t testing.TB, options ...claimapi.Option) {
	t.Helper()
	public, err := b.key.Public()
	must(t, err)
	keys, err := claimlink.ParseKeys(public)
	must(t, err)
	from, err := claimapi.ParseClaimantFrom("link")
	must(t, err)
	store := campaignReads{b.store, b.reads}
	b.Handler = claimapi.New(itembank.New(store), from, slog.New(slog.NewJSONHandler(b.log, nil)),
		append(options, claimapi.WithLinkKeys(keys))...)
	b.SetNow(func() time.Time { return linkTime })
}

var linkTime = time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)

// campaignReads counts the reads of campaign rows.
type campaignReads struct {
	engine.Store
	count *atomic.Int64
}

func (r campaignReads) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	r.count.Add(1)
	return r.Store.Campaign(ctx, name)
}

func (b linkBench) sign(t testing.TB, c claimlink.Claims) string {
	t.Helper()
	if c.Expires.IsZero() {
		c.Expires = linkTime.Add(time.Hour)
	}
	token, err := b.key.Sign(c)
	must(t, err)
	return token
}

func withToken(r request, token string) request {
	return withHeader(r, "authorization", "Bearer "+token)
}

func withHeader(r request, name, value string) request {
	headers := map[string]string{name: value}
	for n, v := range r.Headers {
		headers[n] = v
	}
	r.Headers = headers
	return r
}

func TestLinkOfACampaign(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t, "SPRING-1", "SPRING-2")
	b.campaign(t, "summer", itembank.Settings{Scope: "spring"}, "SUMMER-1") // a scope of the campaign's name
	token := b.sign(t, claimlink.Claims{Claimant: "ann", Campaign: "spring"})

	made := b.do(t, withToken(post(spring, ""), token)).wants(t, http.StatusCreated, "")
	equal(t, "claimant", made.text("claimant"), "ann")
	for _, r := range []request{
		post(spring, ""), post(spring, `{"claimant":"ann"}`), get(spring + "/me"), get(spring + "/ann"),
	} {
		a := b.do(t, withToken(r, token)).wants(t, http.StatusOK, "")
		equal(t, "item", a.text("item"), made.text("item"))
	}
	for _, name := range []string{"Authorization", "AUTHORIZATION"} {
		b.do(t, withHeader(get(spring+"/me"), name, "bearer "+token)).wants(t, http.StatusOK, "")
	}
	b.do(t, withToken(post(spring, `{"claimant":"bob"}`), token)).wants(t, http.StatusForbidden, "not-your-claim")
	b.do(t, withToken(get(spring+"/bob"), token)).wants(t, http.StatusForbidden, "not-your-claim")
	b.do(t, withToken(post("/campaigns/summer/claims", ""), token)).wants(t, http.StatusForbidden, "other-campaign")
	b.do(t, withToken(post("/campaigns/autumn/claims", ""), token)).wants(t, http.StatusForbidden, "other-campaign")
	b.do(t, withToken(post("/campaigns/Autumn/claims", ""), token)).wants(t, http.StatusBadRequest, "invalid-request")
}

// TestLinkOfAForgottenClaimant: the old link of a claimant who was forgotten gets no second item.
func TestLinkOfAForgottenClaimant(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t, "SPRING-1", "SPRING-2")
	token := b.sign(t, claimlink.Claims{Claimant: "ann", Campaign: "spring"})
	made := b.do(t, withToken(post(spring, ""), token)).wants(t, http.StatusCreated, "")
	if _, err := b.bank.Forget(t.Context(), "spring", "ann", itembank.ForgetOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []request{post(spring, ""), get(spring + "/me"), post(spring, "")} {
		a := b.do(t, withToken(r, token)).wants(t, http.StatusForbidden, "not-eligible")
		equal(t, "campaign", a.text("campaign"), "")
	}
	b.do(t, withToken(deleteClaim("me", made.text("claim_id")), token)).wants(t, http.StatusBadRequest, "invalid-request")
	b.do(t, withToken(post(spring, ""), b.sign(t, claimlink.Claims{Claimant: "bob", Campaign: "spring"}))).wants(t, http.StatusCreated, "")
}

func TestLinkOfAScope(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t, "SPRING-1")
	shared := itembank.Settings{Scope: "workshops"}
	b.campaign(t, "morning", shared, "MORNING-1")
	b.campaign(t, "evening", shared, "EVENING-1")
	b.campaign(t, "workshops", itembank.Settings{Scope: "other"}, "OTHER-1") // a campaign of the scope's name
	token := b.sign(t, claimlink.Claims{Claimant: "ann", Scope: "workshops"})

	b.do(t, withToken(post("/campaigns/morning/claims", ""), token)).wants(t, http.StatusCreated, "")
	b.do(t, withToken(post("/campaigns/evening/claims", ""), token)).wants(t, http.StatusConflict, "claimed-elsewhere")
	for _, campaign := range []string{"spring", "workshops"} {
		b.do(t, withToken(post("/campaigns/"+campaign+"/claims", ""), token)).wants(t, http.StatusForbidden, "other-campaign")
	}
	b.do(t, withToken(post("/campaigns/autumn/claims", ""), token)).wants(t, http.StatusNotFound, "no-such-campaign")
	b.do(t, withToken(post("/campaigns/Autumn/claims", ""), token)).wants(t, http.StatusBadRequest, "invalid-request")

	// A campaign without its own scope has a scope of the same name.
	token = b.sign(t, claimlink.Claims{Claimant: "ann", Scope: "spring"})
	b.do(t, withToken(post(spring, ""), token)).wants(t, http.StatusCreated, "")
}

// TestLinkOfASpelling: a link has the claimant as the file of customers spells it. All spellings that are one
// claimant in the campaign are one customer.
func TestLinkOfASpelling(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t)
	b.campaign(t, "vip", itembank.Settings{ClaimantAs: itembank.Email, PerClaimant: 2, Hold: time.Hour}, "VIP-1", "VIP-2")
	const vip = "/campaigns/vip/claims"
	b.handle(t, claimapi.WithClaimantsConfirm(true))
	first := b.sign(t, claimlink.Claims{Claimant: "Ann@Example.com", Campaign: "vip"})
	second := b.sign(t, claimlink.Claims{Claimant: "ANN@example.com", Scope: "vip"})

	made := b.do(t, withToken(post(vip, ""), first)).wants(t, http.StatusCreated, "")
	equal(t, "claimant", made.text("claimant"), "ann@example.com")
	for _, token := range []string{first, second} {
		for _, r := range []request{
			post(vip, ""), post(vip, `{"claimant":"ann@example.com"}`), get(vip + "/me"), get(vip + "/ann@EXAMPLE.com"),
			post(vip+"/ann@example.com/confirmation", `{"claim_id":"`+made.text("claim_id")+`"}`),
		} {
			a := b.do(t, withToken(r, token)).wants(t, http.StatusOK, "")
			equal(t, "item", a.text("item"), made.text("item"))
		}
		b.do(t, withToken(post(vip, `{"claimant":"bob@example.com"}`), token)).wants(t, http.StatusForbidden, "not-your-claim")
	}
	b.do(t, withToken(post(vip, `{"slot":2}`), second)).wants(t, http.StatusCreated, "")
	b.do(t, withToken(post(vip, `{"slot":2}`), first)).wants(t, http.StatusOK, "")
}

// TestScopeOfALinkCostsNoRead: the scope comes from the Bank's copy of the campaign, which a claim needs in any case.
func TestScopeOfALinkCostsNoRead(t *testing.T) {
	t.Parallel()
	for _, c := range []claimlink.Claims{{Campaign: "spring"}, {Scope: "spring"}} {
		b := newLinkBench(t, "SPRING-1", "SPRING-2")
		for _, claimant := range []string{"ann", "bob"} {
			c.Claimant = claimant
			b.do(t, withToken(post(spring, ""), b.sign(t, c))).wants(t, http.StatusCreated, "")
		}
		equal(t, "reads of the campaign", b.reads.Load(), 1)
	}
}

// TestRefusedLinks also checks that the store is not asked, and that neither the answer nor the log has the token.
func TestRefusedLinks(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t, "SPRING-1")
	ann := claimlink.Claims{Claimant: "ann", Campaign: "spring"}
	good := b.sign(t, ann)
	other, err := claimlink.NewKey()
	must(t, err)
	ann.Expires = linkTime.Add(time.Hour)
	forged, err := other.Sign(ann)
	must(t, err)
	ann.Expires = linkTime
	expired := b.sign(t, ann)
	damaged := b.sign(t, claimlink.Claims{Claimant: "a\ufffd", Campaign: "spring"})

	for name, c := range map[string]struct{ header, slug string }{
		"none":           {"", "unauthenticated"},
		"no scheme":      {good, "unauthenticated"},
		"another scheme": {"Basic " + good, "unauthenticated"},
		"no token":       {"Bearer", "invalid-link"},
		"two tokens":     {"Bearer " + good + ",Bearer " + good, "invalid-link"},
		"cut off":        {"Bearer " + good[:len(good)-3], "invalid-link"},
		"another key":    {"Bearer " + forged, "invalid-link"},
		"oversize":       {"Bearer " + good + strings.Repeat("A", 1<<16), "invalid-link"},
		"expired":        {"Bearer " + expired, "link-expired"},
		"damaged name":   {"Bearer " + damaged, "unauthenticated"},
	} {
		for _, r := range []request{
			post(spring, ""), post(spring, `{"claimant":"ann"}`), get(spring + "/ann"), deleteClaim("ann", "x"),
			post(spring+"/ann/confirmation", `{"claim_id":"x"}`), post(spring+"/ann/prolongation", `{"claim_id":"x"}`),
		} {
			b.log.Reset()
			a := b.do(t, withHeader(r, "authorization", c.header))
			if a.StatusCode != http.StatusUnauthorized || a.slug() != c.slug {
				t.Errorf("%s: answered %d %q, want 401 %q", name, a.StatusCode, a.slug(), c.slug)
			}
			wantNoToken(t, c.header, a.Body+b.log.String())
		}
	}
	equal(t, "reads of the campaign", b.reads.Load(), 0)
}

func deleteClaim(claimant, id string) request {
	r := newRequest(http.MethodDelete, spring+"/"+claimant)
	r.RawQueryString = "claim_id=" + id
	return r
}

// wantNoToken fails if a text has a part of a token, or its claimant.
func wantNoToken(t *testing.T, header, text string) {
	t.Helper()
	for part := range strings.FieldsFuncSeq(header, func(r rune) bool { return strings.ContainsRune(" .,", r) }) {
		if len(part) > len("Bearer") && strings.Contains(text, part) {
			t.Errorf("a part of the token is in %s", text)
		}
	}
	if strings.Contains(text, `"ann"`) {
		t.Errorf("the claimant is in %s", text)
	}
}

// TestNoTokenInTheLog: for every result of a request with a valid link, its log line has neither token nor claimant.
func TestNoTokenInTheLog(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t, "SPRING-1")
	token := b.sign(t, claimlink.Claims{Claimant: "ann", Campaign: "spring"})
	requests := []request{
		post(spring, `{"claimant":"bob"}`), post(spring, ""), get(spring + "/me"), deleteClaim("me", "x"),
		post("/campaigns/summer/claims", ""), get("/campaigns/spring"), get("/nothing"),
	}
	for _, r := range requests {
		b.do(t, withToken(r, token))
	}
	b.store.take = func(context.Context, []engine.FreeItem, engine.Claim) error { return errors.New("the disk is full") }
	b.campaign(t, "summer", itembank.Settings{}, "SUMMER-1")
	summer := b.sign(t, claimlink.Claims{Claimant: "ann", Campaign: "summer"})
	b.do(t, withToken(post("/campaigns/summer/claims", ""), summer)).wants(t, http.StatusInternalServerError, "internal")
	equal(t, "lines", len(b.lines(t)), len(requests)+1)
	wantNoToken(t, "Bearer "+token+","+summer, b.log.String())
}

// TestLinksConfirmOnlyWhereClaimantsMay: otherwise the customer's browser, which has the link, could confirm without
// paying. A link may prolong a hold.
func TestLinksConfirmOnlyWhereClaimantsMay(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t)
	b.campaign(t, "seats", itembank.Settings{Hold: time.Hour, MaxHold: 2 * time.Hour}, "1A", "1B")
	const seats = "/campaigns/seats/claims"
	token := b.sign(t, claimlink.Claims{Claimant: "ann", Campaign: "seats"})
	made := b.do(t, withToken(post(seats, ""), token)).wants(t, http.StatusCreated, "")
	confirm := withToken(post(seats+"/me/confirmation", `{"claim_id":"`+made.text("claim_id")+`"}`), token)

	b.do(t, withToken(prolong("me", made.text("claim_id"), made.text("ends_at")), token)).wants(t, http.StatusOK, "")
	b.do(t, confirm).wants(t, http.StatusForbidden, "may-not-confirm")
	b.handle(t, claimapi.WithClaimantsConfirm(true))
	b.do(t, confirm).wants(t, http.StatusOK, "")
}

func TestLinkOverHTTP(t *testing.T) {
	t.Parallel()
	b := newLinkBench(t, "SPRING-1")
	token := b.sign(t, claimlink.Claims{Claimant: "ann", Campaign: "spring"})
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{nil, http.StatusUnauthorized},
		{[]string{"Bearer " + token}, http.StatusCreated},
		{[]string{"Bearer " + token, "Bearer " + token}, http.StatusUnauthorized},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, spring, http.NoBody)
		r.Header["Authorization"] = c.headers
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		equal(t, "status", w.Code, c.status)
		if !json.Valid(bytes.TrimSpace(w.Body.Bytes())) {
			t.Errorf("body %s", w.Body)
		}
	}
}
