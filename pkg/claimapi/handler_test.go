package claimapi_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

const spring = "/campaigns/spring/claims"

func TestClaimIsCreatedThenReplayed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1", "SPRING-2")

	first := b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusCreated, "")
	equal(t, "Location", first.Headers["Location"], spring+"/ada")
	equal(t, "Idempotent-Replayed", first.Headers["Idempotent-Replayed"], "")
	equal(t, "replayed", first.members["replayed"], any(false))

	again := b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusOK, "")
	looked := b.do(t, get(spring+"/ada")).wants(t, http.StatusOK, "")
	for _, a := range []answer{again, looked} {
		equal(t, "Location", a.Headers["Location"], "")
		equal(t, "Idempotent-Replayed", a.Headers["Idempotent-Replayed"], "true")
		equal(t, "replayed", a.members["replayed"], any(true))
		for _, member := range []string{"campaign", "claimant", "claim_id", "item", "claimed_at"} {
			equal(t, member, a.text(member), first.text(member))
		}
	}
}

func TestClaimBodyHasTheMembersOfTheContract(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "a<b>&\"c\" d")
	before := time.Now().Add(-time.Second)

	a := b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusCreated, "")
	equal(t, "members", len(a.members), 6) // ends_at is absent: claims do not end here
	equal(t, "campaign", a.text("campaign"), "spring")
	equal(t, "claimant", a.text("claimant"), "ada")
	equal(t, "item", a.text("item"), `a<b>&"c" d`)
	if !strings.Contains(a.Body, `a<b>&\"c\" d`) {
		t.Errorf("the item is not shown as it was loaded: %s", a.Body)
	}
	if !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(a.text("claim_id")) {
		t.Errorf("claim_id is %q", a.text("claim_id"))
	}
	at := a.text("claimed_at")
	if !regexp.MustCompile(`T\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) || parseTime(t, at).Before(before) {
		t.Errorf("claimed_at is %q, want UTC and milliseconds", at)
	}
	equal(t, "content type", a.Headers["Content-Type"], "application/json")
	equal(t, "Cache-Control", a.Headers["Cache-Control"], "no-store")
}

// TestLocationLeadsToTheClaim follows the Location as a client and API Gateway do: the client sends it unchanged, and
// the gateway decodes it.
func TestLocationLeadsToTheClaim(t *testing.T) {
	t.Parallel()
	claimants := []string{"ada", "team/ann", "50%41", "Zoë Ångström", "a+b&c=d", "arn:aws:iam::1:user/x", "#1", "日本"}
	b := newBench(t, "body", claimants...) // the claimants serve as items, too
	for i, claimant := range claimants {
		stage := []string{"$default", "prod"}[i%2]
		base := []string{spring, "/prod" + spring}[i%2]
		made := b.do(t, inStage(post(base, `{"claimant":"`+claimant+`"}`), stage)).wants(t, http.StatusCreated, "")
		location, err := url.Parse(made.Headers["Location"])
		must(t, err)
		equal(t, "host", location.Host+location.RawQuery+location.Fragment, "")
		found := b.do(t, inStage(get(location.Path), stage)).wants(t, http.StatusOK, "")
		equal(t, "item of "+claimant, found.text("item"), made.text("item"))
	}
}

func inStage(r request, stage string) request {
	r.RequestContext.Stage = stage
	return r
}

func TestAHolderIsAnsweredBeforeEveryRule(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusCreated, "")
	b.do(t, post(spring, `{"claimant":"bob"}`)).wants(t, http.StatusConflict, "sold-out")
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusOK, "")

	must(t, b.bank.CloseCampaign(t.Context(), "spring"))
	b.do(t, post(spring, `{"claimant":"bob"}`)).wants(t, http.StatusConflict, "closed")
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusOK, "")
	b.do(t, get(spring+"/ada")).wants(t, http.StatusOK, "")
}

func TestCampaignState(t *testing.T) {
	t.Parallel()
	b := newBench(t, "jwt:sub", "SPRING-1")
	opens := time.Date(2099, 4, 1, 9, 0, 0, 0, time.FixedZone("CEST", 2*60*60))
	b.campaign(t, "later", itembank.Settings{OpensAt: opens, ClosesAt: opens.Add(time.Hour)})
	b.campaign(t, "autumn-1", itembank.Settings{})

	a := b.do(t, get("/campaigns/spring")).wants(t, http.StatusOK, "")
	equal(t, "body", a.Body, `{"campaign":"spring","state":"open"}`)
	a = b.do(t, get("/campaigns/later")).wants(t, http.StatusOK, "")
	equal(t, "body", a.Body, `{"campaign":"later","state":"scheduled","opens_at":"2099-04-01T07:00:00.000Z","closes_at":"2099-04-01T08:00:00.000Z"}`)
	b.do(t, withSub(post(spring, ""), "ada")).wants(t, http.StatusCreated, "")
	a = b.do(t, get("/campaigns/spring")).wants(t, http.StatusOK, "")
	equal(t, "state", a.text("state"), "sold_out")
	a = b.do(t, get("/campaigns/autumn-1")).wants(t, http.StatusOK, "")
	equal(t, "body", a.Body, `{"campaign":"autumn-1","state":"empty"}`)
	b.do(t, withSub(post("/campaigns/autumn-1/claims", ""), "ada")).wants(t, http.StatusConflict, "sold-out")
	must(t, b.bank.CloseCampaign(t.Context(), "spring"))
	a = b.do(t, get("/campaigns/spring")).wants(t, http.StatusOK, "")
	equal(t, "state", a.text("state"), "closed")
	b.do(t, get("/campaigns/autumn")).wants(t, http.StatusNotFound, "no-such-campaign")
	a = b.do(t, get("/campaigns/Autumn")).wants(t, http.StatusBadRequest, "invalid-request")
	equal(t, "pointers", a.pointers(), "/campaign")
}

func TestClaimedElsewhereNamesTheCampaignOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body")
	shared := itembank.Settings{Scope: "workshops"}
	b.campaign(t, "morning", shared, "MORNING-1")
	b.campaign(t, "evening", shared, "EVENING-1")
	b.do(t, post("/campaigns/morning/claims", `{"claimant":"ada"}`)).wants(t, http.StatusCreated, "")

	evening := post("/campaigns/evening/claims", `{"claimant":"ada"}`)
	a := b.do(t, evening).wants(t, http.StatusConflict, "claimed-elsewhere")
	equal(t, "campaign", a.text("campaign"), "morning")
	if strings.Contains(a.Body, "MORNING-1") {
		t.Errorf("the item of the other campaign is shown: %s", a.Body)
	}
	b.do(t, get("/campaigns/evening/claims/ada")).wants(t, http.StatusNotFound, "no-claim")
}

func TestOneLogLinePerRequestWithoutClaimantAndItem(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SECRET-ITEM")
	b.do(t, post(spring, `{"claimant":"secret-ada"}`))
	b.do(t, post(spring, `{"claimant":"secret-ada"}`))
	b.do(t, get(spring+"/secret-bob"))
	b.do(t, get("/campaigns/secret_bob"))
	b.do(t, get("/secret-bob"))
	b.do(t, newRequest(http.MethodPut, spring+"/secret-bob"))

	claimRoute, heldRoute := "POST /campaigns/{campaign}/claims", "GET /campaigns/{campaign}/claims/{claimant}"
	want := []struct {
		method, route, slug, campaign string
		status                        float64
		replayed                      bool
	}{
		{"POST", claimRoute, "", "spring", 201, false},
		{"POST", claimRoute, "", "spring", 200, true},
		{"GET", heldRoute, "no-claim", "spring", 404, false},
		{"GET", "GET /campaigns/{campaign}", "invalid-request", "", 400, false},
		{"GET", "", "no-such-route", "", 404, false},
		{"PUT", "", "method-not-allowed", "", 405, false},
	}
	lines := b.lines(t)
	equal(t, "lines", len(lines), len(want))
	for i, w := range want {
		for name, value := range map[string]any{
			"level": "INFO", "msg": "request", "method": w.method, "route": w.route, "slug": w.slug,
			"campaign": w.campaign, "status": w.status, "replayed": w.replayed, "request_id": "request-1",
		} {
			equal(t, name, lines[i][name], value)
		}
		if ms, ok := lines[i]["duration_ms"].(float64); !ok || ms < 0 {
			t.Errorf("duration_ms is %v", lines[i]["duration_ms"])
		}
	}
	if strings.Contains(strings.ToLower(b.log.String()), "secret") {
		t.Errorf("the log holds a claimant or an item:\n%s", b.log)
	}
}
