package kinesissink_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// TestSendDeliversAllInOrder: each record is delivered once and unchanged, and the records of a shard are in the
// order in which they were sent.
func TestSendDeliversAllInOrder(t *testing.T) {
	onBothStreams(t, 3, sendDeliversAllInOrder)
}

func sendDeliversAllInOrder(t *testing.T, s *stream) {
	outputs := records(1203)
	n, err := s.sink(t).Send(t.Context(), outputs)
	if err != nil || n != len(outputs) {
		t.Fatalf("delivered %d: %v", n, err)
	}
	if got := s.sizes(); !slices.Equal(got, []int{500, 500, 203}) {
		t.Errorf("requests of %v records", got)
	}
	found := 0
	for i, shard := range s.read(t) {
		found += len(shard)
		for j := 1; j < len(shard); j++ {
			if bytes.Compare(shard[j-1].Data, shard[j].Data) >= 0 {
				t.Fatalf("shard %d: %s is followed by %s", i, shard[j-1].Data, shard[j].Data)
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
	const high = "340282366920938463463374607431768211455"
	outputs := []dedupe.Output{
		{ID: "a", PartitionKey: "k", Data: []byte{0, 0xff, '\n', 0xf3}},
		{ID: "b", PartitionKey: strings.Repeat("k", 256)}, // nil is legal data
		{ID: "c", PartitionKey: "ключ", Data: []byte("low"), ExplicitHashKey: "0"},
		{ID: "d", PartitionKey: "ключ", Data: []byte("high"), ExplicitHashKey: high},
		{ID: "e", Data: []byte("keyless")},
	}
	sink := s.sink(t)
	for _, o := range outputs {
		must(t, sink.Check(o))
	}
	_, err := sink.Send(t.Context(), outputs)
	must(t, err)
	shards := s.read(t)
	all := slices.Concat(shards...)
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
		if !slices.ContainsFunc(shards[i], func(r types.Record) bool { return string(r.Data) == data }) {
			t.Errorf("explicit hash key: %q is not in shard %d", data, i)
		}
	}
}

// TestRequestsKeepTheLimits: a record of the largest size is sent alone, and so is a record that was not checked.
func TestRequestsKeepTheLimits(t *testing.T) {
	t.Parallel()
	requests := &requests{}
	sink, err := kinesissink.New(requests, "s", kinesissink.WithMaxRecord(kinesissink.LargestRecord))
	must(t, err)
	const mib = 1 << 20
	var outputs []dedupe.Output
	for _, size := range []int{6 * mib, 4 * mib, 1, 10 * mib, 1, 1, 10*mib - 2, 1} {
		outputs = append(outputs, dedupe.Output{PartitionKey: "k", Data: make([]byte, size-1)})
		must(t, sink.Check(outputs[len(outputs)-1]))
	}
	outputs = append(outputs, dedupe.Output{PartitionKey: "k", Data: make([]byte, 10*mib)})
	n, err := sink.Send(t.Context(), outputs)
	if err != nil || n != len(outputs) || !slices.Equal(requests.sizes, []int{2, 1, 1, 3, 1, 1}) {
		t.Errorf("delivered %d in requests of %v records: %v", n, requests.sizes, err)
	}
}

// requests is a stream that takes every request, and counts its records.
type requests struct{ sizes []int }

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
		"largest hash key":         {usual, dedupe.Output{ExplicitHashKey: "340282366920938463463374607431768211455"}, ""},
		"hash key 2^128":           {usual, dedupe.Output{ExplicitHashKey: "340282366920938463463374607431768211456"}, "hash key"},
		"hash key of 40 digits":    {usual, dedupe.Output{ExplicitHashKey: strings.Repeat("1", 40)}, "hash key"},
		"hash key with a zero":     {usual, dedupe.Output{ExplicitHashKey: "01"}, "hash key"},
		"hash key with a line end": {usual, dedupe.Output{ExplicitHashKey: "1\n"}, "hash key"},
		"negative hash key":        {usual, dedupe.Output{ExplicitHashKey: "-1"}, "hash key"},
	} {
		err := test.sink.Check(test.output)
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
}

// TestRefusedRecordsAreSentAgainAlone: they are sent before the records of the next request.
func TestRefusedRecordsAreSentAgainAlone(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.refuse = func(request int, r types.PutRecordsRequestEntry) bool {
		return request == 1 && (is(3, r) || is(7, r) || is(400, r)) || request == 2 && is(7, r)
	}
	repeated := 0
	sink := s.sink(t, kinesissink.WithRepeated(func(n int) { repeated += n }))
	n, err := sink.Send(t.Context(), records(600))
	if err != nil || n != 600 {
		t.Fatalf("delivered %d: %v", n, err)
	}
	if got := s.sizes(); !slices.Equal(got, []int{500, 3, 1, 100}) {
		t.Errorf("requests of %v records", got)
	}
	checkCounts(t, s, 600, 1)
	if repeated != 0 {
		t.Errorf("%d records reported as repeated, but refused records cannot be in the stream twice", repeated)
	}
}

func checkCounts(t *testing.T, s *stream, records, each int) {
	t.Helper()
	counts := s.counts(t)
	if len(counts) != records {
		t.Errorf("%d records in the stream, want %d", len(counts), records)
	}
	for data, n := range counts {
		if n != each {
			t.Errorf("record %s is in the stream %d times, want %d", data, n, each)
		}
	}
}

// TestSendGivesUpWithoutProgress: all records before the first one that stays refused are delivered. No record of the
// next request is sent.
func TestSendGivesUpWithoutProgress(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.refuse = func(_ int, r types.PutRecordsRequestEntry) bool { return is(520, r) || is(900, r) }
	n, err := s.sink(t).Send(t.Context(), records(1100))
	if n != 520 || !errors.Is(err, dedupe.ErrTryAgain) || !strings.Contains(err.Error(), "ProvisionedThroughputExceeded") {
		t.Errorf("delivered %d: %v", n, err)
	}
	if got := s.sizes(); len(got) != 1+kinesissink.MaxAttempts {
		t.Errorf("requests of %v records", got)
	}
	if counts := s.counts(t); len(counts) != 998 || counts[string(payload(1000))] != 0 {
		t.Errorf("%d records in the stream, want 998 of the first 1,000", len(counts))
	}
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
	n, err := s.sink(t).Send(t.Context(), records(20))
	if err != nil || n != 20 || len(s.requests) <= kinesissink.MaxAttempts {
		t.Errorf("delivered %d in %d requests: %v", n, len(s.requests), err)
	}
	checkCounts(t, s, 20, 1)
}

// TestLostAnswerRepeatsAndSaysSo: the request took effect and its answer was lost. Its records are in the stream twice,
// and are reported.
func TestLostAnswerRepeatsAndSaysSo(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.after = func(request int) error {
		if request == 2 {
			return &types.InternalFailureException{}
		}
		return nil
	}
	repeated := 0
	n, err := s.sink(t, kinesissink.WithRepeated(func(n int) { repeated += n })).Send(t.Context(), records(700))
	if err != nil || n != 700 || repeated != 200 {
		t.Errorf("delivered %d, reported %d as repeated: %v", n, repeated, err)
	}
	for data, n := range s.counts(t) {
		if want := 1 + map[bool]int{true: 1}[data >= string(payload(500))]; n != want {
			t.Errorf("record %s is in the stream %d times, want %d", data, n, want)
		}
	}
}

// TestAnswersThatSayNothing: a record without a sequence number in the answer does not count as delivered.
func TestAnswersThatSayNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]*kinesis.PutRecordsOutput{
		"none":              {},
		"too few":           {Records: []types.PutRecordsResultEntry{{SequenceNumber: new(string)}}},
		"neither nor":       {Records: make([]types.PutRecordsResultEntry, 2)},
		"error and a place": {Records: []types.PutRecordsResultEntry{{ErrorCode: new(string), SequenceNumber: new(string)}, {}}},
	} {
		sink, err := kinesissink.New(always{answer, nil}, "s")
		must(t, err)
		sink.SetWait(func(context.Context, int) error { return nil })
		if n, err := sink.Send(t.Context(), records(2)); n != 0 || !errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: delivered %d: %v", name, n, err)
		}
	}
}

