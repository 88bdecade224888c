// Package batchsink sends records with an API that takes several records in a request and answers with a result for
// each. Packages firehosesink and sqssink use it. Package kinesissink, whose requests have aggregates, uses its
// attempts and errors.
package batchsink

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// If its context has no deadline, a Send gives up after MaxAttempts without progress, which take about three seconds.
// The limits of the services are per second. So after that time the destination is far too small, or broken.
const (
	MaxAttempts = 6
)

// API describes a destination to Send.
type API struct {
	Doing  string            // the operation and its destination, as the beginning of each error
	Advice map[string]string // what to do about an error, by its code

	MaxRecords, MaxBytes int // the limits of a request
	Parallel             int // the number of requests at the same time
	// Size returns the number of bytes that a record takes in a request.
	Size func(o dedupe.Output) int
	// Group returns the group of a record. Records of one group are sent one after the other. If Group is nil, the
	// records have no order.
	Group func(o dedupe.Output) string
	// Put sends one request. It returns a result for each record: nil, or a *RefusalError.
	Put func(ctx context.Context, outputs []dedupe.Output) ([]*RefusalError, error)
	// Wait waits before the next attempt. BackOff is the usual function.
	Wait func(ctx context.Context, attempt int) error
}

// Send delivers records, as dedupe.Sink says. It sends refused records, and records without an answer, again, with
// pauses, until the deadline of the context. If the context has no deadline, Send gives up after MaxAttempts without
// progress. It gives up at once after an error that no retry can cure.
//
// If a record is not delivered, Send sends no later record of its group.
func (a *API) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	d := newDelivery(a, outputs)
	err := a.Repeat(ctx, d.open, func(ctx context.Context) (open int, err error) {
		err = d.round(ctx)
		return d.open, err
	})
	return d.sent, err
}

// Repeat runs rounds until no output is open: a round returns how many are not delivered. It pauses after a round that
// fails. After a round without an error, the next one begins at once.
func (a *API) Repeat(ctx context.Context, open int, round func(context.Context) (open int, err error)) (err error) {
	_, limited := ctx.Deadline()
	for attempt := 1; open > 0; attempt++ {
		before := open
		open, err = round(ctx)
		if err == nil || open < before {
			attempt = 1
		}
		switch {
		case err == nil:
			continue
		case !errors.Is(err, dedupe.ErrTryAgain), attempt == MaxAttempts && !limited:
			return err
		}
		if ended := a.Wait(ctx, attempt); ended != nil {
			return a.Translate(fmt.Errorf("%w; before that: %s", ended, err.Error()))
		}
	}
	return nil
}

// delivery is one Send.
type delivery struct {
	api     *API
	outputs []dedupe.Output
	groups  []string // the groups of the outputs; nil if they have no order

	mu             sync.Mutex // guards the fields below
	maybeDelivered []bool     // an earlier request may have delivered the output
	open           int        // the number of outputs that are not delivered
	sent           dedupe.Sent
}

func newDelivery(a *API, outputs []dedupe.Output) *delivery {
	n := len(outputs)
	d := &delivery{
		api: a, outputs: outputs, maybeDelivered: make([]bool, n), open: n, sent: dedupe.Sent{Delivered: make([]bool, n)},
	}
	if a.Group != nil {
		d.groups = make([]string, n)
		for i, o := range outputs {
			d.groups[i] = a.Group(o)
		}
	}
	return d
}

// round sends all outputs that are not delivered, except for outputs after a refused output of their group. It ends
// after a failed request. It returns the reason why an output is not delivered. A reason that no retry can cure comes
// first.
func (d *delivery) round(ctx context.Context) error {
	var refused error
	for wave, next := d.firstWave(); len(wave) > 0; wave = d.nextWave(wave, next) {
		why, err := d.sendWave(ctx, wave)
		refused = moreSerious(refused, why)
		if err != nil || refused != nil && !errors.Is(refused, dedupe.ErrTryAgain) {
			return moreSerious(err, refused)
		}
	}
	return refused
}

// firstWave returns the outputs that may be sent at the same time: the first output of each group that is not
// delivered. next has for each output the next one of its group, or 0. It looks at each output once, also if all
// outputs are of one group.
func (d *delivery) firstWave() (wave, next []int) {
	next = make([]int, len(d.outputs))
	last := map[string]int{} // the last output of each group
	for i, delivered := range d.sent.Delivered {
		if delivered {
			continue
		}
		if d.groups == nil {
			wave = append(wave, i)
			continue
		}
		if before, found := last[d.groups[i]]; found {
			next[before] = i
		} else {
			wave = append(wave, i)
		}
		last[d.groups[i]] = i
	}
	return wave, next
}

// nextWave returns the outputs that follow those of a wave. The outputs of a group wait if the one before is not
// delivered.
func (d *delivery) nextWave(wave, next []int) (following []int) {
	for _, i := range wave {
		if d.sent.Delivered[i] && next[i] != 0 {
			following = append(following, next[i])
		}
	}
	return following
}

// sendWave sends outputs in as few requests as the limits allow. It begins no request after a failed one.
func (d *delivery) sendWave(ctx context.Context, wave []int) (refused, failed error) {
	var requests errgroup.Group
	requests.SetLimit(d.api.Parallel)
	hasFailed := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return failed != nil
	}
	for len(wave) > 0 && !hasFailed() {
		n := d.fitting(wave)
		request := wave[:n]
		wave = wave[n:]
		requests.Go(func() error {
			why, err := d.put(ctx, request)
			d.mu.Lock()
			defer d.mu.Unlock()
			refused, failed = moreSerious(refused, why), moreSerious(failed, err)
			return nil
		})
	}
	_ = requests.Wait() // always nil: errors are in failed, since an error must not cancel the other requests
	return refused, failed
}

// fitting returns the number of outputs that fit into one request. It is at least 1.
func (d *delivery) fitting(wave []int) (n int) {
	size := 0
	for n < len(wave) && n < d.api.MaxRecords {
		size += d.api.Size(d.outputs[wave[n]])
		if n > 0 && size > d.api.MaxBytes {
			break
		}
		n++
	}
	return n
}

// put sends one request and records which outputs are delivered.
func (d *delivery) put(ctx context.Context, request []int) (refused, failed error) {
	outputs := make([]dedupe.Output, len(request))
	for i, at := range request {
		outputs[i] = d.outputs[at]
	}
	results, err := d.api.Put(ctx, outputs)
	if err == nil && len(results) != len(request) {
		err = ErrMisfit
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if !awserror.IsRefusal(err) {
			for _, i := range request {
				d.countCopy(i)
			}
		}
		return nil, d.api.Translate(err)
	}
	for at, why := range results {
		i := request[at]
		if why == nil || !why.Certain {
			d.countCopy(i)
		}
		if why != nil {
			refused = moreSerious(refused, d.api.Translate(why))
			continue
		}
		d.sent.Delivered[i] = true
		d.open--
	}
	return refused, nil
}

// countCopy records that a request may have delivered an output. If an earlier request may have done so, too, it
// counts a copy.
func (d *delivery) countCopy(i int) {
	if d.maybeDelivered[i] {
		d.sent.Repeated++
	}
	d.maybeDelivered[i] = true
}

// moreSerious returns the error to report: an error that no retry can cure, or else the first.
func moreSerious(first, second error) error {
	if first == nil || second != nil && errors.Is(first, dedupe.ErrTryAgain) && !errors.Is(second, dedupe.ErrTryAgain) {
		return second
	}
	return first
}
