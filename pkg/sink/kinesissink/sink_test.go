package kinesissink_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/internal/records/batchsink"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// TestSendDeliversAllInOrder: each record is delivered once and unchanged. The records of a shard are in the order in
// which they were sent.
func TestSendDeliversAllInOrder(t *testing.T) {
	onBothStreams(t, 3, sendDeliversAllInOrder)
}

func sendDeliversAllInOrder(t *testing.T, s *stream) {
	outputs := records(1203)
	sent, err := s.sink(t).Send(t.Context(), outputs)
	if err != nil || delivered(sent) != len(outputs) || sent.Repeated != 0 {
		t.Fatalf("delivered %d, repeated %d: %v", delivered(sent), sent.Repeated, err)
	}
	if got := s.sizes(); !slices.Equal(got, []int{500, 500, 203}) {
		t.Errorf("requests of %v records", got)
	}
	found := 0
	for _, shard := range s.read(t) {
		found += len(shard.records)
		for j := 1; j < len(shard.records); j++ {
			if before, after := shard.records[j-1].Data, shard.records[j].Data; bytes.Compare(before, after) >= 0 {
				t.Fatalf("%s: %s is followed by %s", shard.id, before, after)
			}
		}
	}
	if found != len(outputs) {
		t.Errorf("%d records in the stream, want %d", found, len(outputs))
	}
}

func TestSendChangesNoRecord(t *testing.T) {
	onBothStreams(t, 2, sendChangesNoRecord)
}

func sendChangesNoRecord(t *testing.T, s *stream) {
	outputs := []dedupe.Output{
		{ID: "a", PartitionKey: "k", Data: []byte{0, 0xff, '\n', 0xf3}},
		{ID: "b", PartitionKey: strings.Repeat("k", 256)}, // nil is legal data
		{ID: "c", PartitionKey: "ключ", Data: []byte("low"), ExplicitHashKey: "0"},
		{ID: "d", PartitionKey: "ключ", Data: []byte("high"), ExplicitHashKey: highestHashKey},
		{ID: "e", Data: []byte("keyless")},
	}
	sink := s.sink(t)
	for _, o := range outputs {
		must(t, sink.Check(t.Context(), o))
	}
	_, err := sink.Send(t.Context(), outputs)
	must(t, err)
	shards := s.read(t)
	var all []types.Record
	for _, shard := range shards {
		all = append(all, shard.records...)
	}
	for _, o := range outputs {
		i := slices.IndexFunc(all, func(r types.Record) bool { return bytes.Equal(r.Data, o.Data) })
		if i < 0 || o.PartitionKey != "" && *all[i].PartitionKey != o.PartitionKey {
			t.Errorf("record %s is missing or changed", o.ID)
		}
		if i >= 0 && o.PartitionKey == "" && len(*all[i].PartitionKey) != 32 {
			t.Errorf("a record without a key has the key %q", *all[i].PartitionKey)
		}
	}
	for i, data := range []string{"low", "high"} {
		if !slices.ContainsFunc(shards[i].records, func(r types.Record) bool { return string(r.Data) == data }) {
			t.Errorf("explicit hash key: %q is not in shard %d", data, i)
		}
	}
}

// TestRequestsKeepTheLimits: a record of the largest size is sent alone. So is a record that was not checked.
func TestRequestsKeepTheLimits(t *testing.T) {
	t.Parallel()
	requests := &requests{}
	sink, err := kinesissink.New(requests, "s", kinesissink.WithMaxRecord(kinesissink.LargestRecord))
	must(t, err)
	const mib = 1 << 20
	var outputs []dedupe.Output
	for _, size := range []int{6 * mib, 4 * mib, 1, 10 * mib, 1, 1, 10*mib - 2, 1} {
		outputs = append(outputs, dedupe.Output{PartitionKey: "k", Data: make([]byte, size-1)})
		must(t, sink.Check(t.Context(), outputs[len(outputs)-1]))
	}
	outputs = append(outputs, dedupe.Output{PartitionKey: "k", Data: make([]byte, 10*mib)})
	sent, err := sink.Send(t.Context(), outputs)
	if n := delivered(sent); err != nil || n != len(outputs) || !slices.Equal(requests.sizes, []int{2, 1, 1, 3, 1, 1}) {
		t.Errorf("delivered %d in requests of %v records: %v", n, requests.sizes, err)
	}
}

