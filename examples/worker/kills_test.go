package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/examples/payment/client"
	"github.com/oncebox/oncebox/examples/payment/stub"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines" //nolint:depguard // a user has DynamoDB Local
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"      //nolint:depguard // it starts and kills processes
	"github.com/oncebox/oncebox/internal/testkit/testengine"      //nolint:depguard // a user has DynamoDB Local
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestMain(m *testing.M) {
	sqlitetest.Main(withEngines{m}, map[string]sqlitetest.Role{"worker": work})
}

type withEngines struct{ m *testing.M }

func (w withEngines) Run() int { return testengine.Main(w.m) }

// The path of a store in DynamoDB is an endpoint, a space and the name of a table.
func open(ctx context.Context, path string) (engine.Store, error) {
	if endpoint, table, ok := strings.Cut(path, " "); ok {
		return dynamostore.New(itembankengines.Client(endpoint, nil), table), nil
	}
	return sqlitestore.Open(ctx, path, sqlitestore.WithBusyTimeout(time.Minute))
}

// invocation is what a process needs to know.
type invocation struct {
	API   string
	Ahead time.Duration // of the store's time
	Event events.SQSEvent
}

// work is a process with one invocation. It prints the answer.
func work(ctx context.Context, path, text string) (any, error) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var i invocation
	if err := json.Unmarshal([]byte(text), &i); err != nil {
		return nil, err
	}
	store, err := open(ctx, path)
	if err != nil {
		return nil, err
	}
	handle, err := newHandler(later{store, i.Ahead}, client.Client{Address: i.API, HTTP: &http.Client{}})
	if err != nil {
		return nil, err
	}
	sqlitetest.Ready()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return handle(ctx, i.Event)
}

// The time of each round is ahead of the round before. So the leases of killed processes are over in the next round, and
// no lease ends within a round, however slow the machine is.
const (
	timeout = 10 * time.Minute // of an invocation
	ahead   = 2 * timeout
)

// later is a store whose time is ahead.
type later struct {
	engine.Store

	by time.Duration
}

func (l later) move(a engine.Answer, err error) (engine.Answer, error) {
	if err == nil {
		a.Date = a.Date.Add(l.by)
	}
	return a, err
}

func (l later) Put(ctx context.Context, key engine.Key, r engine.Record) (engine.Answer, error) {
	return l.move(l.Store.Put(ctx, key, r))
}

func (l later) Replace(ctx context.Context, key engine.Key, old engine.Version, r engine.Record) (engine.Answer, error) {
	return l.move(l.Store.Replace(ctx, key, old, r))
}

func (l later) Complete(ctx context.Context, key engine.Key, token string, c engine.Completion) (engine.Answer, error) {
	return l.move(l.Store.Complete(ctx, key, token, c))
}

func (l later) Release(ctx context.Context, key engine.Key, token, next string) (engine.Answer, error) {
	return l.move(l.Store.Release(ctx, key, token, next))
}

func (l later) Read(ctx context.Context, key engine.Key, c engine.Consistency) (engine.Answer, error) {
	return l.move(l.Store.Read(ctx, key, c))
}

// killer is a payment API that kills the process that asks it.
type killer struct {
	api       stub.API
	mu        sync.Mutex
	processes []*sqlitetest.Process // of the round, by the first part of the path
	left      int                   // kills
	up        atomic.Bool           // the API answers about the card tok_down
}

// The moments of a kill. "after" also kills while the process completes the order, and after that.
const (
	never = iota
	before
	unanswered
	after
	moments
)

