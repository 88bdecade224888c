package batchsink_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/records/batchsink"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// A fate is the result of a request, or of one record of it.
type fate int

const (
	taken     fate = iota
	throttled      // refused, and certainly not stored
	doubtful       // stored, but reported as failed
	lost           // not stored, and reported as failed with an unknown effect
	fates
)

// destination stores records. It checks the limits of each request and the order in each group.
type destination struct {
	t      rapid.TB
	api    *batchsink.API
	record func(o dedupe.Output) fate // the fate of one record
	fail   func(o dedupe.Output) fate // the fate of the request that begins with the record

	mu       sync.Mutex
	requests [][]string
	stored   map[string]int  // the number of copies of each record
	answered map[string]bool // whether an answer reported the record as delivered
	all      []dedupe.Output
	most     int // the largest number of requests at the same time
	running  int
}

func newDestination(t rapid.TB, grouped bool) *destination {
	d := &destination{
		t: t, stored: map[string]int{}, answered: map[string]bool{},
		record: func(dedupe.Output) fate { return taken }, fail: func(dedupe.Output) fate { return taken },
	}
	d.api = &batchsink.API{
		Doing: "test: put", Advice: map[string]string{"Gone": "choose another place"}, MaxRecords: 5, MaxBytes: 100, Parallel: 3,
		Size: func(o dedupe.Output) int { return len(o.Data) }, Put: d.put,
		Wait: func(ctx context.Context, _ int) error { return ctx.Err() },
	}
	if grouped {
		d.api.Group = func(o dedupe.Output) string { return o.PartitionKey }
	}
	return d
}

func (d *destination) put(_ context.Context, outputs []dedupe.Output) ([]*batchsink.RefusalError, error) {
	d.mu.Lock()
	d.running++
	d.most = max(d.most, d.running)
	d.check(outputs)
	d.mu.Unlock()
	time.Sleep(time.Millisecond) // so that requests overlap, which most counts
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	switch d.fail(outputs[0]) {
	case taken:
	case throttled:
		return nil, &smithy.GenericAPIError{Code: "ThrottlingException", Fault: smithy.FaultClient}
	case doubtful:
		for _, o := range outputs {
			d.stored[o.ID]++
		}
		return nil, &smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}
	default:
		return nil, &smithy.GenericAPIError{Code: "InternalFailure", Fault: smithy.FaultServer}
	}
	results := make([]*batchsink.RefusalError, len(outputs))
	for i, o := range outputs {
		switch d.record(o) {
		case taken:
			d.stored[o.ID]++
			d.answered[o.ID] = true
		case throttled:
			results[i] = &batchsink.RefusalError{Code: "Throttled", Transient: true, Certain: true}
		case doubtful:
			d.stored[o.ID]++
			results[i] = &batchsink.RefusalError{Code: "InternalFailure", Transient: true}
		default:
			results[i] = &batchsink.RefusalError{Code: "InternalFailure", Transient: true}
		}
	}
	return results, nil
}

func (d *destination) check(outputs []dedupe.Output) {
	size := 0
	var ids []string
	for _, o := range outputs {
		size, ids = size+len(o.Data), append(ids, o.ID)
		if d.api.Group == nil {
			continue
		}
		for _, earlier := range d.all {
			if earlier.ID == o.ID {
				break
			}
			if earlier.PartitionKey == o.PartitionKey && !d.answered[earlier.ID] {
				d.t.Errorf("%s is sent before %s is delivered, and both have the key %s", o.ID, earlier.ID, o.PartitionKey)
			}
		}
	}
	if len(outputs) > d.api.MaxRecords || size > d.api.MaxBytes && len(outputs) > 1 {
		d.t.Errorf("a request of %d records and %d bytes", len(outputs), size)
	}
	d.requests = append(d.requests, ids)
}

func (d *destination) send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	d.all = outputs
	return d.api.Send(ctx, outputs)
}

func (d *destination) copies() (n int) {
	for _, stored := range d.stored {
		n += stored - 1
	}
	return n
}