// always gives one answer.
type always struct {
	out *kinesis.PutRecordsOutput
	err error
}

func (a always) PutRecords(context.Context, *kinesis.PutRecordsInput,
	...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error) {
	return a.out, a.err
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
	n, err := s.sink(t).Send(t.Context(), records(600))
	denied, ok := errors.AsType[*types.AccessDeniedException](err)
	if n != 500 || !ok || errors.Is(err, dedupe.ErrTryAgain) || len(s.requests) != 2 {
		t.Errorf("delivered %d in %d requests: %v %v", n, len(s.requests), err, denied)
	}
}

// TestRecordsThatAreTooLarge: the largest record of the stream is smaller than that of the sink. The third record is
// refused for good, the second and the fourth for the moment.
func TestRecordsThatAreTooLarge(t *testing.T) {
	onBothStreams(t, 1, recordsThatAreTooLarge)
}

func recordsThatAreTooLarge(t *testing.T, s *stream) {
	outputs := records(4)
	outputs[2].Data = make([]byte, kinesissink.DefaultMaxRecord+1)
	s.refuse = func(_ int, r types.PutRecordsRequestEntry) bool { return is(1, r) || is(3, r) }
	n, err := s.sink(t, kinesissink.WithMaxRecord(kinesissink.LargestRecord)).Send(t.Context(), outputs)
	if n != 1 || err == nil || errors.Is(err, dedupe.ErrTryAgain) || len(s.requests) != 1 {
		t.Errorf("delivered %d in %d requests: %v", n, len(s.requests), err)
	}
}

