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
	"github.com/oncebox/oncebox/pkg/recordhandler"
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

// hintError adds advice to an error.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// cutError says that a command stopped after it had changed something.
type cutError struct {
	done string // the finished work, as in "after 50 lines"
	err  error
}

func (e *cutError) Error() string { return fmt.Sprintf("stopped %s: %v", e.done, e.err) }
func (e *cutError) Unwrap() error { return e.err }

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

var (
	// errLook says that everything is done, but that something needs attention.
	errLook = errors.New("done, with something to look at")
	// errDeadLetters says that records were stored as dead letters.
	errDeadLetters = errors.New("dead letters")
)

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
	{recordhandler.ErrNotKinesis, exitUsage, "usage"},
	{recordhandler.ErrManyShards, exitUsage, "usage"},
	{recordhandler.ErrLoop, exitUsage, "usage"},
	{recordhandler.ErrConsumer, exitUsage, "usage"},
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