// delivered returns how many records a Send names as delivered.
func delivered(sent dedupe.Sent) (n int) {
	for _, d := range sent.Delivered {
		if d {
			n++
		}
	}
	return n
}

// requests is a stream that takes every request, and counts its records.
type requests struct {
	kinesissink.API
	sizes []int
}

func (r *requests) PutRecords(
	_ context.Context, in *kinesis.PutRecordsInput, _ ...func(*kinesis.Options),
) (*kinesis.PutRecordsOutput, error) {
	r.sizes = append(r.sizes, len(in.Records))
	out := &kinesis.PutRecordsOutput{Records: make([]types.PutRecordsResultEntry, len(in.Records))}
	for i := range out.Records {
		out.Records[i].SequenceNumber = new(string)
	}
	return out, nil
}

func TestCheck(t *testing.T) {
	t.Parallel()
	usual, err := kinesissink.New(&requests{}, "s")
	must(t, err)
	large, err := kinesissink.New(&requests{}, "s", kinesissink.WithMaxRecord(kinesissink.LargestRecord))
	must(t, err)
	const mib = 1 << 20
	for name, test := range map[string]struct {
		sink   *kinesissink.Sink
		output dedupe.Output
		reason string // "" for a good record
	}{
		"largest":                  {usual, dedupe.Output{PartitionKey: "kk", Data: make([]byte, mib-2)}, ""},
		"too large with its key":   {usual, dedupe.Output{PartitionKey: "kk", Data: make([]byte, mib-1)}, "too large"},
		"too large with made key":  {usual, dedupe.Output{Data: make([]byte, mib-31)}, "too large"},
		"large stream":             {large, dedupe.Output{PartitionKey: "kk", Data: make([]byte, 10*mib-2)}, ""},
		"too large for any stream": {large, dedupe.Output{PartitionKey: "kk", Data: make([]byte, 10*mib-1)}, "too large"},
		"no data, no key":          {usual, dedupe.Output{}, ""},
		"long key":                 {usual, dedupe.Output{PartitionKey: strings.Repeat("é", 256)}, ""},
		"too long key":             {usual, dedupe.Output{PartitionKey: strings.Repeat("k", 257)}, "256 characters"},
		"too long key in UTF-16":   {usual, dedupe.Output{PartitionKey: strings.Repeat("😀", 129)}, "256 characters"},
		"key in Latin-1":           {usual, dedupe.Output{PartitionKey: "caf\xe9"}, "UTF-8"},
		"hash key 0":               {usual, dedupe.Output{ExplicitHashKey: "0"}, ""},
		"largest hash key":         {usual, dedupe.Output{ExplicitHashKey: highestHashKey}, ""},
		"hash key 2^128":           {usual, dedupe.Output{ExplicitHashKey: hashKeyTooHigh}, "hash key"},
		"hash key of 40 digits":    {usual, dedupe.Output{ExplicitHashKey: strings.Repeat("1", 40)}, "hash key"},
		"hash key with a zero":     {usual, dedupe.Output{ExplicitHashKey: "01"}, "hash key"},
		"hash key with a line end": {usual, dedupe.Output{ExplicitHashKey: "1\n"}, "hash key"},
		"negative hash key":        {usual, dedupe.Output{ExplicitHashKey: "-1"}, "hash key"},
	} {
		err := test.sink.Check(t.Context(), test.output)
		poison, ok := errors.AsType[*dedupe.PoisonError](err)
		if good := test.reason == ""; good != (err == nil) || !good &&
			(!ok || !strings.Contains(poison.Reason, test.reason)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewChecksItsSettings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a/b", "a b", "arn:aws:kinesis:eu-west-1:1:stream/s", strings.Repeat("s", 129)} {
		if _, err := kinesissink.New(&requests{}, name); err == nil {
			t.Errorf("stream %q was accepted", name)
		}
	}
	for _, size := range []int{-1, 0, kinesissink.LargestRecord + 1} {
		if _, err := kinesissink.New(&requests{}, "s", kinesissink.WithMaxRecord(size)); err == nil {
			t.Errorf("largest record %d was accepted", size)
		}
	}
	for _, a := range []kinesissink.Aggregation{"", "on", "Auto"} {
		if _, err := kinesissink.New(&requests{}, "s", kinesissink.WithAggregation(a)); err == nil {
			t.Errorf("aggregation %q was accepted", a)
		}
	}
}

// TestRefusedRecordsAreSentAgainAlone: refused records do not delay the records of the next request, except those of
// their keys.
func TestRefusedRecordsAreSentAgainAlone(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.refuse = func(request int, r types.PutRecordsRequestEntry) bool {
		return request == 1 && (is(3, r) || is(7, r) || is(400, r)) || request == 3 && (is(7, r) || is(550, r))
	}
	outputs := records(600)
	outputs[550].PartitionKey = outputs[7].PartitionKey
	sent, err := s.sink(t).Send(t.Context(), outputs)
	if err != nil || delivered(sent) != 600 {
		t.Fatalf("delivered %d: %v", delivered(sent), err)
	}
	if got := s.sizes(); !slices.Equal(got, []int{500, 99, 4, 2}) {
		t.Errorf("requests of %v records", got)
	}
	checkCounts(t, s, 600)
	if sent.Repeated != 0 {
		t.Errorf("%d records are counted as repeated, but refused records cannot be in the stream twice", sent.Repeated)
	}
}

// checkCounts checks that the stream has this many records, each once.
func checkCounts(t *testing.T, s *stream, records int) {
	t.Helper()
	counts := s.counts(t)
	if len(counts) != records {
		t.Errorf("%d records in the stream, want %d", len(counts), records)
	}
	for data, n := range counts {
		if n != 1 {
			t.Errorf("record %s is in the stream %d times", data, n)
		}
	}
}

// TestSendGivesUpWithoutProgress: without a deadline, Send ends after some attempts. It names the delivered records.
func TestSendGivesUpWithoutProgress(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.refuse = func(_ int, r types.PutRecordsRequestEntry) bool { return is(520, r) || is(900, r) }
	sent, err := s.sink(t).Send(t.Context(), records(1100))
	if delivered(sent) != 1098 || sent.Delivered[520] || sent.Delivered[900] || !errors.Is(err, dedupe.ErrTryAgain) ||
		!strings.Contains(err.Error(), "ProvisionedThroughputExceeded") {
		t.Errorf("delivered %d: %v", delivered(sent), err)
	}
	again := slices.Repeat([]int{2}, batchsink.MaxAttempts-1)
	if got := s.sizes(); !slices.Equal(got, append([]int{500, 500, 100}, again...)) {
		t.Errorf("requests of %v records", got)
	}
	checkCounts(t, s, 1098)
}

// TestSendGoesOnWhileThereIsProgress: progress allows more attempts than MaxAttempts.
func TestSendGoesOnWhileThereIsProgress(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	passed := 0 // the last request that got a record through
	s.refuse = func(request int, _ types.PutRecordsRequestEntry) bool {
		if request%3 == 0 && passed < request {
			passed = request
			return false
		}
		return true
	}
	sent, err := s.sink(t).Send(t.Context(), records(20))
	if err != nil || delivered(sent) != 20 || len(s.requests) <= batchsink.MaxAttempts {
		t.Errorf("delivered %d in %d requests: %v", delivered(sent), len(s.requests), err)
	}
	checkCounts(t, s, 20)
}

// TestHotShardCostsOtherRecordsNothing: the shard of one key refuses it for some Sends. Records that a Send names as
// delivered are not sent again. So each record is in the stream once, and the records of the hot key are in order.
func TestHotShardCostsOtherRecordsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sends, patience = 5, 10 * time.Second
		s := newStream(t, 4)
		outputs := records(500)
		for _, i := range []int{0, 1, 499} {
			outputs[i].PartitionKey = "hot"
		}
		send := 1
		s.refuse = func(_ int, r types.PutRecordsRequestEntry) bool { return send < sends && *r.PartitionKey == "hot" }
		sink, err := kinesissink.New(s, s.name)
		must(t, err)
		rest := outputs
		for ; send <= sends; send++ {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			begin := time.Now()
			sent, err := sink.Send(ctx, rest)
			cancel()
			if failed := send < sends; failed != errors.Is(err, dedupe.ErrTryAgain) ||
				failed && time.Since(begin) != patience || sent.Repeated != 0 {
				t.Errorf("send %d: after %v, %d repeated: %v", send, time.Since(begin), sent.Repeated, err)
			}
			var open []dedupe.Output
			for i, o := range rest {
				if !sent.Delivered[i] {
					open = append(open, o)
				}
			}
			if rest = open; len(rest) != 3 && send < sends {
				t.Errorf("send %d: %d records are not delivered, want those of the hot key", send, len(rest))
			}
		}
		checkCounts(t, s, 500)
		checkOrder(t, s.users(t, true), outputs)
	})
}

