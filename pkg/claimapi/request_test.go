package claimapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	for _, c := range []struct {
		method, stage, path string
		status              int
		slug, allow         string
	}{
		{"GET", "", "/", 404, "no-such-route", ""},
		{"GET", "", "", 404, "no-such-route", ""},
		{"GET", "", "/campaigns", 404, "no-such-route", ""},
		{"GET", "", "/campaigns/", 404, "no-such-route", ""},
		{"GET", "", "/campaigns//claims", 404, "no-such-route", ""},
		{"GET", "", "//campaigns/spring", 404, "no-such-route", ""},
		{"GET", "", "/Campaigns/spring", 404, "no-such-route", ""},
		{"GET", "", "/campaigns/spring/", 404, "no-such-route", ""},
		{"POST", "", "/campaigns/spring/claims/", 404, "no-such-route", ""},
		{"GET", "", "/campaigns/spring/claim", 404, "no-such-route", ""},
		{"GET", "", "/campaigns/spring/claimsada", 404, "no-such-route", ""},
		{"GET", "", "/other/campaigns/spring", 404, "no-such-route", ""},
		{"GET", "", "/campaigns/spring", 200, "", ""},
		{"GET", "$default", "/campaigns/spring", 200, "", ""},
		{"GET", "$default", "/$default/campaigns/spring", 404, "no-such-route", ""},
		{"GET", "prod", "/prod/campaigns/spring", 200, "", ""},
		{"GET", "prod", "/campaigns/spring", 200, "", ""}, // behind a custom domain
		{"GET", "prod", "/prod/prod/campaigns/spring", 404, "no-such-route", ""},
		{"GET", "prod", "/production/campaigns/spring", 404, "no-such-route", ""},
		{"GET", "campaigns", "/campaigns/campaigns/spring", 200, "", ""},
		{"GET", "camp", "/campaigns/spring", 200, "", ""},
		{"GET", "", "/campaigns/spring/claims/ada", 404, "no-claim", ""},
		{"GET", "", "/campaigns/spring/claims/team/ann", 404, "no-claim", ""},
		{"GET", "", "/campaigns/spring/claims//", 404, "no-claim", ""},
		{"GET", "", "/campaigns/spring/claims", 405, "method-not-allowed", "POST"},
		{"get", "", "/campaigns/spring", 405, "method-not-allowed", "GET"},
		{"HEAD", "", "/campaigns/spring", 405, "method-not-allowed", "GET"},
		{"POST", "", "/campaigns/spring", 405, "method-not-allowed", "GET"},
		{"POST", "", "/campaigns/spring/claims/ada", 405, "method-not-allowed", "GET, DELETE"},
		{"POST", "", "/campaigns/spring/claims/confirmation", 405, "method-not-allowed", "GET, DELETE"},
		{"POST", "", "/campaigns/spring/claims//confirmation", 405, "method-not-allowed", "GET, DELETE"},
		{"PUT", "", "/campaigns/spring/claims/ada/confirmation", 405, "method-not-allowed", "POST"},
		{"GET", "", "/campaigns/spring/claims/ada/confirmation", 405, "method-not-allowed", "POST"},
		{"DELETE", "", "/campaigns/spring/claims/a/b/confirmation", 405, "method-not-allowed", "POST"},
		{"GET", "", "/campaigns/spring/claims/ada/prolongation", 405, "method-not-allowed", "POST"},
		{"POST", "", "/campaigns/spring/claims/prolongation", 405, "method-not-allowed", "GET, DELETE"},
		{"POST", "", "/campaigns/spring/claims/ada/confirmation/", 405, "method-not-allowed", "GET, DELETE"},
		{"POST", "", "/campaigns/spring/claims/replacement", 405, "method-not-allowed", "GET, DELETE"},
		{"GET", "", "/campaigns/spring/claims/ada/replacement", 405, "method-not-allowed", "POST"},
		{"", "", "/campaigns/spring/claims", 405, "method-not-allowed", "POST"},
	} {
		a := b.do(t, inStage(newRequest(c.method, c.path), c.stage))
		if a.StatusCode != c.status || a.slug() != c.slug || a.Headers["Allow"] != c.allow {
			t.Errorf("%s %s in stage %q: %d %q, Allow %q; want %d %q, Allow %q",
				c.method, c.path, c.stage, a.StatusCode, a.slug(), a.Headers["Allow"], c.status, c.slug, c.allow)
		}
	}
}

