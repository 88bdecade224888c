package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/oncebox/oncebox/internal/awsconfig"
	"github.com/oncebox/oncebox/internal/history"
	"github.com/oncebox/oncebox/internal/offline"
	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// These are the exit codes. Scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1   // failed because of store, network or disk; safe to repeat
	exitUsage       = 2   // bad usage or bad input: nothing was changed
	exitNo          = 3   // the answer is no
	exitLook        = 4   // done, but something needs attention
	exitInterrupted = 130 // resumable
)

// usageError is bad usage or bad input, found before anything was changed.
type usageError struct {
	err  error
	hint string // what to do, as a sentence; may be empty
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// BadUsage returns an error about bad usage or bad input, found before anything was changed. hint says what to do, as a
// sentence; it may be empty.
func BadUsage(err error, hint string) error { return &usageError{err, hint} }

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

// Stopped says that a command stopped after it had changed something. done is the finished work, as in "after 50 lines".
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
	// errLook says that everything is done, but that something needs attention.
	errLook = errors.New("done, with something to look at")
	// errDeadLetters says that records were stored as dead letters.
	errDeadLetters = errors.New("dead letters")
	// errEmpty says that no items were ever loaded into the campaign.
	errEmpty = errors.New("the campaign is empty: no items were loaded")
	// errUnknownItem says that an item was never loaded.
	errUnknownItem = errors.New("no such item")
	// errUnconfirmed says that the answer was not yes.
	errUnconfirmed = errors.New("not released: the answer was not yes; nothing was changed")
	// errNoEntry says that the ledger does not know a record.
	errNoEntry = errors.New("the ledger has no entry of this id")
	// errNoLog says that a scope has no log ledger.
	errNoLog = errors.New("there is no log ledger")
)

// deadLettersError says that records were stored as dead letters.
type deadLettersError struct{ text string }

func (e *deadLettersError) Error() string { return e.text }
func (e *deadLettersError) Unwrap() error { return errDeadLetters }

// DeadLetters returns an error which says that records were stored as dead letters.
func DeadLetters(text string) error { return &deadLettersError{text} }

// deadLettered returns an error if there are dead letters.
func deadLettered(n int64, place string) error {
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%s could not be processed; see the dead letters in %s", quantity(n, "record"), place)
	return DeadLetters(text)
}

// outcomes is the only table from an error to its exit code and its code in JSON. The first match counts.
var outcomes = []struct {
	err  error
	exit int
	code string
}{
	{offline.ErrStopped, exitFailed, "failed"}, // for every cause, because something was changed
	{history.ErrStopped, exitFailed, "failed"}, // likewise
	{offline.ErrRefused, exitUsage, "usage"},
	{errDeadLetters, exitLook, "dead-letters"},
	{errLook, exitLook, "look"},
	{errUnconfirmed, exitNo, "not-confirmed"},
	{itembank.ErrInconsistent, exitLook, "inconsistent"},
	{history.ErrNoColumn, exitUsage, "usage"},
	{sqlite.ErrNoAccess, exitUsage, "no-access"},
	{sqlite.ErrDamaged, exitUsage, "damaged"},
	{sqlite.ErrDiskFull, exitFailed, "disk-full"},
	{errNoTable, exitUsage, "no-table"},
	{errNoCredentials, exitUsage, "no-credentials"},
	{errDenied, exitUsage, "no-access"},
	{itembank.ErrTryAgain, exitFailed, "try-again"},
	{errEmpty, exitNo, "empty"},
	{errNoEntry, exitNo, "no-entry"},
	{errNoLog, exitNo, "no-log"},
	{itembank.ErrSoldOut, exitNo, "sold-out"},
	{itembank.ErrItemTaken, exitNo, "item-taken"},
	{itembank.ErrNotOpen, exitNo, "not-open"},
	{itembank.ErrClosed, exitNo, "closed"},
	{itembank.ErrNoCampaign, exitNo, "no-such-campaign"},
	{itembank.ErrNoClaim, exitNo, "no-claim"},
	{itembank.ErrClaimEnded, exitNo, "claim-ended"},
	{itembank.ErrClaimedElsewhere, exitNo, "claimed-elsewhere"},
	{itembank.ErrNotEligible, exitNo, "not-eligible"},
	{itembank.ErrBlocksLeft, exitNo, "blocks-left"},
	{itembank.ErrNotReconciled, exitNo, "not-reconciled"},
	{itembank.ErrLoaded, exitNo, "loaded"},
	{itembank.ErrDeleted, exitNo, "deleted"},
	{itembank.ErrChanged, exitNo, "changed"},
	{itembank.ErrMoved, exitNo, "moved"},
	{itembank.ErrRestored, exitNo, "restored"},
	{errUnknownItem, exitNo, "no-such-item"},
	{itembank.ErrRefused, exitNo, "refused"},
	{itembank.ErrInvalid, exitUsage, "invalid-input"},
	{sqlite.ErrNotStore, exitUsage, "no-store"},
	{sqlite.ErrLayout, exitUsage, "other-layout"},
	{dynamostore.ErrOtherTable, exitUsage, "no-store"},
	{dynamostore.ErrLayout, exitUsage, "other-layout"},
	{awsconfig.ErrSettings, exitUsage, "aws-settings"},
	{claimapi.ErrNotHTTP, exitUsage, "usage"},
	{kinesishandler.ErrNotKinesis, exitUsage, "usage"},
	{kinesishandler.ErrManyShards, exitUsage, "usage"},
	{kinesishandler.ErrLoop, exitUsage, "usage"},
	{kinesishandler.ErrConsumer, exitUsage, "usage"},
	{dedupe.ErrSharedSequence, exitUsage, "usage"},
	{dedupe.ErrNotABatch, exitUsage, "usage"},
	{dedupe.ErrOtherConsumer, exitUsage, "other-consumer"},
	{dedupe.ErrOtherLedger, exitUsage, "other-ledger"},
	{dedupe.ErrWrongSetting, exitUsage, "wrong-setting"},
	{dedupe.ErrTryAgain, exitFailed, "try-again"},
	{fs.ErrNotExist, exitUsage, "no-file"},
	{fs.ErrPermission, exitUsage, "no-access"},
}

// outcome returns the exit code of an error, and the code that names it in JSON.
func outcome(ctx context.Context, err error) (exit int, code string) {
	var usage *usageError
	var cut *cutError
	switch {
	case err == nil:
		return exitDone, ""
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted, "interrupted"
	case errors.As(err, &cut) && !errors.Is(err, itembank.ErrInconsistent):
		return exitFailed, "failed" // for every cause, because something was changed
	}
	exit, code = exitFailed, "failed"
	for _, row := range outcomes {
		if errors.Is(err, row.err) {
			exit, code = row.exit, row.code
			break
		}
	}
	if errors.As(err, &usage) && exit != exitUsage {
		return exitUsage, "usage"
	}
	return exit, code
}

// exitCode returns the exit code of an error.
func exitCode(ctx context.Context, err error) int {
	exit, _ := outcome(ctx, err)
	return exit
}
