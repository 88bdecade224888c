package claims

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/shared/filelock"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type claimsExport struct {
	Campaign string `arg:"" help:"The campaign."`
	Format   string `help:"csv, with the names of the columns in the first line, or ndjson. Default: csv, or ndjson with --output json." enum:"csv,ndjson," default:"" placeholder:"csv|ndjson"`
	Out      string `help:"Write into this file, which must not exist. A stopped export goes on with the same command. Default: stdout." placeholder:"FILE"`
	rateFlag
}

func (claimsExport) Help() string {
	return `Claims are made and end while they are exported. A claim that exists from the beginning to the end is exported once. A
claim that is made, confirmed, released or closed meanwhile may be exported as it was before, as it is afterwards, or
not at all. No slot of a claimant is exported twice. An item that passes to another claimant meanwhile may be exported with both;
the claim_id and claimed_at tell which claim is later. For an exact picture export a closed campaign, or a copy of the
tables at one moment.

With --out the claims are in FILE.part until all are written, and FILE.resume says how far the export has come. After an
interruption the same command goes on there. While it works, FILE.lock keeps other exports from FILE. On stdout an
export cannot go on.

It reads all claims of the scope, and needs the memory of a page of 1 MB. On DynamoDB that is a read unit for about 20
claims, and at least one for each of 256 partition keys: a million claims are about 50,000 read units. --rate spreads
them out.

CSV has the columns campaign, claimant, slot, claim_id, item, columns, items, claimed_at and ends_at. The columns of an
item are a JSON object. A claim with several items has the first in item, and all as a JSON array in items, as NDJSON
has them; it is empty otherwise. In a campaign with columns each item is a read unit more. Claimants and items are
written as they are: a spreadsheet may take a text that begins with =, +, - or @ for a formula, so import the columns
as text. oncebox replay reads NDJSON.

Examples:
  oncebox claims export spring --out spring.csv
  oncebox claims export spring --out spring.ndjson --format ndjson --rate 5000   # beside a sale
  oncebox claims export spring | gzip > spring.csv.gz`
}

const (
	formatCSV    = "csv"
	formatNDJSON = "ndjson"
)

func (c claimsExport) Run(ctx context.Context, a *cli.App) error {
	if c.Format == "" {
		if c.Format = formatCSV; a.Output == cli.OutputJSON {
			c.Format = formatNDJSON
		}
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.export(ctx, a, b) }, c.option())
}

func (c claimsExport) export(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	begin := exportPosition{
		Campaign: campaign.Name, CreatedAt: exactTime(campaign.CreatedAt), Scope: campaign.Scope,
		Store: storeName(a.Globals), Format: c.Format,
	}
	if c.Out == "" {
		out := bufio.NewWriter(a.Stdout)
		return c.write(ctx, a, b, out, &begin, out.Flush)
	}
	file, err := openExport(c.Out, begin)
	if err != nil {
		return err
	}
	defer file.Close()
	before := file.position.Claims
	if file.position.Next != "" {
		a.Remark("went on after %s", cli.Quantity(before, "claim"))
	}
	if err := c.write(ctx, a, b, file, &file.position, file.save); err != nil {
		if file.position.Next != "" {
			return cli.Stopped("after "+cli.Quantity(file.position.Claims, "claim"), err)
		}
		return err
	}
	if err := file.finish(); err != nil {
		return err
	}
	return a.Print(exportJSON{c.Campaign, c.Out, c.Format, file.position.Claims},
		fmt.Sprintf("exported %s of %s to %s", cli.Quantity(file.position.Claims, "claim"), c.Campaign, c.Out))
}

// storeName names the store. For a store with several tables it also names the table of claims.
func storeName(g cli.Globals) string {
	if g.Store == cli.DynamoDBStore {
		return g.Store + g.DedupeTable
	}
	return g.Store
}

// exportJSON is the result of an export into a file.
type exportJSON struct {
	Campaign string `json:"campaign"`
	Out      string `json:"out"`
	Format   string `json:"format"`
	Claims   int64  `json:"claims"`
}