// TestEveryCopyIsCounted: a record counts as repeated if a request without a certain answer may have delivered it.
// The first answer is uncertain about some records, all of which are in the stream.
func TestEveryCopyIsCounted(t *testing.T) {
	t.Parallel()
	throttled := aws.String("ProvisionedThroughputExceededException")
	results := func(change func(all []types.PutRecordsResultEntry) []types.PutRecordsResultEntry) answer {
		return func(out *kinesis.PutRecordsOutput) (*kinesis.PutRecordsOutput, error) {
			return &kinesis.PutRecordsOutput{Records: change(out.Records)}, nil
		}
	}
	fail := func(err error) answer {
		return func(*kinesis.PutRecordsOutput) (*kinesis.PutRecordsOutput, error) { return nil, err }
	}
	for name, test := range map[string]struct {
		answer  answer
		repeats int
	}{
		"no answer":        {fail(&smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}), 20},
		"internal failure": {fail(&types.InternalFailureException{}), 20},
		"unavailable":      {fail(&smithy.GenericAPIError{Code: "ServiceUnavailable", Fault: smithy.FaultServer}), 20},
		"cut answer":       {fail(&smithy.DeserializationError{Err: errors.New("cut")}), 20},
		"short answer": {results(func(all []types.PutRecordsResultEntry) []types.PutRecordsResultEntry {
			return all[:19]
		}), 20},
		"internal failure of one record": {results(func(all []types.PutRecordsResultEntry) []types.PutRecordsResultEntry {
			all[5] = types.PutRecordsResultEntry{ErrorCode: aws.String("InternalFailure")}
			return all
		}), 1},
		"nothing about two records": {results(func(all []types.PutRecordsResultEntry) []types.PutRecordsResultEntry {
			all[5], all[6] = types.PutRecordsResultEntry{}, types.PutRecordsResultEntry{}
			return all
		}), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, 2)
			s.answer = func(request int, out *kinesis.PutRecordsOutput) (*kinesis.PutRecordsOutput, error) {
				if request == 1 {
					return test.answer(out)
				}
				return out, nil
			}
			// Between the copies the whole stream is busy once: no copy is made then.
			s.before = func(request int) error {
				if request == 2 {
					return &types.ProvisionedThroughputExceededException{Message: throttled}
				}
				return nil
			}
			s.refuse = func(request int, _ types.PutRecordsRequestEntry) bool { return request == 3 }
			sent, err := s.sink(t).Send(t.Context(), records(20))
			if err != nil || delivered(sent) != 20 || sent.Repeated != test.repeats {
				t.Errorf("delivered %d, repeated %d, want %d: %v", delivered(sent), sent.Repeated, test.repeats, err)
			}
			copies := -20
			for _, n := range s.counts(t) {
				copies += n
			}
			if copies != test.repeats {
				t.Errorf("%d copies are in the stream, want %d", copies, test.repeats)
			}
		})
	}
}

