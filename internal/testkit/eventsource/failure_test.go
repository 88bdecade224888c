package eventsource_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// The comments name the pages of AWS by the words in doc.go.

// TestPartialFailure: all records from the failed one on are delivered again (Partial). They have
// all attempts again, however many attempts earlier failures took.
func TestPartialFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send(numbers(12)...)
	w.mapping.BatchSize, w.mapping.Retries = 10, new(2)
	fails := map[string]int{"3": 2, "7": 2} // the number of times that the record fails
	w.answer = func(c call) (json.RawMessage, error) {
		for _, d := range c.data {
			if fails[d] > 0 {
				fails[d]--
				return failing(d)(c)
			}
		}
		return nil, nil
	}
	w.start()
	w.drain()
	w.batches("0 1 2 3 4 5 6 7 8 9, 3 4 5 6 7 8 9, 3 4 5 6 7 8 9, 7 8 9, 7 8 9, 10 11")
	w.discarded("")
}

// TestAttemptsAfterAPartialFailure has batches of 3, 3 retries, and six records of which the last
// always fails. AWS sent it once with others and four times alone, and the document counts four
// (Recorded, test_kinesis_report_batch_item_failures).
func TestAttemptsAfterAPartialFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send(numbers(6)...)
	w.mapping.BatchSize, w.mapping.Retries, w.answer = 3, new(3), failing("5")
	w.start()
	w.drain()
	w.batches("0 1 2, 3 4 5, 5, 5, 5, 5")
	w.discarded("5")
	equal(t, "invocations", w.given[0].Invocations, 4)
}

// TestRetries: "-1 means infinite: failed records are retried until the record
// expires", otherwise their number is the limit (Parameters). Then "Lambda discards the
// records and continues processing batches from the stream" (Discarded).
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retries *int
		answer  func(call) (json.RawMessage, error)
		batches string
		given   string
	}{
		"none":         {new(0), failing("2"), "0 1 2 3, 2 3, 4 5", "2 3"},
		"none, thrown": {new(0), throwing("2"), "0 1 2 3, 4 5", "0 1 2 3"},
		"one":          {new(1), failing("2"), "0 1 2 3, 2 3, 2 3, 4 5", "2 3"},
		"two, thrown":  {new(2), throwing("2"), "0 1 2 3, 0 1 2 3, 0 1 2 3, 4 5", "0 1 2 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.send(numbers(6)...)
			w.mapping.BatchSize, w.mapping.Retries, w.answer = 4, c.retries, c.answer
			w.start()
			w.drain()
			w.batches(c.batches)
			w.discarded(c.given)
		})
	}
	for name, retries := range map[string]*int{"default": nil, "-1": new(-1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.stream.Retention = 365 * 24 * time.Hour
			w.send("0")
			w.mapping.Retries = retries
			w.answer = throwing("0")
			w.start()
			w.advance(8 * 24 * time.Hour)
			if len(w.calls) < 10_000 || len(w.given) > 0 {
				t.Errorf("%d tries, %d given up", len(w.calls), len(w.given))
			}
		})
	}
}

// TestBisect: with bisect the batch of a failed invocation is split in two, also without partial
// answers. This uses up no retries, and neither does a split at the returned number. A single record
// is not split (Partial, Discarded). All this holds under both readings.
func TestBisect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report  bool
		retries int
		answer  func(call) (json.RawMessage, error)
		batches string
		given   string
	}{
		"thrown, no retries":  {true, 0, throwing("5"), "0 1 2 3 4 5 6 7, 0 1 2 3, 4 5 6 7, 4 5, 4, 5, 6 7", "5"},
		"thrown, two retries": {true, 2, throwing("5"), "0 1 2 3 4 5 6 7, 0 1 2 3, 4 5 6 7, 4 5, 4, 5, 5, 5, 6 7", "5"},
		"thrown, no report":   {false, 0, throwing("5"), "0 1 2 3 4 5 6 7, 0 1 2 3, 4 5 6 7, 4 5, 4, 5, 6 7", "5"},
		"thrown by several":   {true, 0, throwing("0", "6"), "0 1 2 3 4 5 6 7, 0 1 2 3, 0 1, 0, 1, 2 3, 4 5 6 7, 4 5, 6 7, 6, 7", "0, 6"},
		"no such record":      {true, 0, saying(failed("x"), nil, "5"), "0 1 2 3 4 5 6 7, 0 1 2 3, 4 5 6 7, 4 5, 4, 5, 6 7", "5"},
		"reported, a retry":   {true, 1, failing("7"), "0 1 2 3 4 5 6 7, 7, 7", "7"},
		"reported and off":    {false, 0, failing("5"), "0 1 2 3 4 5 6 7", ""},
	} {
		for _, reading := range readings {
			t.Run(name+"/"+string(reading), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1)
				w.send(numbers(8)...)
				w.mapping.BatchSize, w.mapping.Retries, w.mapping.Bisect, w.mapping.Reading = 8, &c.retries, true, reading
				w.mapping.ReportBatchItemFailures = c.report
				w.answer = c.answer
				w.start()
				w.drain()
				w.batches(c.batches)
				w.discarded(c.given)
			})
		}
	}
}

