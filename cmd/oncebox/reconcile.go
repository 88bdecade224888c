package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

type reconcileCommand struct {
	Campaign string  `arg:"" help:"The campaign."`
	Repair   bool    `help:"Repair what can be repaired without a guess; the campaign must be closed."`
	Items    string  `help:"With --repair: the file that was loaded, to bring lost items back; - is stdin." placeholder:"FILE"`
	Column   *string `help:"Column of --items, as in load." placeholder:"NAME|N"`
}

func (reconcileCommand) Help() string {
	return fmt.Sprintf(`Compares all items that were ever loaded with the bank and the claims, and prints
each that is not in exactly one place: free, held, or ended; or that is free until
another time than its row says. It may run on a live campaign: what looks wrong is
looked at again until it is right, or was wrong in the same way twice. It reads every
row, keeps about 100 bytes of memory for an item, and changes nothing.

--repair also repairs, each difference in one transaction that holds only if nothing
has changed meanwhile. It refuses a campaign that is not closed, and waits %.0f seconds
first, for requests that began before it was closed.
  missing                           goes back to the bank, if --items has it
  held-and-free, free-and-ended,
  free-twice                        the bank row that is too much goes
  free-not-loaded, held-not-loaded  the row that says it was loaded is put
  held-twice, held-and-ended,
  misplaced, ends-differ, moving    is left for people to settle

Exit code 4 if a difference was found and not repaired.

Examples:
  oncebox reconcile spring
  oncebox campaign close spring && oncebox reconcile spring --repair --items codes.txt`, itembank.DrainTime.Seconds())
}

func (c reconcileCommand) Run(ctx context.Context, a *app) error {
	if !c.Repair && (c.Items != "" || c.Column != nil) {
		return &usageError{errors.New("--items and --column are for --repair"), ""}
	}
	if c.Items == "" {
		if c.Column != nil {
			return &usageError{errors.New("--column is for --items"), ""}
		}
		return a.withBank(ctx, func(b *itembank.Bank) error { return c.reconcile(ctx, a, b, nil) })
	}
	source, remove, err := a.itemSource(ctx, c.Items, c.Column)
	if err != nil {
		return err
	}
	defer remove()
	return a.withBank(ctx, func(b *itembank.Bank) error { return c.reconcile(ctx, a, b, source) })
}

func (c reconcileCommand) reconcile(ctx context.Context, a *app, b *itembank.Bank, items itembank.Source) error {
	if c.Repair {
		return c.repair(ctx, a, b, items)
	}
	report, err := b.Reconcile(ctx, c.Campaign)
	return a.reconciled(report, err)
}

func (c reconcileCommand) repair(ctx context.Context, a *app, b *itembank.Bank, items itembank.Source) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	if state := campaign.StateAt(time.Now()); state != itembank.Closed {
		return &usageError{fmt.Errorf("%s is %s, and only a closed campaign is repaired; nothing was changed", c.Campaign, state),
			"oncebox campaign close " + c.Campaign + " closes it."}
	}
	if err := checkItems(c.Items, items); err != nil {
		return err
	}
	a.remark("waiting %.0f s for requests that began before %s was closed", itembank.DrainTime.Seconds(), c.Campaign)
	report, err := b.Repair(ctx, c.Campaign, items)
	return a.reconciled(report, err)
}

// checkItems finds what is wrong with the items before the wait, not after it.
func checkItems(file string, items itembank.Source) error {
	if items == nil {
		return nil
	}
	for line, err := range items() {
		if err != nil {
			return badItems(file, err)
		}
		if err := itembank.ValidateItem(line.Item); err != nil {
			return badItems(file, &itembank.LineError{Line: line.Number, Err: err})
		}
	}
	return nil
}

// reconciled prints a report, also one that was cut after something was repaired.
func (a *app) reconciled(r itembank.ReconcileReport, err error) error {
	if err != nil && len(r.Inconsistencies) == 0 {
		return err
	}
	if r.Inconsistencies == nil {
		r.Inconsistencies = []itembank.Inconsistency{} // JSON shows [], not null
	}
	if n := unrepaired(r); n > 0 && err == nil {
		err = fmt.Errorf("%w: differences that are not repaired: %d", errLook, n)
	}
	return errors.Join(a.print(r, describeReport(r)), err)
}

func unrepaired(r itembank.ReconcileReport) (n int) {
	for _, d := range r.Inconsistencies {
		if !d.Repaired {
			n++
		}
	}
	return n
}

func describeReport(r itembank.ReconcileReport) string {
	const toTheMillisecond = "2006-01-02T15:04:05.000Z07:00"
	text := fmt.Sprintf("from %s to %s\nloaded %d, free %d, claimed %d, ended %d\n",
		r.From.UTC().Format(toTheMillisecond), r.To.UTC().Format(toTheMillisecond), r.Loaded, r.Free, r.Claimed, r.Ended)
	if len(r.Inconsistencies) == 0 {
		return text + "no differences"
	}
	text += fmt.Sprintf("differences %d, repaired %d\n", len(r.Inconsistencies), len(r.Inconsistencies)-unrepaired(r))
	return text + table(func(row func(...string)) {
		row("KIND", "REPAIRED", "ITEM", "LOAD", "ROW", "CLAIMS")
		for _, d := range r.Inconsistencies {
			row(d.Kind, yesNo(d.Repaired), cmp.Or(d.Item, "hash:"+d.Hash), cmp.Or(d.LoadID, "-"),
				fmt.Sprint(d.Row), cmp.Or(strings.Join(d.Claims, ","), "-"))
		}
	})
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
