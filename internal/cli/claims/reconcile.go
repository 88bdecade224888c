package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type reconcileCommand struct {
	Campaign        string `arg:"" help:"The campaign."`
	Repair          bool   `help:"Repair what can be repaired without a guess. The campaign must be closed."`
	Items           string `help:"The file that was loaded, because rows hold no texts of items; - is stdin." placeholder:"FILE"`
	ReturnSeenItems bool   `help:"With --items: bring missing items back also where items are burned. A customer may have seen such an item; then two customers have it."`
	itemFlags
	rateFlag
}

func (reconcileCommand) Help() string {
	return fmt.Sprintf(`Compares all items that were ever loaded with the bank and the claims. Prints each
inconsistency: an item that is not in exactly one place (free, held, ended), or whose rows have different end times. It
may run while the campaign is open: an item that looks wrong is read again until it is right, or wrong in the same way
twice. It reads every row, needs about 100 bytes of memory for an item, and changes nothing.

--repair also repairs, each inconsistency in one transaction that changes nothing if the rows have changed
meanwhile. The campaign must be closed. It waits %.0f seconds first, for requests that began before the campaign
was closed.

  inconsistency    --repair
  missing          if items are burned: ends the item as lost, since a customer may have seen it
                   if items return: puts it back into the bank, if the file of --items has it
                   if the item was withdrawn while it was held: ends it as withdrawn
  held-and-free,
  free-and-ended   removes the item from the bank
  held-not-loaded  adds the missing row that says the item was loaded
  all others       does nothing: a person must decide

If you know claims that are lost, run oncebox replay before: it gives missing items back to their claimants. With
--return-seen-items, missing items go back into the bank where items are burned, too.

The exit code is 4 if an inconsistency was found and not repaired.

Examples:
  oncebox reconcile spring
  oncebox reconcile spring --rate 5000   # beside a sale
  oncebox campaign close spring && oncebox reconcile spring --repair
  oncebox campaign close seats && oncebox reconcile seats --repair --items seats.txt`, itembank.DrainTime.Seconds())
}

func (c reconcileCommand) Run(ctx context.Context, a *cli.App) error {
	switch {
	case !c.Repair && (c.Items != "" || c.isSet()):
		return cli.BadUsage(errors.New("--items and its flags are for --repair"), "")
	case c.Items == "" && c.ReturnSeenItems:
		return cli.BadUsage(
			errors.New("--return-seen-items needs --items"),
			"No row of the store has the text of a missing item. Name the file that was loaded.",
		)
	case c.Items == "" && c.isSet():
		return cli.BadUsage(errors.New("--column, --lines, --trim and --raw are for --items"), "")
	}
	var source itembank.Source
	if c.Items != "" {
		in, err := openItems(ctx, a, c.Items, c.itemFlags)
		if err != nil {
			return err
		}
		defer in.remove()
		source = in.Source
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.reconcile(ctx, a, b, source) }, c.option())
}

func (c reconcileCommand) reconcile(ctx context.Context, a *cli.App, b *itembank.Operator, items itembank.Source) error {
	if c.Repair {
		return c.repair(ctx, a, b, items)
	}
	report, err := b.Reconcile(ctx, c.Campaign)
	return reconciled(a, report, err)
}

func (c reconcileCommand) repair(ctx context.Context, a *cli.App, b *itembank.Operator, items itembank.Source) error {
	if err := needClosed(ctx, b, c.Campaign); err != nil {
		return err
	}
	remarkWait(a, c.Campaign)
	report, err := b.Repair(ctx, c.Campaign, itembank.RepairOptions{Items: items, ReturnSeenItems: c.ReturnSeenItems})
	return reconciled(a, report, err)
}

// needClosed refuses a campaign that is not closed, and says how to close it.
func needClosed(ctx context.Context, b *itembank.Operator, name string) error {
	campaign, err := b.Campaign(ctx, name)
	if err != nil {
		return err
	}
	if state := campaign.StateAt(time.Now()); state != itembank.Closed {
		return cli.BadUsage(
			fmt.Errorf("%s is %s, and only a closed campaign can be repaired; nothing was changed", name, state),
			fmt.Sprintf("`oncebox campaign close %s` closes it.", name),
		)
	}
	return nil
}

func remarkWait(a *cli.App, campaign string) {
	a.Remark("waiting %.0f s for requests that began before %s was closed", itembank.DrainTime.Seconds(), campaign)
}

// reconciled prints a report, also if the command stopped after it had repaired something.
func reconciled(a *cli.App, r itembank.ReconcileReport, err error) error {
	if err != nil && len(r.Inconsistencies) == 0 {
		return err
	}
	if r.Inconsistencies == nil {
		r.Inconsistencies = []itembank.Inconsistency{} // JSON shows [], not null
	}
	if n := unrepaired(r); n > 0 && err == nil {
		err = fmt.Errorf("%w: %d of the inconsistencies are not repaired", cli.ErrLook, n)
	}
	return errors.Join(a.Print(r, describeReport(r)), err)
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
		return text + "no inconsistencies"
	}
	text += fmt.Sprintf("inconsistencies %d, repaired %d\n", len(r.Inconsistencies), len(r.Inconsistencies)-unrepaired(r))
	return text + cli.Table(func(row func(...string)) {
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
