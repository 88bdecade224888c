package records

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/format"
)

type ledgerExplainCommand struct {
	ID string `arg:"" optional:"" help:"The id of a record. Not with --record."`

	Ledger      string    `type:"ledgerfile" help:"Short for --store sqlite:FILE." placeholder:"FILE"`
	Scope       string    `help:"Name space of the ids: that of the function (as in orders, or sqs:orders for a queue) or of the runs. Default: ${default}." default:"default" placeholder:"NAME"`
	Arrival     time.Time `help:"Explain for a record that arrives at this time: ${times}. Default: the record's time, or now." placeholder:"TIME"`
	Fingerprint string    `help:"The fingerprint of a record: it is compared, and entries of derived ids are found." placeholder:"TEXT"`

	Record          string      `help:"Explain the record in the first line of this file. - is stdin. The flags below have the same meaning as in dedupe." placeholder:"FILE"`
	Format          string      `enum:"json,snowplow" default:"json" help:"What the line is: json or snowplow. Default: ${default}." placeholder:"FORMAT"`
	IDPath          string      `name:"id-path" help:"Path of the id. Required with --record and --format json." placeholder:"P"`
	FingerprintPath string      `help:"Path of the fingerprint. By default, and where it is absent, the fingerprint is computed." placeholder:"P"`
	OwnerPath       string      `help:"Path of a text that identifies the sending of the record. Default: a record that is not in the ledger." placeholder:"P"`
	ContextsPath    string      `help:"Path of the array that gets the duplicate context: it does not count for a computed fingerprint. Default: ${default}." default:"contexts" placeholder:"P"`
	Volatile        []string    `help:"Path that does not count for a computed fingerprint. Repeatable, or with commas in between." placeholder:"P"`
	TimePath        string      `help:"Path of the record's time." placeholder:"P"`
	IDs             offline.IDs `name:"ids" enum:"first-keeps,derived" default:"first-keeps" help:"derived: every record gets a derived id, and is entered under that. Default: ${default}." placeholder:"POLICY"`
}

func (ledgerExplainCommand) Help() string {
	return `Prints the entries of a record's id: which record holds the entry, when it arrived, until when the entry counts, and
whether it counts for a record that arrives now, or at --arrival. Nothing is changed. The exit code is 3 if there is no
entry.

A log ledger stores parts of owners and fingerprints. A row counts for arrivals on either side of its own.

A ledger stores digests of fingerprints. With --fingerprint or --record the command says whether they are equal, looks
for entries of the ids that would be derived, and says what the ledger would answer:
  new        the id has no entry that counts; the record is delivered
  retry      the record itself holds the entry (only with --owner-path); it is delivered again
  natural    a copy: it is dropped
  synthetic  another record with the same id: it is delivered under a derived id
  no-id      all derived ids are taken, too: the record is a dead letter
  too-old    entries of its time were deleted by ledger compact: the record is a dead letter
This is the answer for a stream. A function that reads a queue delivers nothing again whose effect is done. A message or
a copy that meets an entry in progress comes again, and takes the entry over at the end of its lease.

Examples:
  oncebox ledger explain order-1 --ledger seen.db
  oncebox --store dynamodb: ledger explain order-1 --scope orders --arrival 2027-03-01T09:00:00Z
  oncebox ledger explain --record order.json --id-path order.id --ledger seen.db --output json`
}

func (c ledgerExplainCommand) Run(ctx context.Context, a *cli.App) error {
	if err := cli.CheckScope(c.Scope); err != nil {
		return err
	}
	record, err := c.candidate(ctx, a)
	if err != nil {
		return err
	}
	if c.Ledger != "" {
		a.Store = cli.SQLitePrefix + c.Ledger
	}
	explainer, closeLedger, err := openExplainer(ctx, a.Globals, c.Scope)
	if err != nil {
		return err
	}
	defer closeLedger()
	explanation, err := explainer.Explain(ctx, c.Scope, record)
	if err != nil {
		return err
	}
	explained := toExplainedJSON(c.Scope, record, explanation)
	if err := a.Print(explained, explained.text()); err != nil || len(explained.Entries) > 0 {
		return err
	}
	return fmt.Errorf("%w in the scope %s", cli.ErrNoEntry, c.Scope)
}

// openExplainer opens the ledger of a scope: the log ledger if the scope has a log. Call closeLedger after use.
func openExplainer(ctx context.Context, g cli.Globals, scope string) (x dedupe.Explainer, closeLedger func(), err error) {
	if g.Store == cli.DynamoDBStore {
		log, err := g.OpenLog(ctx, scope)
		if !errors.Is(err, cli.ErrNoLog) {
			return logledger.Explainer{Storage: log, Now: time.Now}, func() {}, err
		}
	}
	ledger, closeLedger, err := g.OpenLedgerToRead(ctx)
	if err != nil {
		return nil, nil, err
	}
	x, ok := ledger.(dedupe.Explainer)
	if !ok {
		closeLedger()
		return nil, nil, cli.BadUsage(errors.New("this ledger cannot be read without a change"), "")
	}
	return x, closeLedger, nil
}

