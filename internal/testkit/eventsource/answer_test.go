package eventsource_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// TestAnswers lists answers to a batch of four records (Partial, "Success and failure
// conditions"). Answers that are not on that page have a comment. A complete failure is bisected like a
// failed invocation (assumed). An answer that names the first record is not one.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const all, rest, none = "", "0 1 2 3", "0 1, 2 3"
	for name, c := range map[string]struct {
		answer string // with $0 to $3 for sequence numbers
		again  string // the batches that are delivered again, with bisect
	}{
		"empty list":             {`{"batchItemFailures":[]}`, all},
		"null list":              {`{"batchItemFailures":null}`, all},
		"empty answer":           {`{}`, all},
		"null answer":            {`null`, all},
		"no answer":              {``, all},
		"empty text":             {`""`, all},                       // Recorded, test_kinesis_report_batch_item_success_scenarios
		"a list":                 {`[]`, all},                       // Recorded, test_kinesis_report_batch_item_success_scenarios
		"another text":           {`"Successfully processed"`, all}, // assumed
		"misnamed list":          {`{"batchItemFailure":[{"itemIdentifier":"$2"}]}`, all},
		"name in another case":   {`{"BatchItemFailures":[{"itemIdentifier":"$2"}]}`, all}, // assumed
		"one":                    {`{"batchItemFailures":[{"itemIdentifier":"$2"}]}`, "2 3"},
		"the first":              {`{"batchItemFailures":[{"itemIdentifier":"$0"}]}`, rest},
		"the last":               {`{"batchItemFailures":[{"itemIdentifier":"$3"}]}`, "3"},
		"several, the lowest":    {`{"batchItemFailures":[{"itemIdentifier":"$3"},{"itemIdentifier":"$1"},{"itemIdentifier":"$2"}]}`, "1 2 3"},
		"other members":          {`{"batchItemFailures":[{"itemIdentifier":"$2","why":"x"}],"more":1}`, "2 3"},
		"empty identifier":       {`{"batchItemFailures":[{"itemIdentifier":""}]}`, none},
		"null identifier":        {`{"batchItemFailures":[{"itemIdentifier":null}]}`, none},
		"misnamed identifier":    {`{"batchItemFailures":[{"sequenceNumber":"$2"}]}`, none},
		"identifier, other case": {`{"batchItemFailures":[{"ItemIdentifier":"$2"}]}`, none}, // assumed
		"no identifier":          {`{"batchItemFailures":[{}]}`, none},
		"null item":              {`{"batchItemFailures":[null]}`, none},                                          // assumed
		"one good and one bad":   {`{"batchItemFailures":[{"itemIdentifier":"$2"},{"itemIdentifier":""}]}`, none}, // assumed
		"not of the batch":       {`{"batchItemFailures":[{"itemIdentifier":"17"}]}`, none},                       // assumed
		"a number":               {`{"batchItemFailures":[{"itemIdentifier":99}]}`, none},                         // Recorded, test_kinesis_report_batch_item_failure_scenarios
		"no list":                {`{"batchItemFailures":"$2"}`, none},                                            // assumed
		"a list of texts":        {`{"batchItemFailures":["$2"]}`, none},                                          // assumed
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.send(numbers(4)...)
			w.mapping.Bisect = true
			w.answer = func(got call) (json.RawMessage, error) {
				if len(w.calls) > 1 {
					return nil, nil
				}
				text := c.answer
				for i, r := range got.event.Records {
					text = strings.ReplaceAll(text, "$"+numbers(4)[i], r.Kinesis.SequenceNumber)
				}
				return json.RawMessage(text), nil
			}
			w.start()
			w.drain()
			want := "0 1 2 3"
			if c.again != all {
				want += ", " + c.again
			}
			w.batches(want)
		})
	}
}

// TestAnswerCountsOnlyIfEnabled: "Even when your function code returns partial batch
// failure responses, these responses will not be processed by Lambda unless the
// ReportBatchItemFailures feature is explicitly turned on" (Partial). An error fails
// the invocation in any case.
func TestAnswerCountsOnlyIfEnabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.ReportBatchItemFailures = false
	w.send("0", "1")
	w.answer = failing("0", "1")
	w.start()
	w.drain()
	w.batches("0 1")
	w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate {
		if inv.Number == 2 {
			return eventsource.Fate{Err: errBroken}
		}
		return eventsource.Fate{}
	}
	w.send("2")
	w.drain()
	w.batches("0 1, 2, 2")
}
