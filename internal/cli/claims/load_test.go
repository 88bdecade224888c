package claims

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestLoadIsGivenUp: a load is cut, status names it and the command that ends it, and that command ends it once.
func TestLoadIsGivenUp(t *testing.T) {
	w := newFixture(t, itembankengines.Memory(t).Store, itembank.Settings{})
	var stderr bytes.Buffer
	run := func(do func(context.Context, *cli.App, *itembank.Operator) error, want ...string) error {
		t.Helper()
		a := w.app()
		stderr.Reset()
		a.Stderr = &stderr
		err := do(t.Context(), a, w.bank)
		for _, text := range want {
			if !strings.Contains(w.out.String()+stderr.String(), text) {
				t.Errorf("want %q, got %s%s", text, w.out.String(), stderr.String())
			}
		}
		return err
	}
	w.store.Before = func(method string) error {
		if method == "AddItems" {
			return itembank.ErrTryAgain
		}
		return nil
	}
	err := run(func(ctx context.Context, a *cli.App, b *itembank.Operator) error {
		return loadCommand{Campaign: w.name}.load(ctx, a, b, &items{Source: itembank.Items("B-1")})
	})
	w.store.Before = nil
	loads, listed := w.bank.UnfinishedLoads(t.Context(), w.name)
	if len(loads) != 1 || listed != nil {
		t.Fatalf("want an unfinished load, got %+v, %v", loads, listed)
	}
	id := loads[0].LoadID
	advice := "`oncebox load --give-up " + w.name + " " + id + "`"
	if message, hint := cli.DescribeError(err, cli.ExitFailed); !strings.Contains(hint, advice) || cli.ExitCode(t.Context(), err) != cli.ExitFailed {
		t.Errorf("unexpected error: %s\n%s", message, hint)
	}
	if err := run(statusCommand{Campaign: w.name}.status, advice, id+", 0 lines done, started 20"); err != nil {
		t.Error(err)
	}
	giveUp := loadCommand{Campaign: w.name, File: id, GiveUp: true}
	if err := run(giveUp.end, "waiting 40 s", "gave up load "+id); err != nil {
		t.Error(err)
	}
	if err := run(giveUp.end, "load "+id+" was over already"); err != nil || stderr.Len() > 0 {
		t.Error(err, stderr.String())
	}
	if err := run(statusCommand{Campaign: w.name}.status); err != nil || strings.Contains(w.out.String()+stderr.String(), "unfinished") {
		t.Error(err, w.out.String(), stderr.String())
	}
	giveUp.File = "codes.txt"
	if err := run(giveUp.end); cli.ExitCode(t.Context(), err) != cli.ExitUsage || !strings.Contains(err.Error(), `has no load "codes.txt"`) {
		t.Errorf("unexpected error: %v", err)
	}
	giveUp.DryRun = true
	if err := giveUp.Run(t.Context(), w.app()); cli.ExitCode(t.Context(), err) != cli.ExitUsage {
		t.Errorf("want bad usage, got %v", err)
	}
}

// TestUnfinishedRepair: a repair is stopped while it puts an item back. Status names it, and two commands that end it.
// The first of them does.
func TestUnfinishedRepair(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e := itembankengines.Memory(t)
	w := newFixture(t, e.Store, itembank.Settings{OnEnd: itembank.Return})
	_, err := w.bank.Load(t.Context(), w.name, itembank.Items(theItem), nil)
	must(err)
	campaign, err := e.Store.Campaign(t.Context(), w.name)
	must(err)
	must(e.Raw.DropBankRow(t.Context(), enginerows.FreeItem(*campaign, theItem)))
	must(w.bank.CloseCampaign(t.Context(), w.name))
	var stderr bytes.Buffer
	run := func(do func(context.Context, *cli.App, *itembank.Operator) error) (printed string, err error) {
		a := w.app()
		stderr.Reset()
		a.Stderr = &stderr
		err = do(t.Context(), a, w.bank)
		return w.out.String() + stderr.String(), err
	}
	repair := func(ctx context.Context, a *cli.App, b *itembank.Operator) error {
		return reconcileCommand{Campaign: w.name, Repair: true}.repair(ctx, a, b, itembank.Items(theItem))
	}
	w.store.Before = func(method string) error {
		if method == "Repair" {
			return itembank.ErrTryAgain
		}
		return nil
	}
	if _, err = run(repair); !errors.Is(err, itembank.ErrTryAgain) {
		t.Fatal(err)
	}
	w.store.Before = nil
	loads, err := w.bank.UnfinishedLoads(t.Context(), w.name)
	if must(err); len(loads) != 1 {
		t.Fatalf("want an unfinished repair, got %+v", loads)
	}
	id := loads[0].LoadID
	printed, err := run(statusCommand{Campaign: w.name}.status)
	must(err)
	for _, text := range []string{
		"a repair that adds items is unfinished", "`oncebox reconcile " + w.name + " --repair`",
		"`oncebox load --give-up " + w.name + " " + id + "`", id + ", started 20",
	} {
		if !strings.Contains(printed, text) {
			t.Errorf("want %q, got %s", text, printed)
		}
	}
	_, err = run(repair)
	must(err)
	if printed, err := run(statusCommand{Campaign: w.name}.status); err != nil || strings.Contains(printed, "unfinished") {
		t.Error(err, printed)
	}
}