// candidate returns the record to explain. It has no fingerprint if the user gave none.
func (c ledgerExplainCommand) candidate(ctx context.Context, a *cli.App) (dedupe.Candidate, error) {
	record := dedupe.Candidate{ID: c.ID, Fingerprint: c.Fingerprint, Arrival: c.Arrival}
	switch {
	case (c.ID == "") == (c.Record == ""):
		return record, cli.BadUsage(errors.New("give an id, or a record with --record FILE"), "")
	case c.Record != "" && c.Fingerprint != "":
		return record, cli.BadUsage(errors.New("--record and --fingerprint exclude each other"), "The record has a fingerprint.")
	case c.Record != "":
		fields, err := c.read(ctx, a)
		if err != nil {
			return record, err
		}
		record.ID, record.Fingerprint = fields.ID, fields.Fingerprint
		if fields.Owner != "" {
			record.Owner = offline.OwnerNamed(fields.Owner)
		}
		if record.Arrival.IsZero() {
			record.Arrival = fields.Time
		}
	}
	if record.Arrival.IsZero() {
		record.Arrival = time.Now()
	}
	record.Arrival = record.Arrival.UTC().Truncate(time.Millisecond) // as a ledger compares it
	if c.IDs == offline.Derived {
		if record.Fingerprint == "" {
			return record, cli.BadUsage(errors.New("--ids derived needs --fingerprint or --record: the id is derived from both"), "")
		}
		record.ID = format.DerivedID(record.ID, record.Fingerprint)
	}
	return record, nil
}

// read reads the record of --record.
func (c ledgerExplainCommand) read(ctx context.Context, a *cli.App) (format.Fields, error) {
	as := dedupeCommand{
		Format: c.Format, IDPath: c.IDPath, FingerprintPath: c.FingerprintPath, OwnerPath: c.OwnerPath,
		ContextsPath: c.ContextsPath, TimePath: c.TimePath, Volatile: c.Volatile,
	}
	lines, err := as.lines()
	if err != nil {
		return format.Fields{}, err
	}
	files := &sources{}
	from, err := files.expand(ctx, []string{c.Record})
	if err != nil {
		return format.Fields{}, err
	}
	const readTwice = false
	inputs, remove, err := files.inputs(ctx, from, a.Stdin, readTwice)
	defer remove()
	if err != nil {
		return format.Fields{}, err
	}
	for line, err := range offline.Lines(ctx, inputs) {
		if err != nil {
			return format.Fields{}, err
		}
		fields, err := lines.Read(ctx, line.Text)
		if err != nil {
			return format.Fields{}, cli.BadUsage(fmt.Errorf("--record %s: %w", c.Record, err), "")
		}
		return fields, nil
	}
	return format.Fields{}, cli.BadUsage(fmt.Errorf("--record %s: the file has no record", c.Record), "")
}

// explainedJSON holds the ledger's data about a record, in results.
type explainedJSON struct {
	ID      string               `json:"id"`
	Key     string               `json:"key"` // hexadecimal
	Scope   string               `json:"scope"`
	Arrival time.Time            `json:"arrival"`
	Entries []explainedEntryJSON `json:"entries"`
	Answer  *explainedAnswer     `json:"answer,omitempty"` // absent without a fingerprint
}

type explainedEntryJSON struct {
	ID              string     `json:"id,omitempty"` // the record's id, or a derived id; absent if it is not known
	Owner           string     `json:"owner"`
	OwnRecord       bool       `json:"own_record"`       // the entry belongs to the explained record
	Content         string     `json:"content"`          // digest of the fingerprint, hexadecimal
	SameFingerprint *bool      `json:"same_fingerprint"` // null without a fingerprint
	Version         string     `json:"version"`
	Arrival         *time.Time `json:"arrival,omitempty"`
	PurgeAt         *time.Time `json:"purge_at"` // null: never
	Counts          bool       `json:"counts"`
	Void            bool       `json:"void,omitempty"`         // a run over files has put it, and not saved its line
	CountsSince     *time.Time `json:"counts_since,omitempty"` // the arrivals for which it counts, in a log ledger
	CountsUntil     *time.Time `json:"counts_until,omitempty"`
	Done            bool       `json:"done"`
	InProgressUntil *time.Time `json:"in_progress_until,omitempty"` // of a message of a queue that is not done
	Place           string     `json:"place,omitempty"`
}

