package claimapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// failing makes every Take of the store fail.
func (b *bench) failing(err error) {
	b.store.take = func(context.Context, []engine.FreeItem, engine.Claim) error { return err }
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	secret := "connection string with hunter2"
	for name, c := range map[string]struct {
		err    error
		status int
		slug   string
		level  string
	}{
		"busy":         {fmt.Errorf("%w: %s", itembank.ErrTryAgain, secret), http.StatusServiceUnavailable, "try-again", "WARN"},
		"deadline":     {fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), http.StatusServiceUnavailable, "try-again", "WARN"},
		"cancelled":    {fmt.Errorf("%s: %w", secret, context.Canceled), http.StatusServiceUnavailable, "try-again", "WARN"},
		"unknown":      {errors.New(secret), http.StatusInternalServerError, "internal", "ERROR"},
		"inconsistent": {fmt.Errorf("%s: %w", secret, &itembank.InconsistentError{Kind: "held-and-free", Detail: "claim 17"}), http.StatusInternalServerError, "inconsistent-claim", "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "body", "SPRING-1")
			b.failing(c.err)
			b.SetIntN(func(int) int { return 0 })
			a := b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, c.status, c.slug)
			equal(t, "Retry-After", a.Headers["Retry-After"], map[string]string{"try-again": "1"}[c.slug])
			if strings.Contains(a.Body, "hunter2") {
				t.Errorf("the error's text is in the answer: %s", a.Body)
			}
			line := b.lines(t)[0]
			equal(t, "level", line["level"], any(c.level))
			equal(t, "request_id", line["request_id"], any("request-1"))
			equal(t, "error", line["error"], any(c.err.Error())) // with the kind and the claim of an *InconsistentError
		})
	}
}

// TestInconsistentClaim: a claim has ended, and no row says that its item was loaded. Its holder gets a special
// problem, other claimants are served, and the log names the claim and the kind.
func TestInconsistentClaim(t *testing.T) {
	t.Parallel()
	store, log := memstore.NewItems(), &bytes.Buffer{}
	b := &bench{signed: true, bank: itembank.NewOperator(store), log: log}
	b.campaign(t, "spring", itembank.Settings{ClaimLife: time.Hour}, "SPRING-1")
	must(t, store.PutClaim(t.Context(), engine.Claim{
		ID: "claim-17", Campaign: "spring", Scope: "spring", Claimant: "ada", Slot: 1, Item: "SPRING-9",
		ItemHash: engine.HashItem("SPRING-9"), EndsAt: time.Now().Add(-time.Hour),
	}))
	from, err := claimapi.ParseClaimantFrom("body")
	must(t, err)
	b.Handler = claimapi.New(b.bank.Bank, from, slog.New(slog.NewJSONHandler(log, nil)))

	a := b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusInternalServerError, "inconsistent-claim")
	b.do(t, post(spring, `{"claimant":"bob"}`)).wants(t, http.StatusCreated, "")
	text, _ := b.lines(t)[0]["error"].(string)
	for _, part := range []string{"claim-17", "held-not-loaded"} {
		if !strings.Contains(text, part) || strings.Contains(a.Body, part) {
			t.Errorf("want %s in the log and not in the answer, got %q and %s", part, text, a.Body)
		}
	}
	if strings.Contains(log.String(), "ada") || strings.Contains(log.String(), "SPRING-9") {
		t.Errorf("the log holds a claimant or an item: %s", log)
	}
}

// TestRetryAfterIsSpread: clients that are refused at one moment are told to come back in three different seconds.
func TestRetryAfterIsSpread(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.failing(itembank.ErrTryAgain)
	for drawn, want := range []string{"1", "2", "3"} {
		b.SetIntN(func(n int) int {
			equal(t, "seconds to choose from", n, 3)
			return drawn
		})
		equal(t, "Retry-After", b.do(t, post(spring, `{"claimant":"ada"}`)).Headers["Retry-After"], want)
	}
}

// TestRepeatAfterLostReply: the item is taken and the store's reply is lost. The request finds the claim that it made,
// and the repeated request returns the item.
func TestRepeatAfterLostReply(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1", "SPRING-2")
	b.store.take = func(ctx context.Context, items []engine.FreeItem, c engine.Claim) error {
		_, err := b.store.Store.Take(ctx, items, c)
		return errors.Join(itembank.ErrTryAgain, err)
	}
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusCreated, "")
	b.store.take = nil
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusOK, "")
	counts, err := b.bank.ConsistentCounts(t.Context(), "spring")
	must(t, err)
	equal(t, "claimed", counts.Claimed, 1)
}

// TestClaimantsAreTakenOutOfErrors: engines must not put claimants into errors. If one does, the claimant is not in the
// log.
func TestClaimantsAreTakenOutOfErrors(t *testing.T) {
	t.Parallel()
	for _, claimant := range []string{"ada@example.org", `ada "the first"`, `a\d`} {
		b := newBench(t, "jwt:sub", "SPRING-1")
		b.failing(fmt.Errorf("row of %s: %q: gone", claimant, claimant))
		b.do(t, withSub(post(spring, ""), claimant)).wants(t, http.StatusInternalServerError, "internal")
		equal(t, "error", b.lines(t)[0]["error"], any(`row of [claimant]: "[claimant]": gone`))
	}
}

