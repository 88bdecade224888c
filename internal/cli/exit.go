package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// These are the exit codes. Scripts rely on them.
const (
	ExitDone        = 0
	ExitFailed      = 1   // failed because of store, network or disk; safe to repeat
	ExitUsage       = 2   // bad usage or bad input: nothing was changed
	ExitNo          = 3   // the answer is no
	ExitLook        = 4   // done, but something needs attention
	ExitInterrupted = 130 // resumable
)

// UsageError is bad usage or bad input, found before anything was changed.
type UsageError struct {
	Err  error
	Hint string // what to do, as a sentence; may be empty
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// BadUsage returns an error about bad usage or bad input, found before anything was changed. hint says what to do, as a
// sentence; it may be empty.
func BadUsage(err error, hint string) error { return &UsageError{err, hint} }

// hintError adds advice to an error.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// WithHint adds advice to an error, as a sentence.
func WithHint(err error, hint string) error { return &hintError{err, hint} }

// cutError says that a command stopped after it had changed something.
type cutError struct {
	done string // the finished work, as in "after 50 lines"
	err  error
}

func (e *cutError) Error() string { return fmt.Sprintf("stopped %s: %v", e.done, e.err) }
func (e *cutError) Unwrap() error { return e.err }

// Stopped says that a command stopped after it had changed something. done is the finished work, as in
// "after 50 lines".
func Stopped(done string, err error) error { return &cutError{done, err} }

// plainError is an error in plain words. The original error, whose text is for programmers, stays in the chain for
// errors.Is. The log has it at level debug.
type plainError struct {
	text string
	kind error // one of the outcomes below; nil: the outcome of err
	err  error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

// Plain puts an error into plain words. kind is the error of the table of outcomes that it is; nil is the kind of err.
func Plain(text string, kind, err error) error { return &plainError{text, kind, err} }

var (
	// ErrLook says that everything is done, but that something needs attention.
	ErrLook = errors.New("done, with something to look at")
	// errDeadLetters says that records were stored as dead letters.
	errDeadLetters = errors.New("dead letters")
	// ErrEmpty says that no items were ever loaded into the campaign.
	ErrEmpty = errors.New("the campaign is empty: no items were loaded")
	// ErrUnknownItem says that an item was never loaded.
	ErrUnknownItem = errors.New("no such item")
	// ErrUnconfirmed says that the answer was not yes.
	ErrUnconfirmed = errors.New("not confirmed: the answer was not yes; nothing was changed")
	// ErrNoEntry says that the ledger does not know a record.
	ErrNoEntry = errors.New("the ledger has no entry of this id")
	// ErrNoLetter says that nothing of a dead letter is stored.
	ErrNoLetter = errors.New("nothing is stored under this name")
	// ErrNoResult says that a record of idempotency has no result.
	ErrNoResult = errors.New("the record has no result")
	// ErrNoLog says that a scope has no log ledger.
	ErrNoLog = errors.New("there is no log ledger")
)

// deadLettersError says that records were stored as dead letters.
type deadLettersError struct{ text string }

func (e *deadLettersError) Error() string { return e.text }
func (e *deadLettersError) Unwrap() error { return errDeadLetters }

// DeadLetters returns an error which says that records were stored as dead letters.
func DeadLetters(text string) error { return &deadLettersError{text} }

// DeadLettered returns an error if there are dead letters.
func DeadLettered(n int64, place string) error {
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%s could not be processed; see the dead letters in %s", Quantity(n, "record"), place)
	return DeadLetters(text)
}

// outcomes is the only table from an error to its exit code and its code in JSON. The first match counts.
var outcomes = []struct {
	err  error
	exit int
	code string
}{
	{offline.ErrStopped, ExitFailed, "failed"}, // for every cause, because something was changed
	{history.ErrStopped, ExitFailed, "failed"}, // likewise
	{offline.ErrRefused, ExitUsage, "usage"},
	{errDeadLetters, ExitLook, "dead-letters"},
	{ErrLook, ExitLook, "look"},
	{ErrUnconfirmed, ExitNo, "not-confirmed"},
	{itembank.ErrInconsistent, ExitLook, "inconsistent"},
	{history.ErrNoColumn, ExitUsage, "usage"},
	{sqlite.ErrNoAccess, ExitUsage, "no-access"},
	{sqlite.ErrDamaged, ExitUsage, "damaged"},
	{sqlite.ErrDiskFull, ExitFailed, "disk-full"},
	{deadletter.ErrNoLetterName, ExitUsage, "usage"},
	{errNoTable, ExitUsage, "no-table"},
	{errNoCredentials, ExitUsage, "no-credentials"},
	{errDenied, ExitUsage, "no-access"},
	{itembank.ErrTryAgain, ExitFailed, "try-again"},
	{deadletter.ErrNotDone, ExitNo, "not-done"},
	{deadletter.ErrBegun, ExitNo, "begun"},
	{ErrEmpty, ExitNo, "empty"},
	{ErrNoEntry, ExitNo, "no-entry"},
	{ErrNoLog, ExitNo, "no-log"},
	{ErrNoLetter, ExitNo, "no-letter"},
	{ErrNoResult, ExitNo, "no-result"},
	{itembank.ErrSoldOut, ExitNo, "sold-out"},
	{itembank.ErrItemTaken, ExitNo, "item-taken"},
	{itembank.ErrNotOpen, ExitNo, "not-open"},
	{itembank.ErrClosed, ExitNo, "closed"},
	{itembank.ErrNoCampaign, ExitNo, "no-such-campaign"},
	{itembank.ErrNoClaim, ExitNo, "no-claim"},
	{itembank.ErrClaimEnded, ExitNo, "claim-ended"},
	{itembank.ErrClaimedElsewhere, ExitNo, "claimed-elsewhere"},
	{itembank.ErrNotEligible, ExitNo, "not-eligible"},
	{itembank.ErrBlocksLeft, ExitNo, "blocks-left"},
	{itembank.ErrNotReconciled, ExitNo, "not-reconciled"},
	{itembank.ErrLoaded, ExitNo, "loaded"},
	{itembank.ErrDeleted, ExitNo, "deleted"},
	{itembank.ErrChanged, ExitNo, "changed"},
	{itembank.ErrMoved, ExitNo, "moved"},
	{itembank.ErrRestored, ExitNo, "restored"},
	{ErrUnknownItem, ExitNo, "no-such-item"},
	{itembank.ErrRefused, ExitNo, "refused"},
	{itembank.ErrInvalid, ExitUsage, "invalid-input"},
	{sqlite.ErrNotStore, ExitUsage, "no-store"},
	{sqlite.ErrLayout, ExitUsage, "other-layout"},
	{dynamostore.ErrOtherTable, ExitUsage, "no-store"},
	{dynamostore.ErrLayout, ExitUsage, "other-layout"},
	{awsconfig.ErrSettings, ExitUsage, "aws-settings"},
	{claimapi.ErrNotHTTP, ExitUsage, "usage"},
	{recordhandler.ErrNotKinesis, ExitUsage, "usage"},
	{recordhandler.ErrManyShards, ExitUsage, "usage"},
	{recordhandler.ErrLoop, ExitUsage, "usage"},
	{recordhandler.ErrConsumer, ExitUsage, "usage"},
	{dedupe.ErrSharedSequence, ExitUsage, "usage"},
	{dedupe.ErrNotABatch, ExitUsage, "usage"},
	{dedupe.ErrOtherConsumer, ExitUsage, "other-consumer"},
	{dedupe.ErrOtherLedger, ExitUsage, "other-ledger"},
	{dedupe.ErrWrongSetting, ExitUsage, "wrong-setting"},
	{dedupe.ErrTryAgain, ExitFailed, "try-again"},
	{idempotency.ErrInProgress, ExitNo, "in-progress"},
	{idempotency.ErrTryAgain, ExitFailed, "try-again"},
	{idempotency.ErrNoRecord, ExitNo, "no-record"},
	{idempotency.ErrOtherExecution, ExitNo, "other-execution"},
	{idempotency.ErrChanged, ExitNo, "changed"},
	{idempotency.ErrInvalid, ExitUsage, "invalid-input"},
	{fs.ErrNotExist, ExitUsage, "no-file"},
	{fs.ErrPermission, ExitUsage, "no-access"},
}

// outcome returns the exit code of an error, and the code that names it in JSON.
func outcome(ctx context.Context, err error) (exit int, code string) {
	var usage *UsageError
	var cut *cutError
	switch {
	case err == nil:
		return ExitDone, ""
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted, "interrupted"
	case errors.As(err, &cut) && !errors.Is(err, itembank.ErrInconsistent):
		return ExitFailed, "failed" // for every cause, because something was changed
	}
	exit, code = ExitFailed, "failed"
	for _, row := range outcomes {
		if errors.Is(err, row.err) {
			exit, code = row.exit, row.code
			break
		}
	}
	if errors.As(err, &usage) && exit != ExitUsage {
		return ExitUsage, "usage"
	}
	return exit, code
}

// ExitCode returns the exit code of an error.
func ExitCode(ctx context.Context, err error) int {
	exit, _ := outcome(ctx, err)
	return exit
}
