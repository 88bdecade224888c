package records

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// logScope is the flag of the commands for log ledgers.
type logScope struct {
	Scope string `help:"Name space of the ids: the scope of the function (as in orders, or sqs:orders for a queue). Default: ${default}." default:"default" placeholder:"NAME"`
}

type ledgerStatCommand struct {
	logScope
	Arrival time.Time `help:"Print what counts for a record that arrived at this time: ${times}. Default: now." placeholder:"TIME"`
}

func (ledgerStatCommand) Help() string {
	return `Reads the log of a scope from a window before the arrival until now, as a process does at its start, and prints what
it found: the entries that may count for a record with this arrival, their bytes, the memory that they need in each
process (the memory of ONCEBOX_LEDGER=log is to be more), and the write units that appending them took. It costs twice the read
units of a start of the function. The exit code is 3 if the scope has no log. Entries with one row a key are not
counted: a count would read the whole table.

  epochs    parts of the lane's log, of all times
  items     appends, each with the entries of a batch
  latest    the greatest arrival in the newest item

Examples:
  oncebox ledger stat --store dynamodb: --scope orders
  oncebox ledger stat --store dynamodb: --scope orders --arrival 2027-03-01`
}

// ledgerStat holds the parts of a log that count now.
type ledgerStat struct {
	Scope   string               `json:"scope"`
	Arrival time.Time            `json:"arrival"`
	Window  string               `json:"window"` // the window of the newest epoch
	Entries int64                `json:"entries"`
	Bytes   int64                `json:"bytes"`
	Units   int64                `json:"write_units"`
	Memory  int64                `json:"memory_bytes"`
	Lanes   []logledger.Surveyed `json:"lanes"`
}

func (c ledgerStatCommand) Run(ctx context.Context, a *cli.App) error {
	if err := cli.CheckScope(c.Scope); err != nil {
		return err
	}
	log, err := a.OpenLog(ctx, c.Scope)
	if err != nil {
		return err
	}
	if c.Arrival.IsZero() {
		c.Arrival = time.Now()
	}
	c.Arrival = c.Arrival.UTC().Truncate(time.Second)
	lanes, err := logledger.Survey(ctx, log, c.Scope, c.Arrival)
	if err != nil {
		return err
	}
	stat := ledgerStat{Scope: c.Scope, Arrival: c.Arrival, Lanes: lanes}
	var window int64
	for _, l := range lanes {
		window = max(window, l.Window)
		stat.Entries += l.Entries
		stat.Bytes += l.Bytes
		stat.Units += l.Units
		stat.Memory += l.Memory
	}
	stat.Window = cli.LifeOr(time.Duration(window)*time.Millisecond, "")
	return a.Print(stat, stat.text())
}

func (s ledgerStat) text() string {
	const mib = 1 << 20
	return fmt.Sprintf("scope %s, window %s: %d entries may count for a record that arrives at %s\n"+
		"log: %.1f MiB, %d write units\nmemory that a process needs: %.1f MiB\n\n",
		s.Scope, s.Window, s.Entries, s.Arrival.Format(time.RFC3339), float64(s.Bytes)/mib, s.Units, float64(s.Memory)/mib) +
		cli.Table(func(row func(...string)) {
			row("LANE", "EPOCHS", "ITEMS", "ENTRIES", "BYTES", "UNITS", "LATEST")
			for _, l := range s.Lanes {
				row(strconv.Itoa(l.Lane), strconv.Itoa(l.Epochs), strconv.Itoa(l.Items), strconv.FormatInt(l.Entries, 10),
					strconv.FormatInt(l.Bytes, 10), strconv.FormatInt(l.Units, 10), cli.TimeOr(l.Latest, "-"))
			}
		})
}

type ledgerVerifyCommand struct{ logScope }

func (ledgerVerifyCommand) Help() string {
	return `Reads the whole log of a scope and checks it: that epochs and items are complete up to what is past its purge time,
that nothing stands behind the end of an epoch, and that each row follows from the rows before it, so that no record
has two rows and no copy has one. Nothing is changed. The function may run meanwhile.

The exit code is 4 if something is wrong, with a line for each place, and 3 if the scope has no log. The check reads the
log consistently: a read unit for each 4 KB. It keeps the rows of a window in memory, about 100 bytes each.

Examples:
  oncebox ledger verify --store dynamodb: --scope orders
  oncebox ledger verify --store dynamodb: --scope orders --output json`
}

// ledgerVerified is the result of a check.
type ledgerVerified struct {
	Scope string `json:"scope"`
	logledger.Verified
	Found []logProblem `json:"found"`
}

// logProblem is a problem in a log.
type logProblem struct {
	Lane  int    `json:"lane"`
	Epoch int    `json:"epoch"`
	Item  int    `json:"item"`
	What  string `json:"what"`
}

func (c ledgerVerifyCommand) Run(ctx context.Context, a *cli.App) error {
	if err := cli.CheckScope(c.Scope); err != nil {
		return err
	}
	log, err := a.OpenLog(ctx, c.Scope)
	if err != nil {
		return err
	}
	v := ledgerVerified{Scope: c.Scope, Found: []logProblem{}}
	v.Verified, err = logledger.Verify(ctx, log, c.Scope, time.Now, func(p logledger.Problem) {
		v.Found = append(v.Found, logProblem{p.Place.Lane, p.Place.Epoch, p.Place.Index, p.What})
	})
	if err != nil {
		return err
	}
	if err := a.Print(v, v.text()); err != nil || v.Problems == 0 {
		return err
	}
	return fmt.Errorf("%w: the log of the scope %s has %s", cli.ErrLook, c.Scope, cli.Quantity(int64(v.Problems), "problem"))
}

func (v ledgerVerified) text() string {
	var b strings.Builder
	for _, p := range v.Found {
		fmt.Fprintf(&b, "lane %d, epoch %d, item %d: %s\n", p.Lane, p.Epoch, p.Item, p.What)
	}
	if v.Problems == 0 {
		b.WriteString("no violation: ")
	}
	fmt.Fprintf(&b, "%s, %s (%d purged), %s, %s (%d derived, %d of them from what is purged)",
		cli.Quantity(int64(v.Lanes), "lane"), cli.Quantity(int64(v.Epochs), "epoch"), v.Purged, cli.Quantity(int64(v.Items), "item"),
		cli.Quantity(v.Rows, "row"), v.Derived, v.Unknown)
	return b.String()
}