// TestNormalClaimantsAreTakenOutOfErrors: the error of an engine has the claimant in the spelling of the Bank.
func TestNormalClaimantsAreTakenOutOfErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	_, _, err := b.bank.CreateCampaign(t.Context(), "club", itembank.Settings{ClaimantAs: itembank.Email})
	must(t, err)
	_, err = b.bank.Load(t.Context(), "club", itembank.Items("CLUB-1"), nil)
	must(t, err)
	b.store.take = func(_ context.Context, _ []engine.FreeItem, c engine.Claim) error { panic("oops for " + c.Claimant) }
	b.do(t, post("/campaigns/club/claims", `{"claimant":" Ada@Example.org"}`)).wants(t, http.StatusInternalServerError, "internal")
	equal(t, "error", b.lines(t)[0]["error"], any("panic: oops for [claimant]"))
}

// TestClaimantsLeaveOtherWordsAlone: a claimant of one letter does not damage the line that tells the operator what is
// wrong.
func TestClaimantsLeaveOtherWordsAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ claimant, text, want string }{
		{"a", "dynamodb: take: a table is away", "dynamodb: take: [claimant] table is away"},
		{"o", "dynamodb: take: no such table", "dynamodb: take: no such table"},
		{"é", "cafés: é", "cafés: [claimant]"},
		{"1", "row 1 of 12, 31 and x1", "row [claimant] of 12, 31 and x1"},
		{"id", `rows "id","wide" and id_1`, `rows "[claimant]","wide" and id_1`},
		{"-", "row -", "row [claimant]"},
		{"aa", "aaa aa", "aaa [claimant]"},
		{"ada", "ada:ada ada@example.org Nevada", "[claimant]:[claimant] [claimant]@example.org Nevada"},
	} {
		b := newBench(t, "jwt:sub", "SPRING-1")
		b.failing(errors.New(c.text))
		b.do(t, withSub(post(spring, ""), c.claimant)).wants(t, http.StatusInternalServerError, "internal")
		equal(t, "error for "+c.claimant, b.lines(t)[0]["error"], any(c.want))
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	b.store.take = func(context.Context, []engine.FreeItem, engine.Claim) error { panic("oops for ada") }
	a := b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusInternalServerError, "internal")
	if strings.Contains(a.Body, "oops") {
		t.Errorf("the panic is in the answer: %s", a.Body)
	}
	line := b.lines(t)[0]
	equal(t, "error", line["error"], any("panic: oops for [claimant]"))
	stack, _ := line["stack"].(string)
	if !strings.Contains(stack, "fault_test.go") {
		t.Errorf("the stack does not lead to the panic: %s", stack)
	}
	b.store.take = nil
	b.do(t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusCreated, "")
}

// TestTryAgainBeforeTheDeadline: the store has less time than the function, so that time is left for an answer.
func TestTryAgainBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	end := time.Now().Add(time.Hour)
	b.store.take = func(ctx context.Context, _ []engine.FreeItem, _ engine.Claim) error {
		until, _ := ctx.Deadline()
		equal(t, "time that is left for the answer", end.Sub(until), 500*time.Millisecond)
		return context.DeadlineExceeded
	}
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	b.doIn(ctx, t, post(spring, `{"claimant":"ada"}`)).wants(t, http.StatusServiceUnavailable, "try-again")
}

func TestEventWithoutRequestID(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body")
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "lambda-1"})
	a := b.doIn(ctx, t, request{Version: "2.0"}).wants(t, http.StatusNotFound, "no-such-route")
	equal(t, "instance", a.text("instance"), "lambda-1")
	equal(t, "request_id", b.lines(t)[0]["request_id"], any("lambda-1"))
	a = b.do(t, request{Version: "2.0"}).wants(t, http.StatusNotFound, "no-such-route")
	equal(t, "instance", a.text("instance"), "")
}

// TestEventThatIsNoRequest: the invocation fails and the log says why, so that a stream that is connected to this
// function keeps its records.
func TestEventThatIsNoRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body")
	for _, version := range []string{"", "1.0"} {
		if _, err := b.Handle(t.Context(), request{Version: version}); !errors.Is(err, claimapi.ErrNotHTTP) {
			t.Errorf("version %q: want %v, got %v", version, claimapi.ErrNotHTTP, err)
		}
	}
	for _, raw := range []string{``, `{"version":"2.0"`, `{"version":2}`, `{"Records":[]}`, `[]`} {
		if _, err := b.Invoke(t.Context(), []byte(raw)); !errors.Is(err, claimapi.ErrNotHTTP) {
			t.Errorf("%q: want %v, got %v", raw, claimapi.ErrNotHTTP, err)
		}
	}
	lines := b.lines(t)
	equal(t, "log lines", len(lines), 7)
	for _, line := range lines {
		equal(t, "message", line["msg"], any("request"))
		if text, _ := line["error"].(string); !strings.HasPrefix(text, claimapi.ErrNotHTTP.Error()+": ") {
			t.Errorf("the error is %q", text)
		}
	}
}
