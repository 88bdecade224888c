package demo

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// broken is a store whose old rows are changed when a put or a read shows them.
type broken struct {
	engine.Store
	change func(row *engine.Record)
}

func (b broken) changed(a engine.Answer, err error) (engine.Answer, error) {
	if a.Row != nil {
		b.change(a.Row)
	}
	return a, err
}

func (b broken) Put(ctx context.Context, key engine.Key, record engine.Record) (engine.Answer, error) {
	return b.changed(b.Store.Put(ctx, key, record))
}

func (b broken) Read(ctx context.Context, key engine.Key, c engine.Consistency) (engine.Answer, error) {
	return b.changed(b.Store.Read(ctx, key, c))
}

// Replace takes effect whatever row there is.
func (b broken) Replace(
	ctx context.Context, key engine.Key, old engine.Version, record engine.Record,
) (engine.Answer, error) {
	a, err := b.Store.Read(ctx, key, engine.Strong)
	if err == nil && a.Row != nil {
		old = a.Row.Version()
	}
	return b.Store.Replace(ctx, key, old, record)
}

// TestThirdJobFails: the demo fails if the store does not keep its promises.
func TestThirdJobFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(row *engine.Record)
		says   string // of the error; "": none
	}{
		"a store that keeps its promises": {func(*engine.Record) {}, ""},
		"completed keys run again": {
			func(row *engine.Record) {
				row.Status, row.LeaseEnd = engine.InProgress, time.UnixMilli(0)
			}, "the demo failed: charges: ",
		},
		"other results are replayed": {
			func(row *engine.Record) {
				if row.Status == engine.Completed {
					row.Result.Body = []byte("another result")
				}
			}, "the demo failed: callers with the result of their key: ",
		},
		"a worker that waits for the frozen one": {
			func(row *engine.Record) { row.LeaseEnd = row.LeaseEnd.Add(time.Hour) },
			"or its lease is not over",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := &cli.App{Globals: cli.Globals{Output: cli.OutputText}, Process: cli.Process{Stdout: io.Discard}}
			d := &demo{app: app, campaign: "demo"}
			err := d.callsOn(t.Context(), broken{memstore.NewCalls(time.Now), test.change})
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("want %q, got %v", test.says, err)
			}
			if err != nil && cli.ExitCode(t.Context(), err) != cli.ExitFailed {
				t.Error("the exit code is not 1")
			}
		})
	}
}
