package delivery

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

type redriveShow struct {
	Name    string `arg:"" help:"The name of the letter, as redrive list prints it."`
	Letters string `arg:"" optional:"" name:"store" help:"s3://BUCKET/PREFIX or dir:PATH. Default: ONCEBOX_DEAD_LETTERS."`
}

func (redriveShow) Help() string {
	return `Prints the letter, its marker if it is done, and its records: a payload that is text as text, another one in base64,
and what it looks like.

Examples:
  oncebox redrive show poison/orders/NAME.json s3://my-dead-letters
  oncebox --output json redrive show NAME.json dir:failed | jq -r '.payloads[].text'`
}

// shownLetter holds all data of a letter.
type shownLetter struct {
	letterJSON
	Place        deadletter.Place   `json:"place"`
	PartitionKey string             `json:"partition_key,omitempty"`
	Function     string             `json:"function,omitempty"`
	Invocations  int                `json:"invocations,omitempty"` // approximately
	GivenUpAt    *time.Time         `json:"given_up_at,omitempty"`
	Marker       *deadletter.Marker `json:"marker,omitempty"`
	Payloads     []payloadJSON      `json:"payloads"` // none if they are in the stream only
}

// payloadJSON is the payload of one record: as a text, or in base64.
type payloadJSON struct {
	Sequence  string  `json:"sequence"`
	Text      *string `json:"text,omitempty"`
	Base64    []byte  `json:"base64,omitempty"`
	LooksLike string  `json:"looks_like"`
}

func (c redriveShow) Run(ctx context.Context, a *cli.App) error {
	archive, err := openArchive(ctx, a, c.Letters)
	if err != nil {
		return err
	}
	letter, err := archive.Read(ctx, c.Name)
	if err != nil {
		return err
	}
	marker, err := archive.Done(ctx, c.Name)
	if err != nil {
		return err
	}
	retention, err := functionRetention(a.Environ)
	if err != nil {
		return err
	}
	foreign := redrive.Identify(&letter, retention, time.Now())
	begun, err := archive.Look(ctx, c.Name, nil)
	if err != nil {
		return err
	}
	status := redrive.Pending
	switch {
	case marker != nil:
		status = redrive.Done
	case foreign != nil:
		status = redrive.Refused
	case begun.Other != nil:
		status = redrive.Begun
	case retention.PastHorizon(letter.Arrival(), time.Now()):
		status = redrive.PastHorizon
	}
	shown, err := show(letter, status, retention)
	if err != nil {
		return err
	}
	switch shown.Place, shown.Marker = archive.Place(c.Name), marker; {
	case status == redrive.Begun:
		shown.Why = redrive.BegunBy(begun.Other)
	case foreign != nil:
		shown.Why = foreign.Error()
	}
	return a.Print(shown, shown.text())
}

func show(l deadletter.Letter, status redrive.Status, r dedupe.Retention) (shownLetter, error) {
	s := shownLetter{letterJSON: toLetterJSON(redrive.Report{Name: l.Name, Status: status, Letter: l})}
	s.Payloads = []payloadJSON{}
	if l.Poison != nil {
		s.PartitionKey = strings.ToValidUTF8(l.Poison.PartitionKey, "\uFFFD")
		s.Payloads = append(s.Payloads, payloadOf(l.Poison.Position.Sequence, l.Poison.Data))
		return s, nil
	}
	s.Function, s.Invocations = l.Batch.Function, l.Batch.Invocations
	if !l.Batch.At.IsZero() { // an event of a dead-letter queue has no time
		s.GivenUpAt = &l.Batch.At
	}
	if l.Batch.Event == nil {
		return s, nil
	}
	batch, err := recordhandler.Decode(l.Batch.Event, true)
	if l.Batch.Async {
		if batch, err = redrive.Invocation(l.Batch, r, time.Now()); err != nil { // a foreign event
			s.Payloads = append(s.Payloads, payloadOf(l.Batch.RequestID, l.Batch.Event))
			return s, nil //nolint:nilerr // the status says that it is refused, and why
		}
	}
	for _, r := range batch.Records {
		s.Payloads = append(s.Payloads, payloadOf(r.Sequence, r.Data))
	}
	return s, err
}

func payloadOf(sequence string, data []byte) payloadJSON {
	p := payloadJSON{Sequence: sequence, LooksLike: format.LooksLike(data)}
	if !isPlain(data) {
		p.Base64 = data
		return p
	}
	text := string(data)
	p.Text = &text
	return p
}

// isPlain reports whether a payload can be printed unchanged: a terminal reads control characters as commands.
func isPlain(data []byte) bool {
	return utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r)
	})
}

// text returns the letter as lines.
func (s shownLetter) text() string {
	var b strings.Builder
	line := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" {
			fmt.Fprintf(&b, "%-14s %s\n", name, text)
		}
	}
	line("name", s.Name)
	line("place", placeText(s.Place))
	line("status", s.Status)
	line("because", s.Why)
	line("kind", s.Kind)
	line("reason", s.Reason)
	line("arrival", s.arrivalText(time.RFC3339Nano))
	line("owner", s.Owner)
	line("scope", s.Scope)
	line("partition key", fmt.Sprintf("%q", s.PartitionKey))
	line("function", s.Function)
	line("records", s.Records)
	if m := s.Marker; m != nil {
		line("done", m.At.Format(time.RFC3339)+", "+m.Outcome)
		line("why", m.Reason)
		line("patch", m.Patch)
		line("settings", strings.Join(m.Settings, " "))
	}
	if len(s.Payloads) == 0 {
		line("payload", "only in the stream")
	}
	for _, p := range s.Payloads {
		fmt.Fprintf(&b, "%-14s %s (%s)\n", "payload of", p.Sequence, p.LooksLike)
		if p.Text != nil {
			fmt.Fprintln(&b, *p.Text)
			continue
		}
		fmt.Fprintf(&b, "base64: %s\n", base64.StdEncoding.EncodeToString(p.Base64))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func placeText(p deadletter.Place) string {
	if p.Path != "" {
		return p.Path
	}
	return "s3://" + p.Bucket + "/" + p.Key
}