// records returns n records with the given number of keys, of 10 bytes each.
func records(n, keys int) []dedupe.Output {
	outputs := make([]dedupe.Output, n)
	for i := range outputs {
		outputs[i] = dedupe.Output{
			ID: fmt.Sprint("id-", i), PartitionKey: fmt.Sprint("key-", i%keys), Data: fmt.Appendf(nil, "%010d", i),
		}
	}
	return outputs
}

// TestSend plays faults of all kinds. A record that Send names as delivered must be delivered, every copy must be
// counted, and no record may overtake a record of its group.
func TestSend(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDestination(t, rapid.Bool().Draw(t, "grouped"))
		faulty, seed := rapid.IntRange(0, 60).Draw(t, "percent of faults"), rapid.Uint64().Draw(t, "seed")
		certain := true // it is certain how many copies there are
		asked := map[string]uint64{}
		next := func(what string, percent int) fate { // independent of the order of requests
			h := fnv.New64a()
			_, _ = h.Write([]byte(what))
			random := rand.New(rand.NewPCG(seed+h.Sum64(), asked[what]))
			asked[what]++
			if random.IntN(100) >= percent {
				return taken
			}
			f := fate(1 + random.IntN(int(fates)-1))
			certain = certain && f != lost
			return f
		}
		d.record = func(o dedupe.Output) fate { return next(o.ID, faulty) }
		d.fail = func(o dedupe.Output) fate { return next("request of "+o.ID, faulty/3) }
		outputs := records(rapid.IntRange(0, 40).Draw(t, "records"), rapid.IntRange(1, 10).Draw(t, "keys"))
		sent, err := d.send(t.Context(), outputs)
		if len(sent.Delivered) != len(outputs) {
			t.Fatalf("%d results for %d records", len(sent.Delivered), len(outputs))
		}
		for i, o := range outputs {
			if sent.Delivered[i] != d.answered[o.ID] {
				t.Errorf("%s: delivered %t, answered %t", o.ID, sent.Delivered[i], d.answered[o.ID])
			}
		}
		if all := !slices.Contains(sent.Delivered, false); all != (err == nil) || err != nil && !errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("all delivered: %t, error %v", all, err)
		}
		if copies := d.copies(); copies > sent.Repeated || certain && copies != sent.Repeated {
			t.Errorf("%d copies, %d counted", copies, sent.Repeated)
		}
	})
}

// TestRequestsAreFewAndParallel checks that records without an order fill their requests, and that several requests
// run at the same time.
func TestRequestsAreFewAndParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDestination(t, false)
		sent, err := d.send(t.Context(), records(23, 1))
		if err != nil || sent.Repeated != 0 || len(d.requests) != 5 || d.most != 3 {
			t.Errorf("%d requests, %d at a time: %v", len(d.requests), d.most, err)
		}
		d = newDestination(t, false)
		outputs := records(4, 1)
		for i, size := range []int{60, 40, 1, 101} {
			outputs[i].Data = make([]byte, size)
		}
		if _, err = d.send(t.Context(), outputs); err != nil || len(d.requests) != 3 {
			t.Errorf("requests of %v: %v", d.requests, err)
		}
		d = newDestination(t, true)
		if _, err = d.send(t.Context(), records(20, 5)); err != nil || len(d.requests) != 4 {
			t.Errorf("a request holds one record of each key, but there are %v: %v", d.requests, err)
		}
	})
}