// TestPathIsNotDecodedAgain: API Gateway has already decoded the path, so %41 means these three characters.
func TestPathIsNotDecodedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.do(t, post(spring, `{"claimant":"%41"}`)).wants(t, http.StatusCreated, "")
	b.do(t, get(spring+"/%41")).wants(t, http.StatusOK, "")
	b.do(t, get(spring+"/A")).wants(t, http.StatusNotFound, "no-claim")
}

func TestBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("c", 256)
	for name, c := range map[string]struct {
		body              string
		status            int
		pointer, claimant string
	}{
		"plain":                  {`{"claimant":"ada"}`, 201, "", "ada"},
		"spaces":                 {" \r\n\t{ \"claimant\" : \"ada\" }\n", 201, "", "ada"},
		"all members":            {`{"challenge":"x","slot":1,"claimant":"ada"}`, 201, "", "ada"},
		"other member":           {`{"a":{"claimant":1,"b":[{}]},"claimant":"ada"}`, 400, "/a", ""},
		"other member, escaped":  {`{"claimant":"ada","\u0049~/\n":1e999}`, 400, "/I~0~1\n", ""},
		"member without a name":  {`{"claimant":"ada","":1}`, 400, "", ""},
		"misspelt items":         {`{"claimant":"ada","Items":["1A"]}`, 400, "/Items", ""},
		"escapes":                {`{"\u0063laimant":"\u0061\u0064\u0061"}`, 201, "", "ada"},
		"surrogate pair":         {`{"claimant":"\ud83d\ude00"}`, 201, "", "😀"},
		"longest":                {`{"claimant":"` + long + `"}`, 201, "", long},
		"bad text elsewhere":     {`{"challenge":"\ud800","claimant":"ada"}`, 201, "", "ada"},
		"empty":                  {``, 400, "/claimant", ""},
		"space only":             {` `, 400, "", ""},
		"object without it":      {`{}`, 400, "/claimant", ""},
		"other case":             {`{"Claimant":"ada"}`, 400, "/Claimant", ""},
		"only deeper":            {`{"a":{"claimant":"ada"}}`, 400, "/a", ""},
		"number":                 {`{"claimant":1}`, 400, "/claimant", ""},
		"null":                   {`{"claimant":null}`, 400, "/claimant", ""},
		"array":                  {`{"claimant":["ada"]}`, 400, "/claimant", ""},
		"empty claimant":         {`{"claimant":""}`, 400, "/claimant", ""},
		"too long":               {`{"claimant":"` + long + `c"}`, 400, "/claimant", ""},
		"control character":      {`{"claimant":"a\u0000"}`, 400, "/claimant", ""},
		"C1 control character":   {"{\"claimant\":\"a\u0085\"}", 400, "/claimant", ""},
		"twice":                  {`{"claimant":"ada","claimant":"bob"}`, 400, "/claimant", ""},
		"twice the same":         {`{"claimant":"ada","\u0063laimant":"ada"}`, 400, "/claimant", ""},
		"high surrogate":         {`{"claimant":"a\ud800"}`, 400, "/claimant", ""},
		"low surrogate":          {`{"claimant":"a\udc00b"}`, 400, "/claimant", ""},
		"swapped surrogates":     {`{"claimant":"\ude00\ud83d"}`, 400, "/claimant", ""},
		"replacement character":  {"{\"claimant\":\"jos\ufffd\"}", 400, "/claimant", ""},
		"question mark":          {`{"claimant":"ada?x"}`, 400, "/claimant", ""},
		"path of a confirmation": {`{"claimant":"ada/confirmation"}`, 400, "/claimant", ""},
		"path of a prolongation": {`{"claimant":"ada/prolongation"}`, 400, "/claimant", ""},
		"path of a replacement":  {`{"claimant":"ada/replacement"}`, 400, "/claimant", ""},
		"other punctuation":      {`{"claimant":"#a%b+c;d&/e=@"}`, 201, "", "#a%b+c;d&/e=@"},
		"bad UTF-8":              {"{\"claimant\":\"jos\xe9\"}", 400, "", ""},
		"bad UTF-8 elsewhere":    {"{\"claimant\":\"ada\",\"note\":\"\xff\"}", 400, "", ""},
		"byte order mark":        {"\ufeff{\"claimant\":\"ada\"}", 400, "", ""},
		"raw control character":  {"{\"claimant\":\"a\x01\"}", 400, "", ""},
		"cut":                    {`{"claimant":"ada"`, 400, "", ""},
		"trailing brace":         {`{"claimant":"ada"}}`, 400, "", ""},
		"second value":           {`{"claimant":"ada"}{"claimant":"bob"}`, 400, "", ""},
		"string":                 {`"ada"`, 400, "", ""},
		"array of objects":       {`[{"claimant":"ada"}]`, 400, "", ""},
		"null document":          {`null`, 400, "", ""},
		"single quotes":          {`{'claimant':'ada'}`, 400, "", ""},
		"largest":                {`{"claimant":"ada"}` + strings.Repeat(" ", (16<<10)-18), 201, "", "ada"},
		"too large":              {`{"claimant":"ada"}` + strings.Repeat(" ", (16<<10)+1-18), 413, "", ""},
		"too large and not JSON": {strings.Repeat("x", (16<<10)+1), 413, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "body", "SPRING-1")
			for _, r := range []request{postBase64(spring, []byte(c.body)), post(spring, c.body)} {
				a := b.do(t, r)
				want := c.status
				if want == 201 && r.Body == c.body {
					want = 200 // the second time
				}
				equal(t, "status", a.StatusCode, want)
				equal(t, "pointers", a.pointers(), c.pointer)
				equal(t, "claimant", a.text("claimant"), c.claimant)
			}
		})
	}
}

