package idempotency

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// The families of errors. Every error of a Runner belongs to one of them, except two: an error of the function comes
// back as it is, and ctx.Err() when the context ends before the function began.
var (
	// ErrInvalid says that the input is wrong. The function did not run. The error is an *InvalidError.
	ErrInvalid = errors.New("idempotency: invalid input")

	// ErrRefused says that the record of the key has no result for the call, or does not allow it. While the record
	// counts, a repeat gets the same error and does not run the function.
	ErrRefused = errors.New("idempotency: refused")

	// ErrTryAgain says that the store was busy, throttled or out of reach, or that another call holds the key. Repeat
	// the same call with the same key: that is safe, and gets what the record says.
	ErrTryAgain = engine.ErrTryAgain
)

// The members of ErrRefused.
var (
	// ErrOtherPayload says that the key belongs to a call with another payload.
	ErrOtherPayload = member(ErrRefused, "the key was used with another payload; use a new key for a new operation")
	// ErrResultNotStored says that the function has run, and that its result was too large or could not be encoded. The
	// call that ran the function got the result. No later call gets it, and none runs the function again.
	ErrResultNotStored = member(ErrRefused, "the function has run for the key, but its result could not be stored")
	// ErrResultUnreadable says that the stored result cannot be decoded into the type of the call. A new version of the
	// function may have changed the type. The function does not run again.
	ErrResultUnreadable = member(ErrRefused, "the stored result of the key does not fit the type of the result")
	// ErrFailed comes as a *FailedError: the function failed, and said that the failure is final (see Final).
	ErrFailed = member(ErrRefused, "the function has failed for the key, and the failure is final")
)

// The members of ErrRefused that only Evict returns.
var (
	// ErrNoRecord says that the key has no record, so that it is free.
	ErrNoRecord = member(ErrRefused, "the key has no record in the namespace")
	// ErrOtherExecution says that the record belongs to another execution than the one to evict.
	ErrOtherExecution = member(ErrRefused, "the record belongs to another execution")
	// ErrChanged says that the record has changed since Evict read it: the execution has completed or given the key
	// back, or another one has begun.
	ErrChanged = member(ErrRefused, "the record changed meanwhile; look at it again")
)

// The members of ErrTryAgain.
var (
	// ErrInProgress comes as an *InProgressError: another call holds the key. The function did not run in this call.
	ErrInProgress = member(ErrTryAgain, "another call with the key is running")
	// ErrOutcomeUnknown says that the function has run, but that the store did not confirm that its result is stored.
	// A repeat gets the result if it was stored. If it was not, a repeat runs the function again after the lease.
	ErrOutcomeUnknown = member(ErrTryAgain, "the function has run, but the store did not confirm its result")
	// ErrLeaseLost says that the function ran longer than its lease, and that another call may have the key. Its own
	// result is discarded. It is also the cause (context.Cause) of the function's context when the lease ends.
	ErrLeaseLost = member(ErrTryAgain, "the lease of the key ended while the function ran; its result is discarded")
)

// InvalidError says which input is wrong and what it must look like.
type InvalidError struct {
	Field  string // the input's name, such as "key"
	Detail string // what is wrong and what to do; never contains the key or the payload
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// Is reports whether target is ErrInvalid, the family of the error.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// InProgressError says how long the other call can still hold the key. Its heartbeat may prolong that.
type InProgressError struct{ Left time.Duration }

func (e *InProgressError) Error() string {
	return fmt.Sprintf("%v; it holds the key for up to %s", ErrInProgress, e.Left.Round(time.Millisecond))
}

// Unwrap returns ErrInProgress.
func (e *InProgressError) Unwrap() error { return ErrInProgress }

// FailedError is a final failure of the function. Every call of the key gets the same text.
type FailedError struct {
	Text string
	// Cause is the error of the function. Only the call that ran the function has it.
	Cause error
}

func (e *FailedError) Error() string { return e.Text }

// Is reports whether target is ErrFailed or its family, ErrRefused.
func (e *FailedError) Is(target error) bool { return target == ErrFailed || target == ErrRefused }

// Unwrap returns the error of the function, if this call ran it.
func (e *FailedError) Unwrap() error { return e.Cause }

// Final marks an error of the function as its result: the record completes with its text, and all later calls get a
// *FailedError with that text. Without Final a failure frees the key, and the next call runs the function again. The
// error can be wrapped.
func Final(err error) error { return &finalError{err} }

type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// unstorable is the error of a function whose result cannot be encoded. The function has run.
type unstorable struct{ error }

// errNoDate says that an engine broke its contract.
var errNoDate = errors.New("idempotency: the store gave no time with its answer; the engine has a bug")

// member makes a member of a family. Its text does not repeat the text of the family.
func member(family error, text string) error { return &memberError{family, text} }

type memberError struct {
	family error
	text   string
}

func (e *memberError) Error() string { return e.text }
func (e *memberError) Unwrap() error { return e.family }
