package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	once "github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

type evictCommand struct {
	keyArguments
	Number  int64 `required:"" help:"Evict only the execution with this number, which show prints." placeholder:"N"`
	Running bool  `help:"Also evict an execution whose lease is not over. It may go on: then two run at a time."`
}

func (evictCommand) Help() string {
	return `Frees a key whose record counts: the next call runs the function, with any payload. Use it when the result is
wrong, or when an execution hangs.

What can happen: the function has run, or is running. What it did, such as a charge, is done a second time. Look there
first. If the record has completed, that includes effects in the transaction of the result (Execution.Commit). A call
that reads the old result in the next seconds can still return it, and so can the calls of its process that wait for it.
A process with a cache (Settings.CacheBytes) returns its copy until the window of the record is over: restart it.

Only the execution with --number is evicted, so the command is safe to repeat. If another execution has begun since, it
stays, and the exit code is 3. The exit code is also 3 if the record changes meanwhile. If the key is free, the command
says so, and the exit code is 0. The row stays without its result, because it holds the number: the next execution has
a larger one.

An execution whose lease is not over is only evicted with --running. It cannot complete any more. It learns that at its
next heartbeat, or at its end. Until then two executions can run at a time. Without --running the exit code is 3.

` + ofPowertools + `
Functions with Powertools cannot be stopped: an evicted function that runs can still complete, and its result then counts.
Such a function with a local cache returns its copy.

Examples:
  oncebox idempotency evict payments order-1 --number 1795000000000
  oncebox idempotency evict payments order-1 --number 1795000000000 --running
  oncebox --store powertools-python:idempotency idempotency evict pay.main.pay '"order-1"' --number 1795003600`
}

func (c evictCommand) Run(ctx context.Context, a *cli.App) error {
	runner, closeStore, err := c.use(ctx, a, a.OpenIdempotency)
	if err != nil {
		return err
	}
	defer closeStore()
	freed, err := runner.Evict(ctx, c.Key, once.Eviction{Number: c.Number, Running: c.Running})
	switch {
	case errors.Is(err, once.ErrNoRecord):
		return c.noRecord()
	case errors.Is(err, once.ErrOtherExecution), errors.Is(err, once.ErrChanged):
		return cli.WithHint(err, "`oncebox idempotency explain` says what the next call gets.")
	case errors.Is(err, once.ErrInProgress):
		return cli.WithHint(err, "Wait, or say --running: the execution may go on, and then two run at a time.")
	case err != nil:
		return err
	case freed == nil:
		return a.Print(evictedJSON{c.Namespace, c.Key, c.Number, "already"}, "nothing to evict: the key is free")
	}
	text := fmt.Sprintf("evicted execution %d\nThe next call runs the function again: what it does, such as a charge, "+
		"can happen a second time.\n", c.Number)
	switch {
	case freed.Status == engine.InProgress && byOthers(freed):
		text += "The evicted function with Powertools may still run, and complete: its result then counts."
	case freed.Status == engine.InProgress:
		text += "The evicted execution may still run. It cannot complete any more."
	default:
		text += "That includes effects in the transaction of the result."
	}
	return a.Print(evictedJSON{c.Namespace, c.Key, c.Number, "evicted"}, text)
}

// evictedJSON is the result of evict.
type evictedJSON struct {
	Namespace string `json:"namespace"`
	Key       string `json:"key"`
	Number    int64  `json:"number"`
	Outcome   string `json:"outcome"` // evicted or already
}