// TestUnknownMembersAreNamed: the answer names the closest member, or all that the body may have.
func TestUnknownMembersAreNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	for body, want := range map[string]string{
		`{"claimant":"ada","Items":["1A"]}`: `did you mean \"items\"?`,
		`{"claimant":"ada","row":1}`:        "it may have claimant, slot, item, items, challenge",
	} {
		a := b.do(t, post(spring, body)).wants(t, http.StatusBadRequest, "invalid-request")
		if !strings.Contains(a.Body, want) {
			t.Errorf("%s: want %s in %s", body, want, a.Body)
		}
	}
	b.do(t, get(spring+"/ada")).wants(t, http.StatusNotFound, "no-claim")
}

func TestBadBase64(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	for _, body := range []string{"e30", "{}", "e30=e30=", "_-8="} {
		r := post(spring, body)
		r.IsBase64Encoded = true
		a := b.do(t, r).wants(t, http.StatusBadRequest, "invalid-request")
		equal(t, "pointers", a.pointers(), "")
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusCreated, "")
	for header, status := range map[string]int{
		"content-type: application/json":                    200,
		"Content-Type: application/json":                    200,
		"CONTENT-TYPE: Application/JSON ;charset=\"utf-8\"": 200,
		"content-type: application/json; charset":           200,
		"content-type: application/merge-patch+json":        415,
		"content-type: application/jsonp":                   415,
		"content-type: text/json":                           415,
		"content-type: text/plain, application/json":        415,
		"content-type: ":                                    415,
		"accept: application/json":                          415,
	} {
		name, value, _ := strings.Cut(header, ": ")
		r := post(spring, `{"claimant":"ada"}`)
		r.Headers = map[string]string{name: value}
		slug := map[int]string{415: "not-json"}[status]
		if a := b.do(t, r); a.StatusCode != status || a.slug() != slug {
			t.Errorf("%s: %d %q, want %d", header, a.StatusCode, a.slug(), status)
		}
	}
}