func TestMissingStream(t *testing.T) {
	onBothStreams(t, 1, missingStream)
}

func missingStream(t *testing.T, s *stream) {
	sink, err := kinesissink.New(s, "nowhere")
	must(t, err)
	n, err := sink.Send(t.Context(), records(1))
	if n != 0 || errors.Is(err, dedupe.ErrTryAgain) || err == nil ||
		!strings.Contains(err.Error(), `stream "nowhere" not found`) {
		t.Errorf("delivered %d: %v", n, err)
	}
}

// TestContextEndsTheWait: the end of the context ends a pause at once, and the error is that of the context.
func TestContextEndsTheWait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end      func(context.Context) (context.Context, context.CancelFunc)
		want     error
		tryAgain bool
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled, false},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Millisecond)
		}, context.DeadlineExceeded, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := test.end(t.Context())
			defer cancel()
			sink, err := kinesissink.New(always{nil, &types.KMSThrottlingException{}}, "s")
			must(t, err)
			begin := time.Now()
			n, err := sink.Send(ctx, records(2))
			if n != 0 || !errors.Is(err, test.want) || errors.Is(err, dedupe.ErrTryAgain) != test.tryAgain {
				t.Errorf("%s: delivered %d: %v", name, n, err)
			}
			if waited := time.Since(begin); waited != time.Millisecond {
				t.Errorf("%s: waited %v", name, waited)
			}
		})
	}
}

// TestBackOff: the pauses grow and have jitter. Together they are longer than the second for which the limits of a
// shard count.
func TestBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		total := time.Duration(0)
		for attempt := 1; attempt < kinesissink.MaxAttempts; attempt++ {
			begin := time.Now()
			must(t, kinesissink.BackOff(t.Context(), attempt))
			took := time.Since(begin)
			if limit := min(time.Second, 100*time.Millisecond<<(attempt-1)); took < limit/2 || took >= limit {
				t.Errorf("attempt %d: %v", attempt, took)
			}
			total += took
		}
		if total < time.Second {
			t.Errorf("all pauses together: %v", total)
		}
	})
}