// exportPosition identifies an export and holds its progress.
type exportPosition struct {
	Campaign  string `json:"campaign"`
	CreatedAt string `json:"created_at"` // of the campaign: tables elsewhere can have the same names
	Scope     string `json:"scope"`
	Store     string `json:"store"`
	Format    string `json:"format"`
	Next      string `json:"next"`   // the beginning of the next page
	Bytes     int64  `json:"bytes"`  // the size of the output so far
	Claims    int64  `json:"claims"` // the number of claims so far
}

// sameExport reports whether both positions are of one export.
func (p exportPosition) sameExport(o exportPosition) bool {
	p.Next, p.Bytes, p.Claims = o.Next, o.Bytes, o.Claims
	return p == o
}

// write writes the claims from the position on, and saves the position after each page.
func (c claimsExport) write(
	ctx context.Context, a *cli.App, b *itembank.Operator, out io.Writer, at *exportPosition, save func() error,
) error {
	progress, finish := a.Counting("exporting "+c.Campaign, "claims")
	defer finish()
	for first := at.Next == ""; first || at.Next != ""; first = false {
		page, err := b.ListClaims(ctx, c.Campaign, at.Next)
		if err != nil {
			return err
		}
		if err := writeClaims(out, c.Format, first, page.Claims); err != nil {
			return err
		}
		at.Next = page.Next
		at.Claims += int64(len(page.Claims))
		if err := save(); err != nil {
			return err
		}
		if progress != nil {
			progress(at.Claims, 0)
		}
	}
	return nil
}

// exportColumns are the columns of CSV.
var exportColumns = []string{
	"campaign", "claimant", "slot", "claim_id", "item", "columns", "items", "claimed_at", "ends_at",
}

// inCSV returns the cells of a claim. JSON is in the cells of columns and of several items.
func (j claimJSON) inCSV() []string {
	cells := []string{j.Campaign, j.Claimant, strconv.Itoa(j.Slot), j.ClaimID, j.Item, "", "", j.ClaimedAt, j.EndsAt}
	if j.Columns != "" {
		cells[5] = jsonCell(j.Columns)
	}
	if len(j.Items) > 0 {
		cells[6] = jsonCell(j.Items)
	}
	return cells
}

func jsonCell(value any) string {
	var cell strings.Builder
	_ = cli.NewEncoder(&cell).Encode(value) // cannot fail for texts
	return strings.TrimSuffix(cell.String(), "\n")
}

// writeClaims writes a page. With the first one CSV has the names of the columns.
func writeClaims(to io.Writer, format string, first bool, claims []itembank.Claim) error {
	if format == formatNDJSON {
		encoder := cli.NewEncoder(to)
		for _, c := range claims {
			if err := encoder.Encode(toClaimJSON(c)); err != nil {
				return err
			}
		}
		return nil
	}
	lines := csv.NewWriter(to)
	if first {
		_ = lines.Write(exportColumns) // Error returns the error
	}
	for _, claim := range claims {
		_ = lines.Write(toClaimJSON(claim).inCSV())
	}
	lines.Flush()
	return lines.Error()
}

// exportFile is the output of an export that can continue after an interruption.
type exportFile struct {
	path     string
	lock     *filelock.Lock
	part     *os.File
	written  int64 // the size of FILE.part
	position exportPosition
}

func partOf(path string) string   { return path + ".part" }
func resumeOf(path string) string { return path + ".resume" }