func TestIdentities(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:iam::123456789012:user/ada"
	named := func(claimant string) string { return fmt.Sprintf(`{"claimant":%q}`, claimant) }
	for name, c := range map[string]struct {
		from     string
		request  request
		status   int
		slug     string
		claimant string
	}{
		"jwt, no body":           {"jwt:sub", withSub(post(spring, ""), "ada"), 201, "", "ada"},
		"jwt, empty object":      {"jwt:sub", withSub(post(spring, "{}"), "ada"), 201, "", "ada"},
		"jwt, own name":          {"jwt:sub", withSub(post(spring, named("ada")), "ada"), 201, "", "ada"},
		"jwt, other name":        {"jwt:sub", withSub(post(spring, named("bob")), "ada"), 403, "not-your-claim", ""},
		"jwt, other case":        {"jwt:sub", withSub(post(spring, named("Ada")), "ada"), 403, "not-your-claim", ""},
		"jwt, me in the body":    {"jwt:sub", withSub(post(spring, named("me")), "ada"), 403, "not-your-claim", ""},
		"jwt, empty name":        {"jwt:sub", withSub(post(spring, named("")), "ada"), 400, "invalid-request", ""},
		"jwt, broken body":       {"jwt:sub", withSub(post(spring, "{"), "ada"), 400, "invalid-request", ""},
		"jwt, other claim":       {"jwt:id", withJWT(post(spring, ""), map[string]string{"sub": "1", "id": "a@b"}), 201, "", "a@b"},
		"jwt, verified e-mail":   {"jwt:email", withJWT(post(spring, ""), map[string]string{"email": "a@b", "email_verified": "true"}), 201, "", "a@b"},
		"jwt, unverified e-mail": {"jwt:email", withJWT(post(spring, ""), map[string]string{"email": "a@b", "email_verified": "false"}), 401, "unauthenticated", ""},
		"jwt, any e-mail":        {"jwt:email", withJWT(post(spring, ""), map[string]string{"email": "a@b"}), 401, "unauthenticated", ""},
		"jwt, claim with colons": {"jwt:https://x.org/id", withJWT(post(spring, ""), map[string]string{"https://x.org/id": "ada"}), 201, "", "ada"},
		"jwt, no authorizer":     {"jwt:sub", post(spring, named("ada")), 401, "unauthenticated", ""},
		"jwt, no such claim":     {"jwt:sub", withJWT(post(spring, named("ada")), nil), 401, "unauthenticated", ""},
		"jwt, empty claim":       {"jwt:sub", withSub(post(spring, ""), ""), 401, "unauthenticated", ""},
		"jwt, control character": {"jwt:sub", withSub(post(spring, ""), "a\n"), 401, "unauthenticated", ""},
		"jwt, damaged":           {"jwt:sub", withSub(post(spring, ""), "jos\ufffd"), 401, "unauthenticated", ""},
		"jwt, too long":          {"jwt:sub", withSub(post(spring, ""), strings.Repeat("a", 257)), 401, "unauthenticated", ""},
		"jwt, signed with IAM":   {"jwt:sub", withARN(post(spring, ""), arn), 401, "unauthenticated", ""},
		"jwt, 401 before 400":    {"jwt:sub", post(spring, "{"), 401, "unauthenticated", ""},
		"iam":                    {"iam", withARN(post(spring, ""), arn), 201, "", arn},
		"iam, own name":          {"iam", withARN(post(spring, named(arn)), arn), 201, "", arn},
		"iam, other name":        {"iam", withARN(post(spring, named("ada")), arn), 403, "not-your-claim", ""},
		"iam, token":             {"iam", withSub(post(spring, ""), "ada"), 401, "unauthenticated", ""},
		"iam, no ARN":            {"iam", withARN(post(spring, ""), ""), 401, "unauthenticated", ""},
		"body, signed":           {"body", withARN(post(spring, named("bob")), arn), 201, "", "bob"},
		"body, by Cognito":       {"body", withCognito(post(spring, named("bob")), arn, "pool:ada"), 201, "", "bob"},
		"body, signed, no body":  {"body", withARN(post(spring, ""), arn), 400, "invalid-request", ""},
		"body, with a token":     {"body", withSub(post(spring, named("bob")), "ada"), 401, "unauthenticated", ""},
		"body, no ARN":           {"body", withARN(post(spring, named("bob")), ""), 401, "unauthenticated", ""},
		"body, me":               {"body", post(spring, named("me")), 201, "", "me"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.from, "SPRING-1")
			a := b.do(t, c.request).wants(t, c.status, c.slug)
			equal(t, "claimant", a.text("claimant"), c.claimant)
		})
	}
}

