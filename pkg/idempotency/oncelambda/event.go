package oncelambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/oncebox/oncebox/internal/aws/deadline"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/internal/exchange"
)

// Selector returns a part of an event or a message: its key, or what is compared with it. "" means that there is none.
// JMESPath makes a Selector. An error refuses the event.
type Selector[In any] = func(ctx context.Context, in In) (string, error)

// Settings are the choices of Event, SQS, Kinesis and DynamoDB. The zero value of each has its default.
type Settings[In any] struct {
	// Key returns the key. Event has no default. A message has its id, which protects from redelivery, and not from a
	// producer that sends the same twice: choose a part of the body for that.
	Key Selector[In]
	// Payload returns what must be the same in every call of a key. Another payload is refused with
	// idempotency.ErrOtherPayload. By default Event compares nothing but the key, as Powertools does: the rest of an event
	// may change when it is sent again. A message has its body, because nobody would see that another message with the
	// key is dropped.
	Payload Selector[In]
	// KeyOptional runs the handler for an event without a key, each time: nothing protects it, and ExecutionOf finds no
	// execution. By default it is refused with idempotency.ErrInvalid.
	KeyOptional bool
	// Log gets a line for each message that is not done. The default is slog.Default(). Event does not use it: Lambda
	// logs the error of an invocation.
	Log *slog.Logger
}

// check refuses a Runner or a handler that is nil.
func check(runner *idempotency.Runner, hasHandler bool) error {
	switch {
	case runner == nil:
		return &idempotency.InvalidError{Field: "runner", Detail: "it is nil"}
	case !hasHandler:
		return &idempotency.InvalidError{Field: "handler", Detail: "it is nil"}
	}
	return nil
}

// find returns the key and the payload of an event, before the handler can change it. A key "" means that the handler
// runs unprotected.
func (s Settings[In]) find(ctx context.Context, in In) (key, payload string, err error) {
	key, err = s.Key(ctx, in)
	switch {
	case err != nil:
		return "", "", err
	case key == "" && !s.KeyOptional:
		return "", "", &idempotency.InvalidError{
			Field: "event", Detail: "it has no key; with KeyOptional it would run without protection",
		}
	case key == "" || s.Payload == nil:
		return key, key, nil
	}
	payload, err = s.Payload(ctx, in)
	return key, payload, err
}

// ErrDurable means that an event is an invocation of a durable execution. Its result may be that the execution waits,
// and each later invocation would get that.
var ErrDurable = errors.New("oncelambda: the event belongs to a durable execution; wrap what its steps do, with " +
	"idempotency.Do, and not the function; give the execution a name so that it starts once")

// errNoTime means that a call has waited for another one.
var errNoTime = fmt.Errorf("%w: the deadline of the invocation is near, and the handler has not begun",
	idempotency.ErrTryAgain)

// Event wraps a handler of any event that a function is invoked with, such as a direct invocation, a task of Step
// Functions, or an event of EventBridge. Its result is returned to every later invocation with the key.
//
// Out is stored as JSON, and always decoded from it. An error of the handler frees the key, and is the error of the
// invocation; with idempotency.Final it is the result. The other errors come from idempotency.Do, and ErrDurable. All
// can be repeated with the same event.
//
// An invocation that waits for another one with its key ends with an idempotency.ErrTryAgain half a second before its
// deadline. Any number of invocations may run in one process.
func Event[In, Out any](
	runner *idempotency.Runner, s Settings[In], next Handler[In, Out],
) (Handler[In, Out], error) {
	if err := check(runner, next != nil); err != nil {
		return nil, err
	}
	if s.Key == nil {
		return nil, &idempotency.InvalidError{
			Field: "Key", Detail: "it is nil: say what names an operation, with a function or with JMESPath",
		}
	}
	return func(ctx context.Context, in In) (out Out, err error) {
		if isDurable(in) {
			return out, ErrDurable
		}
		key, payload, err := s.find(ctx, in)
		switch {
		case err != nil:
			return out, err
		case key == "":
			return next(exchange.Unprotected(ctx), in)
		}
		waiting, end := deadline.WithMargin(ctx)
		defer end()
		return once(exchange.Contexts{Waiting: waiting, Running: ctx}, runner, key, payload,
			func(ctx context.Context) (Out, error) { return next(ctx, in) })
	}, nil
}

// once runs a function once for a key.
func once[Out any](
	c exchange.Contexts, runner *idempotency.Runner, key, payload string, run func(context.Context) (Out, error),
) (out Out, err error) {
	call, err := exchange.Begin(c, runner, key)
	if err != nil {
		return out, err
	}
	defer call.End()
	begun := false
	outcome, err := idempotency.Do(call.Context, runner, key, []byte(payload), // as text it would lose wrong UTF-8
		func(ctx context.Context, e idempotency.Execution, _ []byte) (out Out, err error) {
			if ctx, err = call.Enter(ctx, e); err != nil {
				return out, err
			}
			begun = true
			return run(ctx)
		})
	if err != nil && !begun && errors.Is(err, context.Canceled) && c.Waiting.Err() != nil {
		err = errNoTime
	}
	return outcome.Value, err
}

// isDurable reports whether an event is what Lambda invokes a function with for a durable execution.
func isDurable(in any) bool {
	switch event := in.(type) {
	case json.RawMessage:
		var members struct {
			Execution string `json:"DurableExecutionArn"`
			Token     string `json:"CheckpointToken"`
		}
		return json.Unmarshal(event, &members) == nil && members.Execution != "" && members.Token != ""
	case map[string]any:
		execution, _ := event["DurableExecutionArn"].(string)
		token, _ := event["CheckpointToken"].(string)
		return execution != "" && token != ""
	}
	return false // a type of Go has not kept it
}

// ExecutionOf returns the execution that the context of a handler belongs to. It returns false for an event that runs
// without a key.
func ExecutionOf(ctx context.Context) (idempotency.Execution, bool) { return exchange.ExecutionOf(ctx) }