// explainedAnswer is the answer that the ledger would give.
type explainedAnswer struct {
	Outcome string `json:"outcome"`
	ID      string `json:"id,omitempty"` // the id under which the record would be delivered
}

func toExplainedJSON(scope string, c dedupe.Candidate, e dedupe.Explanation) explainedJSON {
	key := format.KeyOf(c.ID)
	j := explainedJSON{
		ID: c.ID, Key: hex.EncodeToString(key[:]), Scope: scope, Arrival: c.Arrival, Entries: []explainedEntryJSON{},
	}
	for _, entry := range e.Entries {
		entryJSON := explainedEntryJSON{
			ID: entry.ID, Owner: entry.Owner, OwnRecord: entry.Mine, Content: entry.Content, Version: entry.Version,
			Arrival: cli.Optional(entry.Arrival), Counts: entry.Counts, Void: entry.Void, Done: entry.Done, Place: entry.Place,
			CountsSince: cli.Optional(entry.Since), CountsUntil: cli.Optional(entry.Until),
		}
		if entry.Hold != (dedupe.Hold{}) && !entry.Done {
			entryJSON.InProgressUntil = cli.Optional(time.UnixMilli(entry.Hold.Ends).UTC())
		}
		if entry.PurgeAt != dedupe.Never {
			at := time.Unix(entry.PurgeAt, 0).UTC()
			entryJSON.PurgeAt = &at
		}
		if c.Fingerprint != "" {
			entryJSON.SameFingerprint = &entry.Same
		}
		j.Entries = append(j.Entries, entryJSON)
	}
	if c.Fingerprint != "" {
		j.Answer = answerOf(c, e.Answer)
	}
	return j
}

// answerOf names an answer with the words of the summary of dedupe.
func answerOf(c dedupe.Candidate, a dedupe.Answer) *explainedAnswer {
	switch a.Found {
	case dedupe.Same:
		return &explainedAnswer{Outcome: "natural"}
	case dedupe.Other:
		return &explainedAnswer{Outcome: "no-id"}
	case dedupe.Forgotten:
		return &explainedAnswer{Outcome: "too-old"}
	}
	answer := &explainedAnswer{"new", c.ID}
	for range a.Derived {
		answer.Outcome, answer.ID = "synthetic", format.DerivedID(answer.ID, c.Fingerprint)
	}
	if a.Found == dedupe.Mine {
		answer.Outcome = "retry"
	}
	return answer
}

// text returns the explanation as lines.
func (j explainedJSON) text() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name, value)
		}
	}
	line("id", j.ID)
	line("key", j.Key)
	line("scope", j.Scope)
	line("arrival", j.Arrival.Format(time.RFC3339Nano))
	for _, e := range j.Entries {
		b.WriteByte('\n')
		line("entry of", cmp.Or(e.ID, "an id derived for another fingerprint"))
		line("owner", e.Owner)
		line("fingerprint", e.fingerprint())
		line("version", e.Version)
		if e.Arrival != nil {
			line("arrived", e.Arrival.Format(time.RFC3339Nano))
		}
		line("counts", e.counts())
		if e.Done {
			line("effect", "done")
		}
		if e.InProgressUntil != nil {
			line("effect", "in progress until "+e.InProgressUntil.Format(time.RFC3339)+"; not known to be done")
		}
		line("place", e.Place)
	}
	if j.Answer != nil {
		b.WriteByte('\n')
		line("answer", j.Answer.text())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (e explainedEntryJSON) fingerprint() string {
	text := "digest " + e.Content
	switch {
	case e.SameFingerprint == nil:
		return text
	case *e.SameFingerprint:
		return text + ", equal to the record's"
	}
	return text + ", not equal to the record's"
}

func (e explainedEntryJSON) counts() string {
	switch {
	case e.Void:
		return "no: its run has not saved the record. If the run has stopped, the next record takes the entry over"
	case e.CountsUntil != nil:
		return fmt.Sprintf("%s, for arrivals from %s to %s", yesOrNo(e.Counts), e.CountsSince.Format(time.RFC3339),
			e.CountsUntil.Format(time.RFC3339))
	case e.PurgeAt == nil:
		return "yes, forever"
	case e.Counts:
		return "yes, until " + e.PurgeAt.Format(time.RFC3339)
	}
	return "no, only until " + e.PurgeAt.Format(time.RFC3339)
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (a explainedAnswer) text() string {
	switch a.Outcome {
	case "new":
		return "new: the record is delivered"
	case "retry":
		return "retry: the record is delivered again, as " + a.ID
	case "natural":
		return "natural duplicate: the record is dropped"
	case "synthetic":
		return "synthetic duplicate: the record is delivered as " + a.ID
	case "too-old":
		return "too old: entries of its time were deleted by ledger compact, so the record is a dead letter"
	}
	return "no id is left: the record is a dead letter"
}