// TestIAMIdentities lists, for each setting, the claimant of a signer's ARN; "" means 401. A session of a role is a
// claimant only if the setting names the part of its ARN, because many customers may share a role and a session name.
func TestIAMIdentities(t *testing.T) {
	t.Parallel()
	const (
		constant = "arn:aws:sts::123456789012:assumed-role/shop-customers/CognitoIdentityCredentials"
		pool     = "eu-central-1:3f0d7a2e-6c1b-4f5e-9a8d-1b2c3d4e5f60"
	)
	for _, c := range []struct{ arn, identity, plain, session, role string }{
		{"arn:aws:iam::123456789012:user/ada", "", "=", "=", "="},
		{"arn:aws:iam::123456789012:user/team/ada", "", "=", "=", "="},
		{"arn:aws:iam::123456789012:user/assumed-role/ada/x", "", "=", "=", "="},
		{"arn:aws-cn:iam::123456789012:root", "", "=", "=", "="},
		{"arn:aws:sts::123456789012:federated-user/ada", "", "=", "=", "="},

		{constant, pool, pool, pool, pool},
		{"arn:aws:iam::123456789012:user/ada", pool, pool, pool, pool},

		{constant, "", "", "=", "arn:aws:sts::123456789012:assumed-role/shop-customers"},
		{"arn:aws-cn:sts::123456789012:assumed-role/shop/ada", "", "", "=", "arn:aws-cn:sts::123456789012:assumed-role/shop"},
		{"arn:aws-us-gov:sts::123456789012:assumed-role/a/a", "", "", "=", "arn:aws-us-gov:sts::123456789012:assumed-role/a"},
		{"arn:aws:sts::123456789012:assumed-role/shop/a:b", "", "", "=", "arn:aws:sts::123456789012:assumed-role/shop"},

		{"arn:aws:sts::123456789012:assumed-role/shop", "", "", "", ""},
		{"arn:aws:sts::123456789012:assumed-role/shop/", "", "", "", ""},
		{"arn:aws:sts::123456789012:assumed-role//ada", "", "", "", ""},
		{"arn:aws:sts::123456789012:other/shop/ada", "", "", "", ""},
		{"arn:aws:iam::123456789012:assumed-role/shop/ada", "", "", "", ""},
		{"arn:aws:iam::123456789012:role/shop", "", "", "", ""},
		{"arn:aws:iam::123456789012:user/", "", "", "", ""},
		{"arn:aws:sts::123456789012:federated-user/", "", "", "", ""},
		{"assumed-role/shop/ada", "", "", "", ""},
		{"ada", "", "", "", ""},
		{"", "", "", "", ""},
	} {
		for from, want := range map[string]string{"iam": c.plain, "iam:session": c.session, "iam:role": c.role} {
			if want == "=" {
				want = c.arn
			}
			b := newBench(t, from, "SPRING-1")
			a := b.do(t, withCognito(post(spring, ""), c.arn, c.identity))
			if want == "" {
				a.wants(t, http.StatusUnauthorized, "unauthenticated")
			}
			equal(t, "claimant of "+c.arn+" with "+from, a.text("claimant"), want)
		}
	}
}

