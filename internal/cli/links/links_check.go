package links

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/claims/itemfile"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// customers holds the results of reading a file of customers without bad rows.
type customers struct {
	column   int    // the column of the claimants, from 0
	named    bool   // the first row names the columns
	first    string // the first claimant
	others   int64  // the number of rows after it with an @
	rows     int64  // the number of rows, without the row that names the columns
	repeated repeatedRows
}

// shownRows is the number of rows that a message names.
const shownRows = 5

// inspect reads the whole file. It keeps a hash of each claimant: about 40 bytes.
func (c linksMake) inspect(ctx context.Context, rows iter.Seq2[itemfile.Row, error]) (found customers, err error) {
	var bad badRows
	width := 0
	for row, err := range rows {
		var line *itembank.LineError
		switch {
		case ctx.Err() != nil:
			return found, ctx.Err()
		case errors.As(err, &line):
			bad.add(line.Line, detailOf(line))
		case err != nil:
			return found, fmt.Errorf("%s: %w", c.Customers, err)
		case width == 0:
			width = len(row.Cells)
			if found.column, found.named, err = c.columnOf(row.Cells); err != nil {
				return found, err
			}
			if found.named {
				continue
			}
			fallthrough
		default:
			found.rows++
			bad.check(row, width, found.column)
			found.note(row)
			found.repeated.add(row, found.column)
		}
	}
	if err := bad.err(c.Customers); err != nil {
		return found, err
	}
	if found.rows == 0 {
		return found, cli.BadUsage(fmt.Errorf("%s: has no customers", c.Customers), "")
	}
	if !found.named && found.mayBeName() {
		return found, cli.BadUsage(
			fmt.Errorf("%s: --column %s: the first row has %q there, which may be the name of the column", c.Customers, c.Column, found.first),
			fmt.Sprintf("Say --column %q if it is. If it is a customer, put a first row with the names of the columns into the file.",
				found.first))
	}
	return found, nil
}

// note notes what mayBeName asks for.
func (c *customers) note(row itemfile.Row) {
	switch {
	case c.column >= len(row.Cells): // a bad row
	case c.rows == 1:
		c.first = strings.Clone(row.Cells[c.column])
	case strings.Contains(row.Cells[c.column], "@"):
		c.others++
	}
}

// headerWords are the words of which people make the name of a column of claimants.
var headerWords = []string{
	"claimant", "claimants", "customer", "customers", "user", "users", "username", "member", "members", "account", "id", "ids", "name",
	"names", "number", "e", "email", "emails", "mail", "mails", "address", "addresses", "kunde", "kunden", "kundennummer", "nummer",
	"adresse",
}

// mayBeName reports whether the first claimant may be the name of the column: it is no e-mail address, and each of its
// words is one of headerWords, or all others are addresses. With the number of a column it would get a link.
func (c *customers) mayBeName() bool {
	return !strings.Contains(c.first, "@") && (itemfile.MadeOf(c.first, headerWords) || c.rows > 1 && c.others == c.rows-1)
}

// columnOf finds the column of the claimants in the first row. It reports whether this row names the columns.
func (c linksMake) columnOf(first []string) (column int, named bool, err error) {
	refuse := func(hint, format string, args ...any) (int, bool, error) {
		return 0, false, cli.BadUsage(fmt.Errorf("%s: "+format, append([]any{c.Customers}, args...)...), hint)
	}
	if n, err := strconv.Atoi(c.Column); err == nil {
		if n < 1 || n > len(first) {
			return refuse("", "--column %d: the first row has %s", n, cli.Quantity(int64(len(first)), "column"))
		}
		return n - 1, false, nil
	}
	if slices.Contains(first, linkColumn) {
		return refuse("Remove or rename it.", "has a column %s already", linkColumn)
	}
	if column = slices.Index(first, c.Column); column < 0 {
		return refuse("Name the column that tells customers apart, with --column.",
			"has no column %q; its first row has %s", c.Column, quotedList(first))
	}
	return column, true, nil
}

// badRows collects the problems in rows.
type badRows struct {
	first []string
	total int64
}

func (b *badRows) add(line int64, detail string) {
	b.total++
	if len(b.first) < shownRows {
		b.first = append(b.first, fmt.Sprintf("line %d %s", line, detail))
	}
}

// check checks the claimant with the rule of the API. White space around it would become a part of it, which no user
// wants.
func (b *badRows) check(row itemfile.Row, width, column int) {
	if len(row.Cells) != width {
		b.add(row.Line, fmt.Sprintf("has %s, and the first row has %d", cli.Quantity(int64(len(row.Cells)), "column"), width))
		return
	}
	claimant := row.Cells[column]
	if err := claimapi.ValidateClaimant(claimant); err != nil {
		b.add(row.Line, fmt.Sprintf("column %d %s", column+1, detailOf(err)))
	} else if strings.TrimSpace(claimant) != claimant {
		b.add(row.Line, fmt.Sprintf("column %d has white space around the claimant", column+1))
	}
}

func (b *badRows) err(file string) error {
	if b.total == 0 {
		return nil
	}
	verb := "are"
	if b.total == 1 {
		verb = "is"
	}
	text := fmt.Sprintf("%s: %s %s wrong:\n  %s", file, cli.Quantity(b.total, "line"), verb, strings.Join(b.first, "\n  "))
	if more := b.total - int64(len(b.first)); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	hint := "No link was made."
	if strings.Contains(text, itemfile.NotUTF8) {
		hint += " " + itemfile.EncodingAdvice
	}
	return cli.BadUsage(errors.New(text), hint)
}

// detailOf returns the text of an error of package itembank, without the name of the field.
func detailOf(err error) string {
	if invalid, ok := errors.AsType[*itembank.InvalidError](err); ok {
		return invalid.Detail
	}
	return err.Error()
}

// repeatedRows finds claimants with several rows.
type repeatedRows struct {
	seed  maphash.Seed
	lines map[uint64]int64 // by the hash of the claimant: the first line with the claimant
	first []string
	total int64
}

func (r *repeatedRows) add(row itemfile.Row, column int) {
	if column >= len(row.Cells) {
		return // a bad row
	}
	if r.lines == nil {
		r.seed, r.lines = maphash.MakeSeed(), map[uint64]int64{}
	}
	hash := maphash.String(r.seed, row.Cells[column])
	earlier, found := r.lines[hash]
	if !found {
		r.lines[hash] = row.Line
		return
	}
	r.total++
	if len(r.first) < shownRows {
		r.first = append(r.first, fmt.Sprintf("line %d has the claimant of line %d", row.Line, earlier))
	}
}

// err returns an error if rows are repeated.
func (r *repeatedRows) err(file string) error {
	if r.total == 0 {
		return nil
	}
	text := strings.Join(r.first, "\n  ")
	if more := r.total - int64(len(r.first)); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return cli.WithHint(
		fmt.Errorf("%w: rows of %s repeat a claimant:\n  %s", cli.ErrLook, file, text),
		"All links were made. The rows of one claimant have the same link and get one item together.",
	)
}

func quotedList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(quoted, ", ")
}