type answer func(out *kinesis.PutRecordsOutput) (*kinesis.PutRecordsOutput, error)

// TestAnswersThatSayNothing: a record without a sequence number in the answer does not count as delivered.
func TestAnswersThatSayNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]*kinesis.PutRecordsOutput{
		"none":        {},
		"too few":     {Records: []types.PutRecordsResultEntry{{SequenceNumber: new(string)}}},
		"neither nor": {Records: make([]types.PutRecordsResultEntry, 2)},
		"error and a place": {Records: []types.PutRecordsResultEntry{
			{ErrorCode: new(string), SequenceNumber: new(string)}, {},
		}},
	} {
		sink, err := kinesissink.New(always{out: answer}, "s")
		must(t, err)
		sink.SetWait(func(context.Context, int) error { return nil })
		if sent, err := sink.Send(t.Context(), records(2)); delivered(sent) != 0 || !errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: delivered %d: %v", name, delivered(sent), err)
		}
	}
}

// always gives one answer.
type always struct {
	kinesissink.API
	out *kinesis.PutRecordsOutput
}

func (a always) PutRecords(context.Context, *kinesis.PutRecordsInput,
	...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error) {
	return a.out, nil
}

// TestWrongSettingsAreNotTriedAgain: the second request is denied, and Send gives up at once.
func TestWrongSettingsAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.before = func(request int) error {
		if request == 2 {
			return &types.AccessDeniedException{}
		}
		return nil
	}
	sent, err := s.sink(t).Send(t.Context(), records(600))
	denied, ok := errors.AsType[*types.AccessDeniedException](err)
	if n := delivered(sent); n != 500 || !ok || errors.Is(err, dedupe.ErrTryAgain) || len(s.requests) != 2 {
		t.Errorf("delivered %d in %d requests: %v %v", n, len(s.requests), err, denied)
	}
}

