package records

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/shared/settings"

	_ "embed"
)

// These are the files of a report.
const (
	reportListing = "records.csv"
	reportPage    = "report.html"
)

//go:embed dedupe_report.html
var reportText string

var reportTemplate = template.Must(template.New(reportPage).Parse(reportText))

// listing is the CSV file of the report; empty without --report.
func (c *dedupeCommand) listing() string {
	if c.Report == "" {
		return ""
	}
	return filepath.Join(c.Report, reportListing)
}

// makeReportFolder makes the folder of the report. Call undo if nothing was written: it removes a folder that was
// made.
func (c *dedupeCommand) makeReportFolder() (undo func(), err error) {
	if c.Report == "" {
		return func() {}, nil
	}
	err = os.Mkdir(c.Report, 0o777) //nolint:gosec // the umask of the user decides, as with mkdir
	switch {
	case err == nil:
		return func() { _ = os.Remove(c.Report) }, nil
	case !errors.Is(err, fs.ErrExist):
		return nil, cli.BadUsage(cli.FileError(c.Report, err), "")
	}
	_, listed := os.Stat(c.listing())
	_, page := os.Stat(filepath.Join(c.Report, reportPage))
	if page == nil && listed != nil {
		return nil, cli.BadUsage(
			fmt.Errorf("--report %s: the folder has a %s that is not of a report", c.Report, reportPage), "Choose another folder.",
		)
	}
	return func() {}, nil
}

// share is a number of records in a chart.
type share struct {
	Name, Class, Means string
	Records            string
	Begin, Width       float64 // percent
}

type reportData struct {
	Title, Run, In, Out  string
	DryRun               bool
	Outcomes             []share
	Differences          []share
	ComparedIDs, Listing string
	Columns              []string
	Rows                 [][]string
	More                 bool // more rows follow
	Settings             [][2]string
	Version              string
}

// writeReport writes the page of the report, with the numbers of the summary.
func (c *dedupeCommand) writeReport(r offline.Report, version string) error {
	if c.Report == "" {
		return nil
	}
	data := reportData{
		Title: strings.Join(c.Files, ", "), Run: r.Run, In: cli.WithCommas(r.In), Out: cli.WithCommas(r.Out),
		DryRun: c.DryRun, Outcomes: outcomeShares(r), Differences: differenceShares(r.Differences),
		Listing: reportListing, Settings: c.reportSettings(), Version: "oncebox " + version,
	}
	if r.ComparedIDs > 0 {
		data.ComparedIDs = cli.WithCommas(int64(r.ComparedIDs))
	}
	var err error
	if data.Columns, data.Rows, data.More, err = firstRows(c.listing()); err != nil {
		return err
	}
	path := filepath.Join(c.Report, reportPage)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(reportTemplate.Execute(file, data), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func outcomeShares(r offline.Report) (shares []share) {
	begin := 0.0
	for _, s := range []struct {
		name, means string
		records     int64
	}{
		{"new", "The first record of its id: written.", r.New},
		{"retry", "The same record again: written again.", r.Retry},
		{"natural", "A copy of an earlier record: dropped, unless --natural is off.", r.Natural},
		{"synthetic", "Another record with the id of an earlier one: renamed, unless --synthetic is off.", r.Synthetic},
		{"dead_lettered", "It cannot be processed: kept whole in the dead-letter file.", r.DeadLettered},
		{"skipped", "An empty line.", r.Skipped},
	} {
		width := percent(s.records, r.In)
		shares = append(shares, share{
			Name: s.name, Class: s.name, Means: s.means, Records: cli.WithCommas(s.records), Begin: begin, Width: width,
		})
		begin += width
	}
	return shares
}

func differenceShares(differences []offline.Difference) (shares []share) {
	for _, d := range differences {
		shares = append(shares, share{
			Name: strings.Join(d.Members, ", "), Records: cli.WithCommas(d.Records),
			Width: percent(d.Records, differences[0].Records), // the most frequent one is the first
		})
	}
	return shares
}

func percent(part, of int64) float64 { return 100 * float64(part) / float64(max(of, 1)) }

// firstRows reads the beginning of a listing.
func firstRows(path string) (columns []string, rows [][]string, more bool, err error) {
	const shown = 50
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, false, err
	}
	defer func() { _ = file.Close() }() // the file was only read
	r := csv.NewReader(file)
	if columns, err = r.Read(); err != nil {
		return nil, nil, false, err
	}
	for {
		row, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return columns, rows, false, nil
		case err != nil:
			return nil, nil, false, err
		case len(rows) == shown:
			return columns, rows, true, nil
		}
		rows = append(rows, row)
	}
}

// reportSettings are the settings that decide about the records.
func (c *dedupeCommand) reportSettings() [][2]string {
	const shown = 20
	inputs := slices.Clone(c.Files)
	if len(inputs) > shown {
		inputs = append(inputs[:shown], fmt.Sprintf("and %d more", len(inputs)-shown))
	}
	window := "forever"
	if c.Window != nil {
		window = settings.FormatDuration(*c.Window)
	}
	return [][2]string{
		{"inputs", strings.Join(inputs, "\n")},
		{"--scope", c.Scope}, {"--id-path", c.IDPath},
		{"--fingerprint-path", cmp.Or(c.FingerprintPath, "computed")},
		{"--volatile", cmp.Or(strings.Join(c.Volatile, ","), "none")},
		{"--owner-path", cmp.Or(c.OwnerPath, "the run and the line")},
		{"--time-path", cmp.Or(c.TimePath, "the beginning of the run")},
		{"--window", window}, {"--ids", string(c.IDs)},
	}
}
