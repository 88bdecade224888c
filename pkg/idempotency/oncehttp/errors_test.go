package oncehttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
)

// broken is a store whose writes can be answered by a test.
type broken struct {
	*memstore.Calls
	put      func(engine.Record) (engine.Answer, error)
	complete func() (engine.Answer, error)
}

func (s *broken) Put(ctx context.Context, key engine.Key, record engine.Record) (engine.Answer, error) {
	if s.put != nil {
		return s.put(record)
	}
	return s.Calls.Put(ctx, key, record)
}

func (s *broken) Complete(
	ctx context.Context, key engine.Key, token string, c engine.Completion,
) (engine.Answer, error) {
	if s.complete != nil {
		return s.complete()
	}
	return s.Calls.Complete(ctx, key, token, c)
}

// found answers a put with another row for the same payload.
func found(row engine.Record) func(engine.Record) (engine.Answer, error) {
	return func(record engine.Record) (engine.Answer, error) {
		row.Payload, row.Expiry = record.Payload, record.Expiry
		if row.LeaseEnd.IsZero() {
			row.LeaseEnd = record.LeaseEnd
		}
		return engine.Answer{Row: &row, Date: time.Now()}, nil
	}
}

// TestErrors: what a client gets for each error of the store. No text of an error goes to a client.
func TestErrors(t *testing.T) {
	t.Parallel()
	unreachable := fmt.Errorf("%w: table internal-orders", engine.ErrTryAgain)
	fails := func(err error) *broken {
		return &broken{put: func(engine.Record) (engine.Answer, error) { return engine.Answer{}, err }}
	}
	unconfirmed := func(answer engine.Answer, err error) *broken {
		return &broken{complete: func() (engine.Answer, error) {
			answer.Date = time.Now()
			return answer, err
		}}
	}
	completed := func(result engine.Result) *broken {
		return &broken{put: found(engine.Record{Status: engine.Completed, Result: result})}
	}
	for name, c := range map[string]struct {
		store  *broken
		status int
		slug   string
		least  int // seconds of Retry-After; 0: none
		most   int
		ran    bool
	}{
		"store out of reach":      {fails(unreachable), 503, "try-again", 1, 3, false},
		"completion out of reach": {unconfirmed(engine.Answer{}, unreachable), 503, "outcome-unknown", 1, 3, true},
		"superseded":              {unconfirmed(engine.Answer{}, nil), 503, "outcome-unknown", 1, 3, true},
		"bug of the engine":       {fails(errors.New("table internal-orders has no key")), 500, "internal", 0, 0, false},
		"twin": {
			&broken{put: found(engine.Record{Status: engine.InProgress, Token: "of another"})},
			409, "in-progress", 5, 5, false},
		"twin whose lease is nearly over": {
			&broken{put: func(record engine.Record) (engine.Answer, error) {
				record.Token, record.LeaseEnd = "of another", time.Now().Add(100*time.Millisecond)
				return engine.Answer{Row: &record, Date: time.Now()}, nil
			}}, 409, "in-progress", 1, 2, false},
		"not stored":     {completed(engine.Result{Kind: engine.Missing}), 500, "result-not-stored", 0, 0, false},
		"failure":        {completed(engine.Result{Kind: engine.Failure}), 500, "internal", 0, 0, false},
		"not a response": {completed(engine.Result{Kind: engine.Value}), 500, "result-unreadable", 0, 0, false},
		"broken response": {completed(engine.Result{
			Kind: engine.Value, ContentType: "message/http", Body: []byte("HTTP"),
		}), 500, "result-unreadable", 0, 0, false},
		"cut response": {completed(engine.Result{
			Kind: engine.Value, ContentType: "message/http", Body: []byte("HTTP/1.1 200 OK\r\nEtag: 1"),
		}), 500, "result-unreadable", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.store.Calls = memstore.NewCalls(time.Now)
				runner, err := idempotency.New(c.store, namespace, idempotency.Settings{DoNotWait: true})
				must(t, err)
				var log bytes.Buffer
				m, err := oncehttp.New(runner, callerOf, oncehttp.Settings{Log: slog.New(slog.NewJSONHandler(&log, nil))})
				must(t, err)
				ran := false
				w := httptest.NewRecorder()
				m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ran = true
					echo(1)(w, r)
				})).ServeHTTP(w, order("key-1").toHTTP(t.Context(), "http://localhost"))

				answer{w.Result(), w.Body.String()}.wantsProblem(t, c.status, c.slug)
				equal(t, "ran", ran, c.ran)
				if after, _ := strconv.Atoi(w.Header().Get("Retry-After")); after < c.least || after > c.most {
					t.Errorf("Retry-After: %q", w.Header().Get("Retry-After"))
				}
				if strings.Contains(w.Body.String(), "internal-orders") {
					t.Errorf("the client gets %s", w.Body)
				}
				instance := strings.Split(w.Body.String(), `"instance":"`)[1][:36]
				if line := log.String(); strings.Contains(line, "key-1") || strings.Contains(line, "coffee") ||
					!strings.Contains(line, `"request_id":"`+instance+`"`) || !strings.Contains(line, `"slug":"`+c.slug+`"`) {
					t.Errorf("the log has %s", line)
				}
			})
		})
	}
}

