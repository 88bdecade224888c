package valkeystore

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// epoch is far in the future, so that no server deletes rows by its clock.
var epoch = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

var retention = dedupe.Retention{Window: time.Hour, Horizon: 24 * time.Hour}

func newScope() string { return "t-" + strings.ToLower(rand.Text()) }

// options returns the options of a ledger on some servers, with a clock that is a day after epoch.
func options(addresses ...string) Options {
	return Options{
		Servers: Servers{Addresses: addresses, Buckets: 64}, Timeout: time.Minute, // test machines are slow
		Now: func() time.Time { return epoch.Add(24 * time.Hour) },
	}
}

func open(t testing.TB, o Options) *Ledger {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// rec is a record of a test: its id, owner and fingerprint, and its arrival after epoch.
type rec struct {
	id, owner, fingerprint string
	after                  time.Duration
}

func (r rec) candidate() dedupe.Candidate {
	return dedupe.Candidate{
		ID: r.id, Owner: dedupe.Owner{Source: "tests", Sequence: r.owner, Sub: dedupe.Plain}, Fingerprint: r.fingerprint,
		Arrival: epoch.Add(r.after),
	}
}

func question(scope string, all ...rec) dedupe.Question {
	q := dedupe.Question{Scope: scope, Retention: retention}
	for _, r := range all {
		q.Records = append(q.Records, r.candidate())
	}
	return q
}

// text returns an answer in the form of the tests: put, mine, same or other, with a 1 for a derived id.
func text(a dedupe.Answer) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	name := map[dedupe.Found]string{dedupe.Put: "put", dedupe.Mine: "mine", dedupe.Same: "same", dedupe.Other: "other"}[a.Found]
	if a.Derived > 0 {
		name += fmt.Sprint(a.Derived)
	}
	return name
}

func texts(answers []dedupe.Answer) string {
	var all []string
	for _, a := range answers {
		all = append(all, text(a))
	}
	return strings.Join(all, " ")
}

// want asks a ledger and compares the answers.
func want(t testing.TB, l dedupe.Ledger, q dedupe.Question, answers string) {
	t.Helper()
	got, err := l.Enter(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	wanted := strings.Fields(answers)
	if len(got) != len(wanted) {
		t.Fatalf("want %d answers, got %d", len(wanted), len(got))
	}
	for i, a := range got {
		if text(a) != wanted[i] {
			t.Errorf("record %d, %s of %q: want %s, got %s", i, q.Records[i].Owner, q.Records[i].ID, wanted[i], text(a))
			return
		}
	}
}

// admin sends a command to a server.
func admin(t testing.TB, address string, command ...string) valkey.ValkeyResult {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{address}, DisableCache: true, ForceSingleClient: true,
		Dialer: net.Dialer{Timeout: time.Minute}, ConnWriteTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	result := client.Do(context.WithoutCancel(t.Context()), client.B().Arbitrary(command...).Build())
	if err := result.Error(); err != nil && !valkey.IsValkeyNil(err) {
		t.Fatalf("%v: %v", command, err)
	}
	return result
}
