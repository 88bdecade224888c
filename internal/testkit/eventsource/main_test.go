package eventsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

const arn = "arn:aws:kinesis:us-east-1:123456789012:stream/clicks"

var (
	start     = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	errBroken = errors.New("broken")
)

// world is a stream, a Sim, and a function that records its invocations and fails as the test
// says.
type world struct {
	*testing.T
	sim     *eventsource.Sim
	stream  *eventsource.Stream
	mapping eventsource.Mapping
	answer  func(call) (json.RawMessage, error) // nil: success
	calls   []call
	given   []eventsource.Discard
	put     map[string]string // sequence number by data
}

// call is an invocation from the side of the function.
type call struct {
	shard string
	data  []string
	event events.KinesisEvent
	at    time.Duration // since the start
}

func newWorld(t *testing.T, shards int) *world {
	t.Helper()
	w := &world{T: t, sim: eventsource.NewSim(start, 1), put: map[string]string{}}
	t.Cleanup(w.sim.Close)
	w.stream = eventsource.NewStream(shards, w.sim.Now)
	w.mapping = eventsource.Mapping{
		Client: w.stream, StreamARN: arn, Function: w.handle, ReportBatchItemFailures: true, Checkpoint: new(eventsource.Checkpoint),
		OnFailure: func(_ context.Context, d eventsource.Discard) error {
			w.given = append(w.given, d)
			return nil
		},
	}
	return w
}

func (w *world) handle(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var c call
	if err := json.Unmarshal(raw, &c.event); err != nil {
		return nil, err
	}
	c.at = w.sim.Now().Sub(start)
	for _, r := range c.event.Records {
		c.data = append(c.data, string(r.Kinesis.Data))
	}
	c.shard, _, _ = strings.Cut(c.event.Records[0].EventID, ":")
	w.calls = append(w.calls, c)
	if w.answer == nil {
		return nil, nil
	}
	return w.answer(c)
}

// send puts records whose data are also their keys.
func (w *world) send(data ...string) {
	for _, d := range data {
		_, w.put[d] = w.stream.Put(d, []byte(d))
	}
}

func (w *world) start() *eventsource.Poller {
	w.Helper()
	p, err := w.sim.Start(w.mapping)
	must(w, err)
	return p
}

func (w *world) drain() {
	w.Helper()
	must(w, w.sim.Drain(30*24*time.Hour))
}

func (w *world) advance(d time.Duration) {
	w.Helper()
	must(w, w.sim.Advance(d))
}

// batches compares the batches that the function got, as in "0 1 2, 3 4".
func (w *world) batches(want string) {
	w.Helper()
	var got []string
	for _, c := range w.calls {
		got = append(got, strings.Join(c.data, " "))
	}
	equal(w, "batches", strings.Join(got, ", "), want)
}

// discarded compares the batches that the destination got, in the same way.
func (w *world) discarded(want string) {
	w.Helper()
	var got []string
	for _, d := range w.given {
		var data []string
		for _, r := range d.Records {
			data = append(data, string(r.Data))
		}
		got = append(got, strings.Join(data, " "))
	}
	equal(w, "discarded", strings.Join(got, ", "), want)
}

// failing reports the first of the bad records in the batch as failed.
func failing(bad ...string) func(call) (json.RawMessage, error) {
	return func(c call) (json.RawMessage, error) {
		for i, d := range c.data {
			for _, b := range bad {
				if d == b {
					return failed(c.event.Records[i].Kinesis.SequenceNumber), nil
				}
			}
		}
		return json.RawMessage(`{"batchItemFailures":[]}`), nil
	}
}

// throwing fails the invocation for batches with a bad record.
func throwing(bad ...string) func(call) (json.RawMessage, error) {
	return saying(nil, errBroken, bad...)
}

// saying gives one answer and error for all batches with a bad record.
func saying(answer json.RawMessage, err error, bad ...string) func(call) (json.RawMessage, error) {
	ask := failing(bad...)
	return func(c call) (json.RawMessage, error) {
		if list, _ := ask(c); strings.Contains(string(list), "itemIdentifier") {
			return answer, err
		}
		return nil, nil
	}
}

func failed(sequences ...string) json.RawMessage {
	var items []string
	for _, s := range sequences {
		items = append(items, fmt.Sprintf(`{"itemIdentifier":%q}`, s))
	}
	return json.RawMessage(`{"batchItemFailures":[` + strings.Join(items, ",") + `]}`)
}

func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
