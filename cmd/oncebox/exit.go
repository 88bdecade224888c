package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/oncebox/oncebox/internal/awsconfig"
	"github.com/oncebox/oncebox/internal/offline"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// The exit codes, which scripts rely on.
const (
	exitDone        = 0
	exitFailed      = 1   // on the way: store, network, disk; safe to repeat
	exitUsage       = 2   // bad usage or bad input: nothing was changed
	exitNo          = 3   // the answer is no
	exitLook        = 4   // done, with something to look at
	exitInterrupted = 130 // resumable
)

// usageError is bad usage or bad input, found before anything was changed.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// errLook: all is done, and there is something to look at.
var errLook = errors.New("have a look")

// codes is the one table from error to exit code; the first match counts.
var codes = []struct {
	err  error
	code int
}{
	{offline.ErrStopped, exitFailed}, // whatever it was: something was changed
	{offline.ErrRefused, exitUsage},
	{errKept, exitLook},
	{errLook, exitLook},
	{errUnconfirmed, exitNo},
	{itembank.ErrInconsistent, exitLook},
	{itembank.ErrTryAgain, exitFailed},
	{itembank.ErrRefused, exitNo},
	{itembank.ErrInvalid, exitUsage},
	{sqlitestore.ErrNotStore, exitUsage},
	{sqlitestore.ErrNewer, exitUsage},
	{dynamostore.ErrOtherTable, exitUsage},
	{awsconfig.ErrSettings, exitUsage},
	{claimapi.ErrNotHTTP, exitUsage},
	{kinesishandler.ErrNotKinesis, exitUsage},
	{kinesishandler.ErrManyShards, exitUsage},
	{kinesishandler.ErrLoop, exitUsage},
	{dedupe.ErrTryAgain, exitFailed},
	{fs.ErrNotExist, exitUsage},
	{fs.ErrPermission, exitUsage},
}

func exitCode(ctx context.Context, err error) int {
	var usage *usageError
	var cut *cutError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &cut) && !errors.Is(err, itembank.ErrInconsistent):
		return exitFailed // whatever it was: something was changed
	}
	for _, row := range codes {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return exitFailed
}
