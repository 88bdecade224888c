package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Outcome is what a call returns without an error. All calls of a key return the same value within the window.
type Outcome[Out any] struct {
	Value Out
	// Replayed says that this call did not run the function to its result: the value comes from the record.
	Replayed bool
	// Number is the number of the execution that made the value.
	Number int64
	// NotStored says that the value could not be stored. Later calls get ErrResultNotStored.
	NotStored bool
}

// function is a function of the untyped form.
type function = func(ctx context.Context, e Execution) (Result, error)

// Result is a result as bytes.
type Result struct {
	ContentType string
	Body        []byte
}

func (r Result) size() int { return len(r.ContentType) + len(r.Body) }

const jsonType = "application/json"

// Do runs fn once for the key, and returns its result to every call of the key. The input is the payload: its JSON must
// be the same in each call of the key. The result is stored as JSON, and the value that Do returns is always decoded
// from it, so that the call that ran fn gets the same value as all others.
//
// fn must end soon after its context. It may change in. After fn, Do stores the result, also if ctx has ended. If the
// store fails, that can take until the end of the lease.
//
// The package documentation has the errors, and what is safe to repeat.
func Do[In, Out any](
	ctx context.Context, r *Runner, key string, in In, fn func(ctx context.Context, e Execution, in In) (Out, error),
) (Outcome[Out], error) {
	payload, err := json.Marshal(in)
	if err != nil {
		return Outcome[Out]{}, &InvalidError{"input", "it has no JSON: " + err.Error()}
	}
	var returned Out
	outcome, err := r.Do(ctx, key, payload, func(ctx context.Context, e Execution) (Result, error) {
		value, err := fn(ctx, e, in)
		if err != nil {
			return Result{}, err
		}
		returned = value
		body, err := encode(value)
		if err != nil {
			return Result{}, &unstorable{err}
		}
		return Result{jsonType, body}, nil
	})
	typed := Outcome[Out]{Replayed: outcome.Replayed, Number: outcome.Number, NotStored: outcome.NotStored}
	switch {
	case err != nil:
		return typed, err
	case outcome.NotStored:
		typed.Value = returned
	default:
		if err := json.Unmarshal(outcome.Value.Body, &typed.Value); err != nil {
			return typed, fmt.Errorf("%w: %w", ErrResultUnreadable, err)
		}
	}
	return typed, nil
}

// encode returns the JSON of a result. A panic of a MarshalJSON is an error: the function has run, so the key must not
// become free.
func encode(value any) (body []byte, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return json.Marshal(value)
}

// Do is the untyped form of the function Do. It stores the bytes that fn returns, and the hash of the payload. A panic
// of fn frees the key and goes on.
func (r *Runner) Do(
	ctx context.Context, key string, payload []byte, fn func(ctx context.Context, e Execution) (Result, error),
) (outcome Outcome[Result], err error) {
	if err := checkName("key", key); err != nil {
		return Outcome[Result]{}, err
	}
	c, err := r.newCall(ctx, key, payload)
	if err != nil {
		return Outcome[Result]{}, err
	}
	defer func() { r.observe(ctx, c, outcome, err) }()
	if r.settings.DoNotWait {
		record, ran, err := c.run(ctx, fn)
		return c.outcome(record, ran, err)
	}
	line, done, err := r.turns.take(ctx, turnKey{c.key, c.payload}, &c.report.Waited)
	if err != nil {
		return Outcome[Result]{}, err
	}
	defer done()
	if last, _ := c.useCopy(line.last, r.server.Late()); last != nil { // it is of the same payload
		return c.outcome(last, nil, nil)
	}
	record, ran, err := c.run(ctx, fn)
	line.last = record
	return c.outcome(record, ran, err)
}

// outcome returns what the caller gets. ran is what the function returned in this call, if the record is its own.
func (c *call) outcome(record *engine.Record, ran *returned, err error) (Outcome[Result], error) {
	if err != nil {
		return Outcome[Result]{}, err
	}
	outcome := Outcome[Result]{Replayed: ran == nil, Number: record.Number}
	switch {
	case record.Result.Kind == engine.Failure:
		failed := &FailedError{Text: string(record.Result.Body)}
		if ran != nil {
			failed.Cause = causeOf(ran.err)
		}
		return outcome, failed
	case record.Result.Kind == engine.Value:
		outcome.Value = Result{record.Result.ContentType, bytes.Clone(record.Result.Body)}
	case ran == nil:
		return outcome, fmt.Errorf("%w: %s", ErrResultNotStored, record.Result.Body)
	default:
		outcome.Value, outcome.NotStored = ran.result, true
	}
	return outcome, nil
}

// returned is what the function returned.
type returned struct {
	result  Result
	err     error
	effects Effects
}

// stored returns what the record keeps. It returns false if the function has failed and the key becomes free.
func (f *returned) stored(limit int) (engine.Result, bool) {
	missing := func(why string) (engine.Result, bool) {
		return engine.Result{Kind: engine.Missing, Body: shorten(why, limit)}, true
	}
	_, isFinal := errors.AsType[*finalError](f.err)
	broken, isBroken := errors.AsType[*unstorable](f.err)
	switch {
	case isBroken:
		return missing("it cannot be encoded: " + broken.Error())
	case isFinal:
		return engine.Result{Kind: engine.Failure, Body: shorten(f.err.Error(), limit)}, true
	case f.err != nil:
		return engine.Result{}, false
	case f.result.size() > limit:
		return missing(fmt.Sprintf("it has %d bytes, and the store keeps up to %d", f.result.size(), limit))
	case !utf8.ValidString(f.result.ContentType):
		return missing("its content type is not valid UTF-8")
	}
	return engine.Result{Kind: engine.Value, ContentType: f.result.ContentType, Body: bytes.Clone(f.result.Body)}, true
}

// causeOf returns what Final marked, without any mark. With a mark, a caller that is a function under another key could
// return the error, and its own failure would be final by that.
func causeOf(err error) error {
	for {
		final, ok := errors.AsType[*finalError](err)
		if !ok {
			return err
		}
		err = final.error
	}
}

// maxText is how many bytes of a text for people are stored.
const maxText = 4096

// shorten returns the begin of a text for people. A text is never a reason why a record does not complete.
func shorten(text string, limit int) []byte {
	return []byte(strings.ToValidUTF8(text[:min(len(text), maxText, limit)], ""))
}