// TestRecordsThatAreTooLarge: the largest record of the stream is smaller than that of the sink. The third record is
// refused for ever, the second and the fourth for now. The next request is not sent.
func TestRecordsThatAreTooLarge(t *testing.T) {
	onBothStreams(t, 1, recordsThatAreTooLarge)
}

func recordsThatAreTooLarge(t *testing.T, s *stream) {
	outputs := records(501)
	outputs[2].Data = make([]byte, kinesissink.DefaultMaxRecord+1)
	s.refuse = func(_ int, r types.PutRecordsRequestEntry) bool { return is(1, r) || is(3, r) }
	sent, err := s.sink(t, kinesissink.WithMaxRecord(kinesissink.LargestRecord)).Send(t.Context(), outputs)
	if err == nil || errors.Is(err, dedupe.ErrTryAgain) || len(s.requests) != 1 {
		t.Errorf("%d requests: %v", len(s.requests), err)
	}
	for i, d := range sent.Delivered {
		if want := i == 0 || i > 3 && i < 500; d != want {
			t.Errorf("record %d: delivered %t", i, d)
		}
	}
}

func TestMissingStream(t *testing.T) {
	onBothStreams(t, 1, missingStream)
}

func missingStream(t *testing.T, s *stream) {
	sink, err := kinesissink.New(s, "nowhere")
	must(t, err)
	sent, err := sink.Send(t.Context(), records(1))
	if n := delivered(sent); n != 0 || errors.Is(err, dedupe.ErrTryAgain) || err == nil ||
		!strings.Contains(err.Error(), `into "nowhere": the stream does not exist`) {
		t.Errorf("delivered %d: %v", delivered(sent), err)
	}
}
