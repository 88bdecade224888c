package eventsource

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/uuid"
)

// Run polls all shards in real time. It returns
//
//   - the error of ctx when ctx ends;
//   - nil when all records are done, with StopWhenDrained;
//   - an error when the stream cannot be read.
//
// Each invocation is a goroutine whose context ends at its deadline. After that the goroutine may
// still have effects, but its answer is ignored. No goroutine is left when Run returns.
func (m Mapping) Run(ctx context.Context) error {
	p, err := newPoller(m, time.Now, uuid.NewString)
	if err != nil {
		return err
	}
	r := runner{poller: p, ends: make(chan end)}
	defer func() {
		for r.goroutines > 0 {
			r.take(<-r.ends)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // runs before the wait above
	return r.run(ctx)
}

// runner drives a poller in real time.
type runner struct {
	*poller
	ends       chan end
	goroutines int // the number of running goroutines
}

// end is the end of an invocation or, with a nil inv, of a goroutine.
type end struct {
	inv    *Invocation
	answer json.RawMessage
	err    error
}

func (r *runner) run(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.StopWhenDrained && r.drained() {
			return nil
		}
		actions := r.actions()
		if len(actions) > 0 && !actions[0].at.After(time.Now()) {
			inv, err := actions[0].do(ctx)
			if err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			if inv != nil {
				r.invoke(ctx, inv)
			}
			continue
		}
		var wake <-chan time.Time // nil if more actions come only after the end of an invocation
		if len(actions) > 0 {
			wake = time.After(time.Until(actions[0].at))
		}
		select {
		case e := <-r.ends:
			r.take(e)
			if e.inv != nil && ctx.Err() == nil { // an invocation that the caller stopped has not failed
				r.finish(ctx, e.inv, e.answer, e.err)
			}
		case <-wake:
		case <-ctx.Done():
		}
	}
}

// take counts the goroutines that have ended.
func (r *runner) take(e end) {
	if e.inv == nil {
		r.goroutines--
	}
}

// invoke runs the function and watches the deadline.
func (r *runner) invoke(ctx context.Context, inv *Invocation) {
	r.goroutines += 2
	ctx, cancel := context.WithDeadline(invocationContext(ctx, inv, r.FunctionARN), inv.Deadline)
	done := make(chan end, 1)
	go func() {
		defer func() { r.ends <- end{} }()
		defer cancel()
		call(ctx, r.Function, inv.Event, func(answer json.RawMessage, err error) { done <- end{inv, answer, err} })
	}()
	go func() {
		defer func() { r.ends <- end{} }()
		<-ctx.Done()
		select {
		case e := <-done: // the context ended because the function has answered
			r.ends <- e
		default:
			r.ends <- end{inv, nil, ErrTimedOut}
		}
	}()
}

// call runs the function and reports its result, even if the goroutine ends inside the function.
func call(ctx context.Context, f Function, event json.RawMessage, report func(json.RawMessage, error)) {
	var answer json.RawMessage
	err := ErrCrashed
	defer func() { report(answer, err) }()
	answer, err = f(ctx, event)
}

// invocationContext returns the context of a function with the data of the invocation.
func invocationContext(ctx context.Context, inv *Invocation, functionARN string) context.Context {
	return lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: inv.RequestID, InvokedFunctionArn: functionARN})
}
