package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

type redriveErase struct {
	Name        string   `arg:"" help:"The name of the letter, as redrive list prints it."`
	Letters     string   `arg:"" optional:"" name:"store" help:"s3://BUCKET/PREFIX or dir:PATH. Default: ONCEBOX_DEAD_LETTERS."`
	Undelivered bool     `help:"Erase the letter also if it is not done. Its record is never delivered then."`
	TakeOver    []string `help:"The run with this id has ended: the letters that it has begun and not finished count as not begun. Repeatable." sep:"none" placeholder:"RUN"`
	DryRun      bool     `help:"Print what would happen, and change nothing."`
	Yes         bool     `help:"Do it without asking."`
}

func (redriveErase) Help() string {
	return `Removes the object of the letter with all its versions and delete markers, the attempts of runs at it, and its marker.
Nothing of it can be restored. The ledger and the destination stay as they are.

A letter that is not done is refused, with exit code 3. With --undelivered it is erased, and its record is never
delivered. A batch that Lambda gave up has many records, also of others: run it first. If a run has begun the letter and
not finished it, the exit code is 3, too. Wait until the run has ended. If it was killed, --take-over RUN erases the
letter; the destination may have its record.

A run into a sink with transactions or objects does not store that it begins a letter. End such runs before you erase a
letter that is not done: they may deliver it, and leave a marker.

Shows what is stored and asks. Without a terminal it needs --yes. Safe to repeat, also after an interruption: the
repeat removes the rest. If nothing is stored under the name, the exit code is 3: the letter was erased before, or has
another name. The command names the copies of the record that it does not reach.

Examples:
  oncebox redrive erase poison/orders/NAME.json s3://my-dead-letters
  oncebox redrive erase NAME.json dir:failed --undelivered --yes
  oncebox redrive erase poison/orders/NAME.json s3://my-dead-letters --dry-run`
}

// erasedJSON is the result of erase. The numbers count versions and delete markers.
type erasedJSON struct {
	Name     string   `json:"name"`
	DryRun   bool     `json:"dry_run,omitempty"`
	Done     bool     `json:"done"` // the letter had a marker
	Letter   int      `json:"letter"`
	Attempts int      `json:"attempts"`
	Markers  int      `json:"markers"`
	Copies   []string `json:"copies"` // the places that may still have the record
}

func (c redriveErase) Run(ctx context.Context, a *cli.App) error {
	if !c.Yes && !c.DryRun && !a.CanAsk() {
		return cli.BadUsage(errors.New("there is no terminal to ask on; nothing was changed"), "Say --yes to erase the letter.")
	}
	archive, err := openArchive(ctx, a, c.Letters)
	if err != nil {
		return err
	}
	stored, err := archive.Stored(ctx, c.Name)
	switch {
	case err != nil:
		return err
	case stored.None():
		return cli.WithHint(fmt.Errorf("%s: %w", c.Name, cli.ErrNoLetter),
			"It was erased before, or has another name: `oncebox redrive list` prints the names.")
	}
	letter, _ := archive.Read(ctx, c.Name) // what cannot be read can be erased, too
	records := recordsText(letter)
	if err := c.refused(ctx, archive, stored, records); err != nil {
		return err
	}
	if c.DryRun {
		return a.Print(c.result(archive, stored), "would remove "+storedText(stored))
	}
	question := fmt.Sprintf("%s: %s\n%s\nErase it for good?", c.Name, storedText(stored), doneText(stored, records))
	if c.Yes {
		a.Remark("%s: %s", c.Name, storedText(stored))
	} else if yes, err := a.Ask(ctx, question); err != nil {
		return err
	} else if !yes {
		return cli.ErrUnconfirmed
	}
	removed, err := archive.Erase(ctx, c.Name, c.erasure(), time.Now())
	if err != nil && !removed.None() {
		return cli.WithHint(cli.Stopped("after "+storedText(removed), err), "Repeat the command: it removes the rest.")
	} else if err != nil {
		return explain(err, records)
	}
	result := c.result(archive, removed)
	return a.Print(result, "removed "+storedText(removed)+"\nThese may still have the record:\n  "+strings.Join(result.Copies, "\n  "))
}

func (c redriveErase) erasure() deadletter.Erasure {
	return deadletter.Erasure{Undelivered: c.Undelivered, TakesOver: c.TakeOver, By: thisProcess()}
}

// refused says before the question what Erase would refuse.
func (c redriveErase) refused(
	ctx context.Context, archive *deadletter.Archive, stored deadletter.Stored, records string,
) error {
	switch {
	case stored.Done:
		return nil
	case stored.Letter > 0 && !c.Undelivered:
		return explain(deadletter.ErrNotDone, records)
	}
	begun, err := archive.Look(ctx, c.Name, c.erasure().TakenOver())
	if err == nil && begun.Other != nil {
		err = explain(&deadletter.BegunError{Attempt: begun.Other}, records)
	}
	return err
}

// explain adds what to do to a refusal.
func explain(err error, records string) error {
	if begun, ok := errors.AsType[*deadletter.BegunError](err); ok {
		return cli.WithHint(err, fmt.Sprintf("Wait until that run has ended. If it was killed, say --take-over %s; "+
			"the destination may have the record.", begun.Attempt.Run))
	}
	if errors.Is(err, deadletter.ErrNotDone) {
		return cli.WithHint(err, "`oncebox redrive run` delivers it. Say --undelivered if "+records+" shall never be delivered.")
	}
	return err
}

func (c redriveErase) result(archive *deadletter.Archive, t deadletter.Stored) erasedJSON {
	return erasedJSON{
		Name: c.Name, DryRun: c.DryRun, Done: t.Done, Letter: t.Letter, Attempts: t.Attempts, Markers: t.Markers,
		Copies: copiesOfLetter(archive.Place(c.Name), t.Done),
	}
}

func storedText(t deadletter.Stored) string {
	parts := []string{"the letter in " + cli.Quantity(int64(t.Letter), "version")}
	if t.Attempts > 0 {
		parts = append(parts, cli.Quantity(int64(t.Attempts), "attempt"))
	}
	if t.Markers > 0 {
		parts = append(parts, cli.Quantity(int64(t.Markers), "marker"))
	}
	return strings.Join(parts, ", ")
}

func doneText(t deadletter.Stored, records string) string {
	if t.Done {
		return "It is done."
	}
	return "It is NOT done: " + records + " will never be delivered then."
}

// recordsText names what would be lost with a letter that is not done: a batch has records of many people.
func recordsText(l deadletter.Letter) string {
	if l.Batch != nil {
		return "all records of the batch"
	}
	return "its record"
}

// copiesOfLetter lists the places outside of the letter that may have its record.
func copiesOfLetter(p deadletter.Place, done bool) []string {
	copies := []string{
		"the source stream or queue, for its retention: until then the function may store the letter again",
		"a batch that Lambda gave up with the record in it, which is a letter of its own",
		"files of `oncebox redrive export`, and files of letters that you saved",
		"a message in the notifier queue, which has the place, the owner and the reason, and no payload",
	}
	if done {
		copies = append(copies, "the destination, if the letter was delivered")
	}
	if p.Path != "" {
		return append(copies, "files .incomplete-* of killed processes in the folder", "backups of the folder")
	}
	return append(copies, "replicas and backups of the bucket")
}
