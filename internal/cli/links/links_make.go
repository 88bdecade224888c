package links

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/claims/itemfile"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type linksMake struct {
	Campaign  string    `arg:"" help:"The campaign that the links are for; with --scope, the name of the scope."`
	Customers string    `arg:"" help:"CSV, with commas, semicolons, tabs or pipes; - is stdin."`
	Key       string    `required:"" help:"The private key, which oncebox links keygen wrote." placeholder:"FILE"`
	Page      string    `required:"" help:"The page that the links lead to, with https. The token follows behind #t=." placeholder:"URL"`
	Expires   time.Time `required:"" help:"When the links expire: ${times}. Choose a time after the end of the campaign." placeholder:"TIME"`
	Column    string    `help:"The column with the claimants: a name from the first row, or a number from 1. With a number the first row is a customer too, and is refused if it looks like a name. Default: ${default}." default:"claimant" placeholder:"NAME|N"`
	Scope     bool      `help:"The links are for all campaigns of a scope."`
}

func (linksMake) Help() string {
	return `Prints the rows of the file with one more column, link. Needs no store, and so no access to AWS.

Checks the whole file first. If one row is bad, nothing is printed and the exit code is 2. As in the API a
claimant has 1 to 256 bytes of UTF-8 without control characters. White space around a claimant is refused.

Rows of one claimant have the same link, and get one item together. The command names such rows, and the exit code is
4: make sure that the column tells customers apart. The same command prints the same links again.

A person who has a link can claim with it and see the item. Send each link to its customer only.

Examples:
  oncebox links make spring customers.csv --key link.key --page https://shop.example/s --expires 2027-06-01 > links.csv
  oncebox links make spring mails.csv --column email --key link.key --page https://shop.example/s --expires 2027-06-01`
}

// linkColumn is the name of the added column.
const linkColumn = "link"

func (c linksMake) Run(ctx context.Context, a *cli.App) error {
	claims := claimlink.Claims{Campaign: c.Campaign, Expires: c.Expires}
	if c.Scope {
		claims.Campaign, claims.Scope = "", c.Campaign
	}
	if err := c.check(); err != nil {
		return err
	}
	key, err := ReadPrivateKey(c.Key)
	if err != nil {
		return err
	}
	open, remove, err := cli.OpenItemFile(ctx, c.Customers, a.Stdin)
	if err != nil {
		return err
	}
	defer remove()
	separator, err := itemfile.Separator(open, c.Column)
	if err != nil {
		return cli.BadUsage(fmt.Errorf("%s: %w", c.Customers, err), "No link was made.")
	}
	rows := itemfile.Rows(open, separator)
	found, err := c.inspect(ctx, rows)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.Stdout)
	w := linkWriter{page: c.Page, key: key, claims: claims, column: found.column, named: found.named, csv: csv.NewWriter(out)}
	w.csv.Comma = separator
	if a.Output == cli.OutputJSON {
		w.json = cli.NewEncoder(out)
	}
	if err := w.writeAll(ctx, rows, found.rows, a.Progress("making links")); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	a.Remark("made %s with the key %s; they expire at %s",
		cli.Quantity(found.rows, "link"), key.ID(), cli.Understood(c.Expires))
	return found.repeated.err(c.Customers)
}

// check returns the problems in the arguments, but does not check the files.
func (c linksMake) check() error {
	kind := "campaign"
	if c.Scope {
		kind = "scope"
	}
	if err := itembank.ValidateName(kind, c.Campaign); err != nil {
		return cli.BadUsage(err, "")
	}
	page, err := url.Parse(c.Page)
	switch {
	case err != nil || page.Host == "" || page.User != nil || page.Scheme != "https" && !isLocal(page):
		return cli.BadUsage(
			fmt.Errorf("--page %q: must be an https URL", c.Page), "On this machine it may be http, as in http://"+onThisMachine(page)+"/.",
		)
	case strings.Contains(c.Page, "#"):
		return cli.BadUsage(fmt.Errorf("--page %q: must have no #, behind which the token stands", c.Page), "")
	case !c.Expires.After(time.Now()):
		return cli.BadUsage(
			fmt.Errorf("--expires %s: is over", cli.Understood(c.Expires)), "Choose a time after the end of the campaign.",
		)
	}
	return nil
}

// onThisMachine is the host of a page on this machine, with the port that the user named.
func onThisMachine(page *url.URL) string {
	if page == nil || page.Port() == "" {
		return "localhost:8080"
	}
	return net.JoinHostPort("localhost", page.Port())
}

func isLocal(page *url.URL) bool {
	ip := net.ParseIP(page.Hostname())
	return page.Scheme == "http" && (page.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// linkWriter writes rows with their links.
type linkWriter struct {
	page   string
	key    *claimlink.PrivateKey
	claims claimlink.Claims // the claims of every link, without the claimant
	column int
	named  bool // the next row names the columns
	csv    *csv.Writer
	json   *json.Encoder // nil: CSV
}

// linkJSON is a link with --output json, one a line.
type linkJSON struct {
	Line     int64  `json:"line"`
	Claimant string `json:"claimant"`
	Link     string `json:"link"`
}

// writeAll writes the rows of a file that was checked.
func (w linkWriter) writeAll(
	ctx context.Context, rows iter.Seq2[itemfile.Row, error], total int64, progress itembank.Progress,
) error {
	var done int64
	for row, err := range rows {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case w.named:
			w.named = false
			err = w.writeHeader(row)
		default:
			done++
			err = w.write(row)
		}
		if err != nil {
			return err
		}
		if progress != nil {
			progress(done, total)
		}
	}
	w.csv.Flush()
	return w.csv.Error()
}

func (w linkWriter) writeHeader(row itemfile.Row) error {
	if w.json != nil {
		return nil
	}
	return w.csv.Write(append(slices.Clone(row.Cells), linkColumn))
}

func (w linkWriter) write(row itemfile.Row) error {
	claims := w.claims
	claims.Claimant = row.Cells[w.column]
	token, err := w.key.Sign(claims)
	if err != nil {
		return fmt.Errorf("line %d: %w", row.Line, err)
	}
	link := w.page + "#t=" + token
	if w.json != nil {
		return w.json.Encode(linkJSON{row.Line, claims.Claimant, link})
	}
	return w.csv.Write(append(slices.Clone(row.Cells), link))
}