// openExport opens the output of a new export, or of a stopped export. No other process can open it.
func openExport(path string, export exportPosition) (*exportFile, error) {
	lock, err := filelock.Take(path)
	switch {
	case errors.Is(err, filelock.ErrLocked):
		return nil, cli.BadUsage(
			fmt.Errorf("--out %s: another process is writing to it", path), "Wait until it has ended, or choose another file.",
		)
	case errors.Is(err, filelock.ErrNotALock):
		return nil, otherFile(filelock.Name(path))
	case err != nil:
		return nil, cli.BadUsage(cli.FileError(filelock.Name(path), err), "")
	}
	f := &exportFile{path: path, lock: lock, position: export}
	if err := f.open(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// open opens FILE.part, and cuts it to the saved position.
func (f *exportFile) open() error {
	if _, err := os.Stat(f.path); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return cli.BadUsage(cli.FileError(f.path, err), "")
		}
		return cli.BadUsage(fmt.Errorf("--out %s: the file exists", f.path), "Choose another file or delete it.")
	}
	saved, err := os.ReadFile(resumeOf(f.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = f.begin()
	case err != nil:
		err = cli.BadUsage(cli.FileError(resumeOf(f.path), err), "")
	default:
		err = f.resume(saved, f.position)
	}
	if err != nil {
		return err
	}
	if f.part, err = os.OpenFile(partOf(f.path), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return cli.BadUsage(cli.FileError(partOf(f.path), err), "")
	}
	f.written = f.position.Bytes
	if err := f.part.Truncate(f.written); err != nil {
		return err
	}
	_, err = f.part.Seek(f.written, io.SeekStart)
	return err
}

// begin saves the first position. So FILE.part belongs to an export only if FILE.resume exists.
func (f *exportFile) begin() error {
	_, err := os.Stat(partOf(f.path))
	switch {
	case err == nil:
		return otherFile(partOf(f.path))
	case !errors.Is(err, fs.ErrNotExist):
		return cli.BadUsage(cli.FileError(partOf(f.path), err), "")
	}
	if err := f.savePosition(); err != nil {
		return cli.BadUsage(cli.FileError(resumeOf(f.path), err), "")
	}
	return nil
}

// otherFile returns the error for a file whose name the export needs.
func otherFile(path string) error {
	return cli.BadUsage(
		fmt.Errorf("the export needs %s for itself, but that file is not of an export that can go on", path),
		"Choose another file for --out, or delete that one.",
	)
}

// resume reads a saved position, which must be of the same export.
func (f *exportFile) resume(saved []byte, export exportPosition) error {
	again := fmt.Sprintf("Delete %s and %s to begin anew.", resumeOf(f.path), partOf(f.path))
	if err := json.Unmarshal(saved, &f.position); err != nil {
		return cli.BadUsage(fmt.Errorf("%s is damaged", resumeOf(f.path)), again)
	}
	if p := f.position; !p.sameExport(export) {
		const form = "%s is of another export: of %s, created %s, of %s, as %s"
		return cli.BadUsage(fmt.Errorf(form, resumeOf(f.path), p.Campaign, p.CreatedAt, p.Store, p.Format), again)
	}
	info, err := os.Stat(partOf(f.path))
	if begun := f.position.Bytes > 0; begun && (err != nil || info.Size() < f.position.Bytes) {
		return cli.BadUsage(fmt.Errorf("%s is gone or shorter than %s says", partOf(f.path), resumeOf(f.path)), again)
	}
	return nil
}

func (f *exportFile) Write(p []byte) (int, error) {
	n, err := f.part.Write(p)
	f.written += int64(n)
	return n, err
}

// save syncs the output to the disk, and then saves the position.
func (f *exportFile) save() error {
	if f.written > f.position.Bytes {
		if err := f.part.Sync(); err != nil {
			return err
		}
		f.position.Bytes = f.written
	}
	if f.position.Next == "" {
		return nil // the file is complete, and finish follows
	}
	return f.savePosition()
}

func (f *exportFile) savePosition() error {
	raw, err := json.Marshal(f.position)
	if err != nil {
		return err
	}
	next := resumeOf(f.path) + ".new"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(next, resumeOf(f.path))
}

// finish gives the complete output its name.
func (f *exportFile) finish() error {
	if err := os.Rename(partOf(f.path), f.path); err != nil {
		return err
	}
	if err := os.Remove(resumeOf(f.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close closes the output. Output that save has not synced is not part of the export.
func (f *exportFile) Close() {
	if f.part != nil {
		_ = f.part.Close()
	}
	f.lock.Release()
}