// TestOneGroupIsLinear checks that the memory for a record does not grow with the records of its group, which may be
// 100,000 in one aggregate. The test is not parallel, since it counts what the process takes.
func TestOneGroupIsLinear(t *testing.T) {
	api := batchsink.API{
		Doing: "test", MaxRecords: 10, MaxBytes: 1 << 20, Parallel: 2, Size: func(dedupe.Output) int { return 1 },
		Group: func(dedupe.Output) string { return "one" },
		Put: func(_ context.Context, outputs []dedupe.Output) ([]*batchsink.RefusalError, error) {
			return make([]*batchsink.RefusalError, len(outputs)), nil
		},
	}
	perRecord := func(n int) uint64 {
		outputs := make([]dedupe.Output, n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := api.Send(t.Context(), outputs)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	few, many := perRecord(1000), perRecord(10_000)
	t.Logf("%d and %d bytes a record", few, many)
	if many > 2*few {
		t.Errorf("a record takes %d bytes among 1,000 records, and %d among 10,000", few, many)
	}
}

// TestRefusedGroupHoldsUpNoOther checks that the other groups are delivered in the first round.
func TestRefusedGroupHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	d := newDestination(t, true)
	d.record = func(o dedupe.Output) fate {
		if o.ID == "id-1" {
			return throttled
		}
		return taken
	}
	sent, err := d.send(t.Context(), records(20, 5))
	for i, delivered := range sent.Delivered {
		if delivered != (i%5 != 1) {
			t.Errorf("record %d: delivered %t", i, delivered)
		}
	}
	if !errors.Is(err, dedupe.ErrTryAgain) || len(d.requests) != 4+batchsink.MaxAttempts-1 || sent.Repeated != 0 {
		t.Errorf("%d requests, %d repeated: %v", len(d.requests), sent.Repeated, err)
	}
}

// TestSendUsesItsTime checks that Send with a deadline goes on until the deadline, and that it ends at once after an
// error that no retry can cure.
func TestSendUsesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDestination(t, false)
		d.api.Wait = pause.BackOff
		d.record = func(dedupe.Output) fate { return throttled }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		_, err := d.send(ctx, records(3, 1))
		if took := time.Since(begun); took != time.Minute || !errors.Is(err, dedupe.ErrTryAgain) || len(d.requests) < 60 ||
			!strings.Contains(err.Error(), "Throttled") {
			t.Errorf("after %v and %d requests: %v", took, len(d.requests), err)
		}
		d.requests = nil
		cancelled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err = d.send(cancelled, records(3, 1)); !errors.Is(err, context.Canceled) || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("cancelled: %v", err)
		}
		d.requests = nil
		d.api.Put = func(context.Context, []dedupe.Output) ([]*batchsink.RefusalError, error) {
			d.requests = append(d.requests, nil)
			return nil, &smithy.GenericAPIError{Code: "Gone", Fault: smithy.FaultClient}
		}
		_, err = d.send(t.Context(), records(3, 1))
		if len(d.requests) != 1 || errors.Is(err, dedupe.ErrTryAgain) || !strings.Contains(err.Error(), "choose another place") {
			t.Errorf("%d requests: %v", len(d.requests), err)
		}
	})
}

// TestHopelessErrorIsReturned checks that, of several errors, Send returns the one that no retry can cure.
func TestHopelessErrorIsReturned(t *testing.T) {
	t.Parallel()
	d := newDestination(t, false)
	d.api.Put = func(_ context.Context, outputs []dedupe.Output) ([]*batchsink.RefusalError, error) {
		results := make([]*batchsink.RefusalError, len(outputs))
		for i := range results {
			results[i] = &batchsink.RefusalError{Code: "Busy", Transient: true, Certain: true}
		}
		results[1] = &batchsink.RefusalError{Code: "Gone", Certain: true}
		return results, nil
	}
	if _, err := d.send(t.Context(), records(3, 1)); errors.Is(err, dedupe.ErrTryAgain) ||
		err.Error() != "test: put: choose another place: record refused: Gone: " {
		t.Error(err)
	}
	d.api.Put = func(context.Context, []dedupe.Output) ([]*batchsink.RefusalError, error) { return nil, nil }
	sent, err := d.send(t.Context(), records(3, 1))
	if slices.Contains(sent.Delivered, true) || !errors.Is(err, dedupe.ErrTryAgain) || sent.Repeated != 3*(batchsink.MaxAttempts-1) {
		t.Errorf("an answer without results: %+v, %v", sent, err)
	}
}
