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

// callID names the record of a call.
type callID struct {
	runner *idempotency.Runner
	name   string
}

// Begin begins a call for the record of a name. Its user must call End. It refuses a call within its own execution.
func Begin(c Contexts, runner *idempotency.Runner, name string) (*Call, error) {
	id := callID{runner, name}
	if outer, ok := c.Running.Value(executionKey{}).(execution); ok && outer.id == id {
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
	return context.WithValue(ctx, executionKey{}, execution{e, c.id}), nil
}

// End ends the contexts of the call.
func (c *Call) End() {
	c.begin()
	c.end(nil)
}

type executionKey struct{}

// execution is the value of a context under executionKey.
type execution struct {
	idempotency.Execution

	id callID
}

// ExecutionOf returns the execution that ctx belongs to.
func ExecutionOf(ctx context.Context) (idempotency.Execution, bool) {
	e, ok := ctx.Value(executionKey{}).(execution)
	return e.Execution, ok
}