// moment draws when to kill the process that asks.
func (k *killer) moment(r *http.Request) (*sqlitetest.Process, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	when := rand.IntN(moments)
	if k.left == 0 {
		when = never
	}
	if when != never {
		k.left--
	}
	var n int
	_, _ = fmt.Sscanf(r.URL.Path, "/%d/", &n)
	return k.processes[n], when
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	process, when := k.moment(r)
	switch when {
	case before:
		process.Stop()
		panic(http.ErrAbortHandler)
	case unanswered:
		k.api.ServeHTTP(httptest.NewRecorder(), r)
		process.Stop()
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || !k.up.Load() && bytes.Contains(body, []byte("tok_down")) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	k.api.ServeHTTP(w, r)
	if flusher, ok := w.(http.Flusher); ok && when == after {
		flusher.Flush()
		process.Stop()
	}
}

// TestKills kills workers while they pay orders. Each message is delivered to two workers at a time, is sent twice by
// the shop, and goes to the dead-letter queue when it was killed too often, which is moved back in the end. Each order
// is paid once.
func TestKills(t *testing.T) {
	testengine.CheckOnly(t)
	for name, path := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "once.db") },
		"dynoxide": func(t *testing.T) string {
			endpoint, stop := testengine.FreshDynoxide(t)
			t.Cleanup(stop)
			return endpoint + " worker"
		},
		"DynamoDB Local": func(t *testing.T) string {
			return fmt.Sprint(testengine.DynamoDBLocal(t), " worker-", rand.Uint64())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills(t, path(t))
		})
	}
}

const (
	orders = 12
	deaths = 12 // kills
	most   = 5  // messages of a batch
)

func kills(t *testing.T, path string) {
	t.Helper()
	if endpoint, table, ok := strings.Cut(path, " "); ok {
		must(t, bank.CreateDedupeTable(t.Context(), itembankengines.Client(endpoint, nil), table))
	} else {
		store, err := sqlitestore.Create(t.Context(), path)
		must(t, err)
		must(t, store.Close())
	}
	k := &killer{left: deaths}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	var q queue
	for range 2 {
		for n := range orders {
			q.send(orderOf(n, []string{"tok_1", "tok_down"}[n%2], 100+n))
		}
	}
	rounds, redrives := 0, 0
	for ; len(q.waiting)+len(q.dead) > 0; rounds++ {
		if rounds > 100 {
			t.Fatalf("%d messages wait and %d are dead", len(q.waiting), len(q.dead))
		}
		if len(q.waiting) == 0 {
			q.redrive()
			redrives++
			k.up.Store(true)
		}
		batch := q.receive(most)
		done := k.round(t, path, server.URL, time.Duration(rounds)*ahead, batch)
		for _, m := range batch {
			q.settle(m, done[m.id])
		}
	}
	if paid := k.api.Charges(); paid != orders || k.left > 0 || redrives == 0 {
		t.Errorf("%d orders were charged %d times, with %d kills left, and %d redrives", orders, paid, k.left, redrives)
	}
	t.Logf("%d rounds, %d redrives", rounds, redrives)
}

// round gives a batch to two workers, the second in the reverse order, and returns which messages one of them has done.
func (k *killer) round(
	t *testing.T, path, api string, ahead time.Duration, batch []*delivery,
) (done map[string]bool) {
	t.Helper()
	k.processes = nil
	for n := range 2 {
		i := invocation{fmt.Sprint(api, "/", n), ahead, eventOf(batch)}
		if n == 1 {
			for a, b := 0, len(i.Event.Records)-1; a < b; a, b = a+1, b-1 {
				i.Event.Records[a], i.Event.Records[b] = i.Event.Records[b], i.Event.Records[a]
			}
		}
		text, err := json.Marshal(i)
		must(t, err)
		k.processes = append(k.processes, sqlitetest.Start(t, "worker", path, string(text)))
	}
	for _, p := range k.processes {
		p.Proceed(t)
	}
	done = map[string]bool{}
	for _, p := range k.processes {
		line, ok := p.Line()
		p.Kill()
		if !ok {
			continue // it was killed: nothing of its batch is done
		}
		var answer events.SQSEventResponse
		must(t, json.Unmarshal([]byte(line), &answer))
		for _, m := range batch {
			done[m.id] = done[m.id] || m.isDone(answer)
		}
	}
	return done
}
