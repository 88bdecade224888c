package exchange

import (
	"context"
	"errors"

	"github.com/oncebox/oncebox/pkg/idempotency"
)

// Contexts are the contexts of a call.
type Contexts struct {
	// Waiting ends the call as long as the function has not begun.
	Waiting context.Context
	// Running is the parent of the function's context, with all its values.
	Running context.Context
}

// errWrappedTwice says that a call comes from its own execution, for whose end it would wait.
var errWrappedTwice = errors.New("the handler is wrapped twice; wrap it once")

// Call is a call of a Runner that can end before its function begins, and whose function finds its execution in its
// context.
type Call struct {
	Context context.Context // for the Runner; ends when the call must not wait longer
	id      callID
	begin   func() bool
	end     context.CancelCauseFunc
}

// callID names the record of a call. In a context it is the key that says that its execution is around.
type callID struct {
	runner *idempotency.Runner
	name   string
}

// Begin begins a call for the record of a name. Its user must call End. It refuses a call within its own execution.
func Begin(c Contexts, runner *idempotency.Runner, name string) (*Call, error) {
	id := callID{runner, name}
	if c.Running.Value(id) != nil { // also if another call is between them
		return nil, errWrappedTwice
	}
	ctx, end := context.WithCancelCause(c.Running)
	begin := context.AfterFunc(c.Waiting, func() { end(context.Cause(c.Waiting)) })
	return &Call{ctx, id, begin, end}, nil
}

// Enter is the first thing that the function does: from then on the call does not end with Contexts.Waiting. It returns
// the function's context, or an error if the call has ended already.
func (c *Call) Enter(ctx context.Context, e idempotency.Execution) (context.Context, error) {
	if !c.begin() {
		return nil, context.Canceled
	}
	return context.WithValue(context.WithValue(ctx, c.id, true), executionKey{}, e), nil
}

// End ends the contexts of the call.
func (c *Call) End() {
	c.begin()
	c.end(nil)
}

// Unprotected returns the context of a function that no key protects. If it is called within an execution, it does not
// find that one, whose KeyFor would be the same in each call.
func Unprotected(ctx context.Context) context.Context {
	return context.WithValue(ctx, executionKey{}, nil)
}

type executionKey struct{}

// ExecutionOf returns the execution that ctx belongs to.
func ExecutionOf(ctx context.Context) (idempotency.Execution, bool) {
	e, ok := ctx.Value(executionKey{}).(idempotency.Execution)
	return e, ok
}
