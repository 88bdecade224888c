package faultproxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
)

// TestFaults checks what the client gets for each fault, and whether the request has an effect.
func TestFaults(t *testing.T) {
	t.Parallel()
	const transaction = `{"TransactItems":[{},{},{}]}`
	for _, test := range []struct {
		fault    faultproxy.Fault
		body     string
		effect   bool
		status   int // 0: no reply
		contains string
	}{
		{faultproxy.None, "{}", true, 200, "a long reply"},
		{faultproxy.Refuse, "{}", false, 0, ""},
		{faultproxy.Drop, "{}", true, 0, ""},
		{faultproxy.Cut, "{}", true, 200, ""},
		{faultproxy.ErrorBefore, "{}", false, 500, "InternalServerError"},
		{faultproxy.ErrorAfter, "{}", true, 500, "InternalServerError"},
		{faultproxy.Unavailable, "{}", false, 503, "ServiceUnavailable"},
		{faultproxy.Throttle, "{}", false, 400, "ThrottlingException"},
		{faultproxy.InProgress, transaction, false, 400, "TransactionInProgressException"},
		{faultproxy.ConflictFirst, "{}", false, 400, "TransactionConflictException"},
		{faultproxy.ConflictFirst, transaction, false, 400, `[{"Code":"TransactionConflict","Message":"by faultproxy"},{"Code":"None"},{"Code":"None"}]`},
		{faultproxy.ConflictLast, transaction, false, 400, `[{"Code":"None"},{"Code":"None"},{"Code":"TransactionConflict","Message":"by faultproxy"}]`},
		{faultproxy.ConflictAll, transaction, false, 400, strings.Repeat(`,{"Code":"TransactionConflict","Message":"by faultproxy"}`, 2)},
		{faultproxy.ThrottleFirst, transaction, false, 400, `[{"Code":"ThrottlingError","Message":"by faultproxy"},{"Code":"None"},{"Code":"None"}]`},
		{faultproxy.ThrottleLast, transaction, false, 400, `[{"Code":"None"},{"Code":"None"},{"Code":"ThrottlingError","Message":"by faultproxy"}]`},
		{faultproxy.NoReason, transaction, false, 400, `[{"Code":"None"},{"Code":"None"},{"Code":"None"}]`},
	} {
		var effects atomic.Int32
		target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			effects.Add(1)
			_, _ = io.WriteString(w, "a long reply")
		}))
		proxy := faultproxy.New(t, target.URL, func(int, string) faultproxy.Fault { return test.fault })
		response, err := http.Post(proxy.URL, "application/json", strings.NewReader(test.body))
		var reply []byte
		status := 0
		if err == nil {
			status = response.StatusCode
			reply, err = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
		target.Close()
		whole := test.status != 0 && test.fault != faultproxy.Cut
		if (effects.Load() == 1) != test.effect || status != test.status || (err == nil) != whole || !strings.Contains(string(reply), test.contains) {
			t.Errorf("%s: effects %d, status %d, %v, reply %q; want %+v", test.fault, effects.Load(), status, err, reply, test)
		}
	}
}