var readings = []eventsource.Reading{eventsource.RetryBatch, eventsource.BisectBatch}

// TestFirstRecordReported: the readings differ after an answer that names the first record of a batch
// of several, and only with bisect. Without a split it uses up a retry. What AWS did with the
// remaining records is BisectBatch (Observed, kinesis_followup.json, partial_bisect).
func TestFirstRecordReported(t *testing.T) {
	t.Parallel()
	type answer = func(call) (json.RawMessage, error)
	type result struct{ batches, given string }
	for name, c := range map[string]struct {
		unsplit bool // no bisect
		retries int
		answers []answer // of the first, the second ... and all further invocations
		retry   result   // under RetryBatch
		bisect  result   // under BisectBatch
	}{
		"no retries": {
			answers: []answer{failing("0")},
			retry:   result{"0 1 2 3", "0 1 2 3"},
			bisect:  result{"0 1 2 3, 0 1, 0, 1, 2 3", "0"},
		},
		"two retries": {
			retries: 2,
			answers: []answer{failing("0")},
			retry:   result{"0 1 2 3, 0 1 2 3, 0 1 2 3", "0 1 2 3"},
			bisect:  result{"0 1 2 3, 0 1, 0, 0, 0, 1, 2 3", "0"},
		},
		"no bisect": {
			unsplit: true,
			retries: 1,
			answers: []answer{failing("0")},
			retry:   result{"0 1 2 3, 0 1 2 3", "0 1 2 3"},
			bisect:  result{"0 1 2 3, 0 1 2 3", "0 1 2 3"},
		},
		"of the remaining records": { // they have all attempts
			retries: 1,
			answers: []answer{failing("1")},
			retry:   result{"0 1 2 3, 1 2 3, 1 2 3", "1 2 3"},
			bisect:  result{"0 1 2 3, 1 2 3, 1, 1, 2 3", "1"},
		},
		"then thrown": { // the halves keep the attempt of the whole
			retries: 1,
			answers: []answer{failing("0"), throwing("0")},
			retry:   result{"0 1 2 3, 0 1 2 3, 0 1, 0, 1, 2 3", "0"},
			bisect:  result{"0 1 2 3, 0 1, 0, 0, 1, 2 3", "0"},
		},
		"thrown before": { // a split uses up no retry, and each half has its own
			retries: 1,
			answers: []answer{throwing("0"), failing("0")},
			retry:   result{"0 1 2 3, 0 1, 0 1, 2 3", "0 1"},
			bisect:  result{"0 1 2 3, 0 1, 0, 0, 1, 2 3", "0"},
		},
		"progress at last": {
			retries: 1,
			answers: []answer{failing("0"), failing("1")},
			retry:   result{"0 1 2 3, 0 1 2 3, 1 2 3, 1 2 3", "1 2 3"},
			bisect:  result{"0 1 2 3, 0 1, 1, 1, 2 3", "1"},
		},
	} {
		for reading, want := range map[eventsource.Reading]result{
			"": c.retry, eventsource.RetryBatch: c.retry, eventsource.BisectBatch: c.bisect,
		} {
			t.Run(name+"/"+string(reading), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1)
				w.send(numbers(4)...)
				w.mapping.BatchSize, w.mapping.Retries, w.mapping.Bisect, w.mapping.Reading = 4, &c.retries, !c.unsplit, reading
				w.answer = func(got call) (json.RawMessage, error) {
					return c.answers[min(len(w.calls), len(c.answers))-1](got)
				}
				w.start()
				w.drain()
				w.batches(want.batches)
				w.discarded(want.given)
			})
		}
	}
}

// TestNoProgress: without a limit of retries, a function that always names the first record gets the
// same batch until the records are too old.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.Bisect, w.mapping.RecordAge = true, time.Minute
	w.send("0", "1", "2")
	w.answer = failing("0")
	w.start()
	w.drain()
	w.batches("0 1 2, 0 1 2, 0 1 2, 0 1 2, 0 1 2, 0 1 2") // after 1, 2, 4, 8, 16 and 32 seconds
	w.discarded("0 1 2")
	equal(t, "condition", w.given[0].Condition, eventsource.RecordAgeExceeded)
}