// TestCustomersOfAnIdentityPool: all of them sign as the same session of the same role, but each is a separate
// claimant.
func TestCustomersOfAnIdentityPool(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:sts::123456789012:assumed-role/shop-customers/CognitoIdentityCredentials"
	b := newBench(t, "iam", "SPRING-1", "SPRING-2")
	ada := b.do(t, withCognito(post(spring, ""), arn, "eu-central-1:ada")).wants(t, http.StatusCreated, "")
	bob := b.do(t, withCognito(post(spring, ""), arn, "eu-central-1:bob")).wants(t, http.StatusCreated, "")
	if ada.text("item") == bob.text("item") {
		t.Errorf("both hold %s", ada.text("item"))
	}
	own := b.do(t, withCognito(get(spring+"/me"), arn, "eu-central-1:bob")).wants(t, http.StatusOK, "")
	equal(t, "bob's item", own.text("item"), bob.text("item"))
}

// TestLogSaysWhyAnIdentityIsRefused: clients get one fixed text, and the log tells operators what to set. Neither has
// an ARN.
func TestLogSaysWhyAnIdentityIsRefused(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:sts::123456789012:assumed-role/shop/ada"
	for says, r := range map[string]request{
		"iam:session or iam:role": withARN(post(spring, ""), arn),
		"has none of the kind":    post(spring, ""),
		"not a valid claimant":    withARN(post(spring, ""), "arn:aws:iam::123456789012:user/a\x00"),
	} {
		b := newBench(t, "iam", "SPRING-1")
		a := b.do(t, r).wants(t, http.StatusUnauthorized, "unauthenticated")
		line := b.lines(t)[0]
		if text, _ := line["error"].(string); !strings.Contains(text, says) || strings.Contains(b.log.String(), "ada") {
			t.Errorf("want %q and no ARN in %s", says, b.log)
		}
		if strings.Contains(a.Body, "iam:") {
			t.Errorf("the client reads about settings: %s", a.Body)
		}
		equal(t, "level", line["level"], any("INFO"))
	}
}

// TestCallers: where callers name the claimant, a request needs the IAM identity that API Gateway has verified, unless
// the routes let every caller through. While a deployment changes the routes, an event may come by any of them.
func TestCallers(t *testing.T) {
	t.Parallel()
	b := newHoldBench(t, "body", "A-1", "A-2")
	id := b.hold(t, post(seatClaims, named("ada")))
	requests := []request{
		post(seatClaims, named("ada")), newRequest(http.MethodGet, seatClaims+"/ada"), confirm("ada", id), release("ada", id),
		prolong("ada", id, farEnd),
	}
	b.signed = false
	for _, r := range requests {
		a := b.do(t, r).wants(t, http.StatusUnauthorized, "unauthenticated")
		equal(t, "challenge", a.Headers["WWW-Authenticate"], "AWS4-HMAC-SHA256")
		b.do(t, withSub(r, "ada")).wants(t, http.StatusUnauthorized, "unauthenticated")
	}
	if log := b.log.String(); strings.Count(log, "ONCEBOX_CALLER is not any") != 2*len(requests) {
		t.Errorf("the log does not say why: %s", log)
	}
	b.do(t, get("/campaigns/seats")).wants(t, http.StatusOK, "")

	from, err := claimapi.ParseClaimantFrom("body")
	must(t, err)
	b.Handler = claimapi.New(b.bank.Bank, from, discard(), claimapi.WithAnyCaller(true))
	b.do(t, requests[0]).wants(t, http.StatusOK, "")
	b.do(t, requests[1]).wants(t, http.StatusOK, "")
	b.released(t, requests[3])
}

func TestIdentitiesInPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, "jwt:sub", "SPRING-1")
	b.do(t, withSub(post(spring, ""), "ada")).wants(t, http.StatusCreated, "")
	for path, c := range map[string]struct {
		sub    string
		status int
		slug   string
	}{
		"/me":                          {"ada", 200, ""},
		"/ada":                         {"ada", 200, ""},
		"/Me":                          {"ada", 403, "not-your-claim"},
		"/bob":                         {"ada", 403, "not-your-claim"},
		"/" + strings.Repeat("a", 257): {"ada", 400, "invalid-request"},
		"/a\ufffd":                     {"ada", 400, "invalid-request"},
	} {
		b.do(t, withSub(get(spring+path), c.sub)).wants(t, c.status, c.slug)
	}
	b.do(t, withSub(get(spring+"/me"), "bob")).wants(t, http.StatusNotFound, "no-claim")
	b.do(t, withSub(get(spring+"/ada"), "bob")).wants(t, http.StatusForbidden, "not-your-claim")
	b.do(t, withSub(get("/campaigns/autumn/claims/ada"), "bob")).wants(t, http.StatusForbidden, "not-your-claim")
	b.do(t, withSub(get(spring+"/me"), "me")).wants(t, http.StatusNotFound, "no-claim")
	b.do(t, get(spring+"/me")).wants(t, http.StatusUnauthorized, "unauthenticated")
	b.do(t, get(spring+"/ada")).wants(t, http.StatusUnauthorized, "unauthenticated")
}

func TestMeIsAnOrdinaryClaimantWithoutIdentity(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.do(t, get(spring+"/me")).wants(t, http.StatusNotFound, "no-claim")
	b.do(t, post(spring, `{"claimant":"me"}`)).wants(t, http.StatusCreated, "")
	equal(t, "claimant", b.do(t, get(spring+"/me")).wants(t, http.StatusOK, "").text("claimant"), "me")
}

func TestTheZeroClaimantFromTrustsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.Handler = claimapi.New(b.bank.Bank, claimapi.ClaimantFrom{}, discard())
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusUnauthorized, "unauthenticated")
	b.do(t, withSub(post(spring, ""), "ada")).wants(t, http.StatusUnauthorized, "unauthenticated")
}

// TestCallersSpelling: the Bank compares the caller with the claimant that a request names.
func TestCallersSpelling(t *testing.T) {
	t.Parallel()
	const vip = "/campaigns/vip/claims"
	b := newBench(t, "jwt:email")
	b.campaign(t, "vip", itembank.Settings{ClaimantAs: itembank.Email, Hold: time.Hour}, "VIP-1", "VIP-2")
	by := func(r request) request {
		return withJWT(r, map[string]string{"email": "Ann@Example.com", "email_verified": "true"})
	}
	first := b.do(t, by(post(vip, ""))).wants(t, http.StatusCreated, "")
	if got := first.text("claimant"); got != "ann@example.com" || first.Headers["Location"] != vip+"/ann@example.com" {
		t.Errorf("the claim is of %q, at %s", got, first.Headers["Location"])
	}
	for _, r := range []request{
		post(vip, named("ann@example.com")), post(vip, named(" ANN@example.com")),
		newRequest(http.MethodGet, vip+"/me"), newRequest(http.MethodGet, vip+"/ANN@example.com"), newRequest(http.MethodGet, vip+"/ann@example.com"),
	} {
		if again := b.do(t, by(r)).wants(t, http.StatusOK, ""); again.text("claim_id") != first.text("claim_id") {
			t.Errorf("%s %s: got %s", r.RequestContext.HTTP.Method, r.RawPath, again.Body)
		}
	}
	b.do(t, by(post(vip, named("ann+1@example.com")))).wants(t, http.StatusForbidden, "not-your-claim")
	b.do(t, by(post("/campaigns/nothing/claims", named("ann@example.com")))).wants(t, http.StatusForbidden, "not-your-claim")
	r := newRequest(http.MethodDelete, vip+"/ANN@EXAMPLE.COM")
	r.RawQueryString = "claim_id=" + first.text("claim_id")
	b.released(t, by(r))
}