// TestWaitingEndsWithTheClient: a request that waits for another process ends when its client goes away, or at the
// deadline of the server. It does not run the handler.
func TestWaitingEndsWithTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.NewCalls(time.Now)
		wrap := func(handler http.HandlerFunc) http.Handler { return wrapped(t, store, handler) } // each in its process
		begun := time.Now()
		first := make(chan int)
		go func() {
			w := httptest.NewRecorder()
			wrap(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute)
				echo(1)(w, r)
			}).ServeHTTP(w, order("key-1").toHTTP(t.Context(), "http://localhost"))
			first <- w.Code
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		wrap(func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") }).
			ServeHTTP(w, order("key-1").toHTTP(ctx, "http://localhost"))
		answer{w.Result(), w.Body.String()}.wantsProblem(t, 503, "try-again")
		equal(t, "waited", time.Since(begun), 11*time.Second)
		equal(t, "status of the first", <-first, http.StatusCreated)
	})
}

// TestClientGoesAwayBeforeTheHandler: the key is put, but the client is gone. The handler does not run, and the key is
// free.
func TestClientGoesAwayBeforeTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		store := &broken{Calls: memstore.NewCalls(time.Now)}
		key := engine.Key{Namespace: namespace, Name: oncehttp.KeyOf("ann", "key-1")}
		store.put = func(record engine.Record) (engine.Answer, error) {
			leave()
			synctest.Wait() // until all that depends on the context has ended
			return store.Calls.Put(context.WithoutCancel(ctx), key, record)
		}
		w := httptest.NewRecorder()
		wrapped(t, store, func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") }).
			ServeHTTP(w, order("key-1").toHTTP(ctx, "http://localhost"))
		answer{w.Result(), w.Body.String()}.wantsProblem(t, 503, "try-again")
		row := store.Row(key)
		equal(t, "released", row.Status == engine.InProgress && row.LeaseEnd.Equal(time.Unix(0, 0)), true)
	})
}

// TestWrappedTwice: the second Wrap would wait for the first one, without an end. The request is refused.
func TestWrappedTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runner, err := idempotency.New(memstore.NewCalls(time.Now), namespace, idempotency.Settings{})
		must(t, err)
		var log bytes.Buffer
		m, err := oncehttp.New(runner, callerOf, oncehttp.Settings{Log: slog.New(slog.NewJSONHandler(&log, nil))})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		w := httptest.NewRecorder()
		m.Wrap(m.Wrap(http.NotFoundHandler())).ServeHTTP(w, order("key-1").toHTTP(ctx, "http://localhost"))
		answer{w.Result(), w.Body.String()}.wantsProblem(t, 500, "internal")
		if !strings.Contains(log.String(), "is wrapped twice") {
			t.Errorf("the log has %s", &log)
		}
	})
}

// TestDeadlineOfTheServer: the deadline of a request is also the deadline of its handler.
func TestDeadlineOfTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun, ran := time.Now(), false
		wrapped(t, memstore.NewCalls(time.Now), func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			equal(t, "after", time.Since(begun), time.Second)
			ran = true
		}).ServeHTTP(httptest.NewRecorder(), order("key-1").toHTTP(ctx, "http://localhost"))
		equal(t, "ran", ran, true)
	})
}
