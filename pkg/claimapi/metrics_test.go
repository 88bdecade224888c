package claimapi_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// newMetrics makes a bench whose log lines have metrics. results are the first results of the engine.
func newMetrics(t *testing.T, level slog.Level, results ...engine.TakeResult) *bench {
	t.Helper()
	store := &itembankfault.Store{Store: memstore.NewItems()}
	b := &bench{signed: true, bank: itembank.NewOperator(store.Store), log: &bytes.Buffer{}}
	b.campaign(t, "spring", itembank.Settings{}, "SPRING-1", "SPRING-2")
	store.TakeResults = results
	from, err := claimapi.ParseClaimantFrom("body")
	must(t, err)
	log := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: level}))
	b.bank = itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))
	b.Handler = claimapi.New(b.bank.Bank, from, log, claimapi.WithMetrics("oncebox/claims"))
	return b
}

const claims = "/campaigns/spring/claims"

// requests makes requests with every kind of metrics, and some without.
func (b *bench) requests(t *testing.T) {
	t.Helper()
	b.do(t, post(claims, `{"claimant":"ann"}`)).wants(t, http.StatusCreated, "")
	b.do(t, post(claims, `{"claimant":"ann"}`)).wants(t, http.StatusOK, "")
	b.do(t, post(claims, `{"claimant":"bob"}`)).wants(t, http.StatusCreated, "")
	b.do(t, post(claims, `{"claimant":"carol"}`)).wants(t, http.StatusConflict, "sold-out")
	b.do(t, post(claims, `{"claimant":""}`)).wants(t, http.StatusBadRequest, "invalid-request")
	b.do(t, get(claims+"/ann")).wants(t, http.StatusOK, "")
	b.do(t, get("/nothing")).wants(t, http.StatusNotFound, "no-such-route")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	results := []engine.TakeResult{{ItemGone: true}, {ItemConflict: true}, {ItemConflict: true}, {ClaimThrottled: true}}
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelError} { // the metrics do not depend on the level
		b := newMetrics(t, level, results...)
		b.requests(t)
		points := emftest.Points(t, b.log.Bytes())
		for name, want := range map[string]float64{
			"Claims": 2, "Repeats": 1, "SoldOut": 1, "LostRaces": 1, "Conflicts": 2, "Throttles": 1,
		} {
			sum, _ := emftest.Sum(points, name, "")
			equal(t, name, sum, want)
		}
		_, count := emftest.Sum(points, "Latency", "")
		equal(t, "values of Latency", count, 5) // of the requests for a claim
		for _, p := range points {
			equal(t, "namespace", p.Namespace, "oncebox/claims")
			equal(t, "unit of "+p.Name, p.Unit, map[bool]string{false: "Count", true: "Milliseconds"}[p.Name == "Latency"])
		}
		for _, name := range []string{"ann", "bob", "carol", "SPRING-"} {
			if strings.Contains(b.log.String(), name) {
				t.Errorf("the log has %q: %s", name, b.log)
			}
		}
	}
}

// TestNoMetrics: by default a line has no further members.
func TestNoMetrics(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1", "SPRING-2")
	b.requests(t)
	if points := emftest.Points(t, b.log.Bytes()); len(points) > 0 || strings.Contains(b.log.String(), "Latency") {
		t.Errorf("the log has %v: %s", points, b.log)
	}
}

// TestMetricsOfConcurrentRequests: a conflict of concurrent requests is counted once.
func TestMetricsOfConcurrentRequests(t *testing.T) {
	t.Parallel()
	const each = 8
	results := make([]engine.TakeResult, 0, 2*each)
	for range each {
		results = append(results, engine.TakeResult{ItemGone: true}, engine.TakeResult{ItemConflict: true})
	}
	b := newMetrics(t, slog.LevelInfo, results...)
	done := make(chan struct{})
	for _, claimant := range []string{"ann", "bob"} {
		go func() {
			defer func() { done <- struct{}{} }()
			_, _ = b.Handle(context.Background(), post(claims, `{"claimant":"`+claimant+`"}`))
		}()
	}
	<-done
	<-done
	points, races := emftest.Points(t, b.log.Bytes()), float64(b.bank.Contention().LostRaces)
	if races < each || races > each+1 { // the two may race for an item
		t.Errorf("there were %v lost races", races)
	}
	for name, want := range map[string]float64{"Claims": 2, "LostRaces": races, "Conflicts": each} {
		sum, _ := emftest.Sum(points, name, "")
		equal(t, name, sum, want)
	}
}
