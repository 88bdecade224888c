package records

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/shared/suggest"
	"github.com/oncebox/oncebox/pkg/format"
)

// explainFirstLines adds advice to the error about an input whose first lines cannot be processed.
func (c *dedupeCommand) explainFirstLines(err error) error {
	e, ok := errors.AsType[*offline.NotRecordsError](err)
	if !ok {
		return err
	}
	hint := cmp.Or(c.otherFormat(e), convert(e), c.otherPath(e), otherLedger(e))
	return cli.WithHint(err, strings.TrimLeft(hint+" To process the lines as they are, say --poison-limit off.", " "))
}

// otherFormat returns the --format that the input has. It does not advise to convert an input for --format snowplow
// to JSON.
func (c *dedupeCommand) otherFormat(e *offline.NotRecordsError) string {
	switch {
	case c.Format != snowplow && e.LooksLike == format.LooksLikeEvent:
		return "The input has enriched events of Snowplow: say --format snowplow, without --id-path."
	case c.Format == snowplow && strings.Contains(e.LooksLike, "JSON"):
		return "The command reads JSON without --format snowplow."
	case c.Format == snowplow && e.LooksLike != format.LooksLikeEvent:
		return "The command needs one enriched event a line, of 131 columns with tabs between them."
	}
	return ""
}

// forms are the --records of inputs in another form, by the texts of format.LooksLike.
var forms = map[string]offline.Records{
	"a JSON array":                       offline.Array,
	"the beginning of a JSON array":      offline.Array,
	"an element of a JSON array":         offline.Array,
	"several JSON objects in one record": offline.Concatenated,
	"the beginning of a JSON object":     offline.Concatenated,
}

// converters are the commands that make one record a line and change no value, by the texts of format.LooksLike. jq is
// not among them: jq 1.6 rounds numbers above 2^53.
var converters = map[string]string{
	"bzip2":         "bzip2 -dc",
	"xz":            "xz -dc",
	"a ZIP archive": "unzip -p",
	"UTF-16 text":   "iconv -f UTF-16 -t UTF-8",
	"CSV":           "mlr --infer-none --icsv --ojsonl cat",
	"TSV":           "mlr --infer-none --itsv --ojsonl cat",
}

// unpackers are the commands that unpack an input before a converter reads it.
var unpackers = map[offline.Compression]string{offline.Gzip: "gzip -dc", offline.Zstandard: "zstd -dc"}

// convert returns advice how to read an input of another form. It returns "" if the form is right.
func convert(e *offline.NotRecordsError) string {
	if form := forms[e.LooksLike]; form != "" {
		return fmt.Sprintf("Say --records %s.", form)
	}
	if command := converters[e.LooksLike]; command != "" {
		switch unpack := unpackers[offline.CompressionOf(e.Input)]; {
		case unpack != "":
			command = unpack + " " + cli.ShellWord(e.Input) + " | " + command
		case e.Input != "-":
			command += " " + cli.ShellWord(e.Input)
		}
		return fmt.Sprintf("The command needs one JSON object a line: `%s | oncebox dedupe ...`.", command)
	}
	switch {
	case e.LooksLike == "a Parquet file":
		return parquetAdvice
	case strings.HasPrefix(e.LooksLike, "base64 of "):
		return "The command needs one JSON object a line: decode the lines first."
	}
	return ""
}

// parquetAdvice names no command: whether a column keeps its values depends on its type.
const parquetAdvice = "Parquet files have no lines. docs/files.md#parquet says how DuckDB writes them as lines, and reads " +
	"the output. `oncebox ledger import --format parquet` reads records of the past."

// otherPath returns the members of the records, if a path leads to no value in them.
func (c *dedupeCommand) otherPath(e *offline.NotRecordsError) string {
	flag, path := "", ""
	for _, of := range []struct{ what, flag, path string }{
		{"the id ", "--id-path", c.IDPath}, {"the owner ", "--owner-path", c.OwnerPath},
		{"the time ", "--time-path", c.TimePath}, {"the fingerprint ", "--fingerprint-path", c.FingerprintPath},
	} {
		if strings.HasPrefix(e.Reason, of.what) {
			flag, path = of.flag, of.path
		}
	}
	if flag == "" || len(e.Members) == 0 {
		return ""
	}
	text := fmt.Sprintf("%s is %s, and the members of the first record are: %s.", flag, path, strings.Join(e.Members, ", "))
	meant := suggest.Closest(path, e.Members)
	end := "." + path[strings.LastIndexByte(path, '.')+1:]
	if i := slices.IndexFunc(e.Members, func(m string) bool { return strings.HasSuffix(m, end) }); meant == "" && i >= 0 {
		meant = e.Members[i]
	}
	if meant != "" && meant != path {
		text += fmt.Sprintf(" Did you mean %s %s?", flag, cli.ShellWord(meant))
	}
	return text
}

// otherLedger returns advice about records that are too old for a ledger in DynamoDB.
func otherLedger(e *offline.NotRecordsError) string {
	if !strings.HasPrefix(e.Reason, "past the horizon") {
		return ""
	}
	return "DynamoDB deletes entries by the clock. Use a SQLite ledger for old records: --ledger FILE."
}

const (
	shownDifferences = 3  // in the text; JSON has all
	sureOfTwo        = 10 // a smaller number of records that differ in two members may well be different records
)

// remarkDifferences names the members in which records of one id differ, and that may not belong to the records.
func (c *dedupeCommand) remarkDifferences(a *cli.App, r offline.Report) {
	shown := slices.DeleteFunc(slices.Clone(r.Differences), func(d offline.Difference) bool {
		return len(d.Members) > 1 && d.Records < sureOfTwo
	})
	for _, d := range shown[:min(len(shown), shownDifferences)] {
		records := cli.WithCommas(d.Records) + " records share an id with another and differ"
		advice := "If these are not part of the record, leave them out:"
		if d.Records == 1 {
			records = "1 record shares an id with another and differs"
		}
		if len(d.Members) == 1 {
			advice = "If that is not part of the record, leave it out:"
		}
		for _, path := range d.Members {
			advice += " --volatile " + cli.ShellWord(path)
		}
		advice += c.afterThisRun(a, r.Run)
		a.Remark("%s from it only in %s. %s", records, strings.Join(d.Members, " and "), advice)
	}
	if len(shown) > 0 && r.ComparedIDs > 0 {
		a.Remark("only the records of the first %s ids were compared", cli.WithCommas(int64(r.ComparedIDs)))
	}
}

// afterThisRun returns how to give other options to a run whose records the ledger has already.
func (c *dedupeCommand) afterThisRun(a *cli.App, run string) string {
	switch {
	case c.DryRun, c.Ledger == inMemory:
		return ""
	case c.Window != nil, c.Ledger == "" && a.Store == cli.DynamoDBStore:
		return ", in another --scope"
	}
	return " --replace-run " + run + ", with the same inputs and the inputs of all later runs"
}