// TestThrottle: a throttled batch is retried until the records are too old. A throttle is no
// attempt and causes no bisect (Options, "Retry attempts":
// "This doesn't apply to service errors or throttles where the batch didn't reach the
// function"; Discarded, "Before invocation").
func TestThrottle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0", "1")
	w.mapping.Retries, w.mapping.Bisect, w.mapping.RecordAge = new(0), true, time.Hour
	w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate {
		equal(t, "attempt", inv.Attempt, 1)
		return eventsource.Fate{Throttle: inv.Number <= 5}
	}
	w.start()
	w.drain()
	w.batches("0 1")
	w.discarded("")

	w.sim.Fate = func(*eventsource.Invocation) eventsource.Fate { return eventsource.Fate{Throttle: true} }
	w.send("2")
	w.drain()
	w.batches("0 1")
	w.discarded("2")
	equal(t, "condition", w.given[0].Condition, eventsource.RecordAgeExceeded)
}

// TestRecordAge: records older than the limit are not sent to the function (Options,
// "Maximum age of record"), neither at the first attempt nor at a retry. They go to the
// destination (Discarded). Younger records of the batch continue (Recorded,
// test_kinesis_maximum_record_age_exceeded_discard_records).
func TestRecordAge(t *testing.T) {
	t.Parallel()
	t.Run("before the first attempt", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 1)
		w.mapping.RecordAge, w.mapping.Retries = time.Minute, new(0)
		w.send("0", "1")
		w.advance(61 * time.Second)
		w.send("2", "3")
		w.start()
		w.drain()
		w.discarded("0 1")
		w.batches("2 3")
		equal(t, "condition", w.given[0].Condition, eventsource.RecordAgeExceeded)
	})
	t.Run("not exceeded", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 1)
		w.mapping.RecordAge = time.Minute
		w.send("0")
		w.advance(time.Minute)
		w.start()
		w.drain()
		w.batches("0")
	})
	t.Run("while retrying", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 1)
		w.mapping.RecordAge = time.Minute
		w.send("0")
		w.advance(30 * time.Second)
		w.send("1")
		w.answer = throwing("0")
		w.start()
		w.drain()
		w.discarded("0")
		equal(t, "last batch", strings.Join(w.calls[len(w.calls)-1].data, " "), "1")
		if len(w.calls) < 5 || w.given[0].At.Sub(start) < time.Minute {
			t.Errorf("%d calls, given up after %v", len(w.calls), w.given[0].At.Sub(start))
		}
	})
	t.Run("no limit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 1)
		w.mapping.RecordAge = -1
		w.stream.Retention = 365 * 24 * time.Hour
		w.send("0")
		w.advance(300 * 24 * time.Hour)
		w.start()
		w.drain()
		w.batches("0")
	})
}

// TestRetention: without limits "failed records are retried until the record expires"
// (Parameters). AWS does not document what happens to them then. Here they are lost, and counted.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.Retention = eventsource.DefaultRetention
	w.send("0", "1")
	w.answer = throwing("0")
	p := w.start()
	w.advance(eventsource.DefaultRetention)
	w.send("2")
	w.drain()
	equal(t, "expired", p.Tally().Expired, 2)
	equal(t, "last batch", strings.Join(w.calls[len(w.calls)-1].data, " "), "2")
	w.discarded("")
}

// TestRetryPauses: the pauses grow, and start again after a delivery or a discard. AWS documents no
// times.
func TestRetryPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0", "1")
	w.mapping.Retries = new(9)
	w.answer = func(c call) (json.RawMessage, error) {
		if len(w.calls) == 10 {
			return failing("1")(c)
		}
		return throwing("0", "1")(c)
	}
	w.start()
	w.drain()
	pauses := func() string {
		var all []string
		for i, c := range w.calls[1:] {
			all = append(all, (c.at - w.calls[i].at).String())
		}
		return strings.Join(all, " ")
	}
	equal(t, "pauses", pauses(), "1s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s 1s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s 1m0s")

	w = newWorld(t, 1)
	w.send("0", "1")
	w.mapping.Retries, w.mapping.BatchSize, w.answer = new(2), 1, throwing("0", "1")
	w.start()
	w.drain()
	equal(t, "pauses of two batches", pauses(), "1s 2s 0s 1s 2s")
}
