package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource" //nolint:depguard // only the test needs it
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

func Example() {
	dir, err := os.MkdirTemp("", "snowplow-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := run(context.Background(), os.Stdout, filepath.Join(dir, "seen.db"), filepath.Join(dir, "dead")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// a loader of the stream gets 159 rows with 100 ids, of which 49 are shared and 0 are new
	// a loader behind oncebox gets 110 rows with 110 ids, of which 0 are shared and 10 are new
	// dead letters: 1
}

// TestThroughLambda sends the events through a stream of several shards and Lambda's event source mapping. Some
// invocations never begin, and the answers of others are lost. The loader must get each event of the stream under an
// id that no other event has.
func TestThroughLambda(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger, err := sqlitestore.Create(t.Context(), filepath.Join(dir, "seen.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	var loaded warehouse
	function, err := newFunction(t.Context(), ledger, filepath.Join(dir, "dead"), &loaded)
	if err != nil {
		t.Fatal(err)
	}
	sim := eventsource.NewSim(time.Now().Add(-time.Hour), 1)
	t.Cleanup(sim.Close)
	lost := 0
	sim.Fate = func(*eventsource.Invocation) eventsource.Fate {
		fate := eventsource.Fate{Skip: sim.Rand.IntN(4) == 0}
		if fate.Skip || sim.Rand.IntN(4) == 0 {
			fate.Err = context.DeadlineExceeded
			lost++
		}
		return fate
	}
	lines := enrich(100)
	want := eventsIn(lines)
	sim.Rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	stream := eventsource.NewStream(3, sim.Now)
	for i, line := range lines {
		stream.Put(fmt.Sprint(i), []byte(line))
	}
	if _, err := sim.Start(eventsource.Mapping{
		Client: stream, StreamARN: "arn:aws:kinesis:eu-west-1:123456789012:stream/enriched", BatchSize: 10,
		Function: eventsource.Handler(function.Handle), ReportBatchItemFailures: true, Bisect: true,
	}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Drain(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := loaded.events(t); !maps.Equal(got, want) || lost == 0 {
		t.Errorf("want %d events, got %d; %d invocations were lost", len(want), len(got), lost)
	}
}

// tracked is an event as its tracker made it.
type tracked struct{ id, title string }

// eventsIn are the events in lines as Enrich writes them.
func eventsIn(lines []string) map[tracked]int {
	found := map[tracked]int{}
	for _, line := range lines {
		if values := strings.Split(line, "\t"); len(values) == columns {
			found[tracked{values[eventID], values[pageTitle]}] = 1
		}
	}
	return found
}

// events returns the events in the warehouse, each with the number of its ids. A repeated row counts once, because a
// loader, or a query, that knows ids removes the repetition. tests/reference reads renamed events with Snowplow's own
// SDK.
func (w warehouse) events(t *testing.T) map[tracked]int {
	t.Helper()
	found := map[tracked]int{}
	for id, lines := range w {
		if len(slices.Compact(slices.Clone(lines))) != 1 {
			t.Errorf("%s has several rows: %q", id, lines)
		}
		values := strings.Split(lines[0], "\t")
		original := id
		if values[derivedContexts] != "" {
			var contexts struct {
				Data []struct {
					Data struct {
						OriginalEventID string `json:"originalEventId"`
					} `json:"data"`
				} `json:"data"`
			}
			if err := json.Unmarshal([]byte(values[derivedContexts]), &contexts); err != nil || len(contexts.Data) != 1 {
				t.Fatalf("%v: %q", err, lines[0])
			}
			original = contexts.Data[0].Data.OriginalEventID
		}
		found[tracked{original, values[pageTitle]}]++
	}
	return found
}
