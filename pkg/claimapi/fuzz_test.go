package claimapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// statuses are the statuses that a request alone can cause. 401, 403, 500 and 503 need another setting or a fault.
var statuses = []int{200, 201, 400, 404, 405, 409, 413}

// FuzzHandle: for every body and path, the answer is JSON with a known status, and only the claimant in the request
// gets an item.
func FuzzHandle(f *testing.F) {
	for _, path := range []string{
		spring, spring + "/ada", "/campaigns/spring", "/campaigns/UPPER", "/", "", "//", "/prod" + spring,
		spring + "/\x00", spring + "/\xff", spring + "/me",
	} {
		f.Add([]byte(`{"claimant":"ada"}`), path)
	}
	for _, body := range []string{
		"", "{", "{}", "null", `"ada"`, `{"claimant":"\ud800"}`, `{"claimant":"a","claimant":"b"}`, `{"Claimant":"ada"}`,
		"{\"claimant\":\"\xff\"}", `{"claimant":"\u0000"}`, `{"claimant":1e400}`,
	} {
		f.Add([]byte(body), spring)
	}
	b := newBench(f, "body", "SPRING-1", "SPRING-2", "SPRING-3")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		defer b.log.Reset()
		checkFuzzed(t, b.do(t, get(path)), "")
		var sent map[string]any
		_ = json.Unmarshal(body, &sent)
		claimant, _ := sent["claimant"].(string)
		checkFuzzed(t, b.do(t, postBase64(path, body)), claimant)
	})
}

func checkFuzzed(t *testing.T, a answer, claimant string) {
	t.Helper()
	if !slices.Contains(statuses, a.StatusCode) {
		t.Errorf("status %d; body %s", a.StatusCode, a.Body)
	}
	if claimant != "" && a.StatusCode < http.StatusBadRequest && a.text("claimant") != claimant {
		t.Errorf("%q was answered for %q", a.text("claimant"), claimant)
	}
	equal(t, "Cache-Control", a.Headers["Cache-Control"], "no-store")
	wantsOneBody(t, a.APIGatewayV2HTTPResponse)
}

func wantsOneBody(t *testing.T, r events.APIGatewayV2HTTPResponse) {
	t.Helper()
	if r.IsBase64Encoded || len(r.MultiValueHeaders) > 0 || len(r.Cookies) > 0 {
		t.Errorf("the answer is not a plain JSON body: %+v", r)
	}
}
