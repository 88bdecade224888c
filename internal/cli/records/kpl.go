package records

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/kpl"
)

type kplCommand struct {
	Decode kplDecode `cmd:"" help:"Print the user records of aggregates, one a line."`
	Encode kplEncode `cmd:"" help:"Make aggregates of such lines."`
}

type kplDecode struct {
	File string `arg:"" optional:"" default:"-" help:"Kinesis records, one JSON object a line; - is stdin, the default."`
}

func (kplDecode) Help() string {
	return `Reads {"data":base64,"partitionKey","explicitHashKey","sequenceNumber"}. Only data is required; other members are
ignored. Names may begin with a capital, as the AWS command line prints them. Prints
{"data","partitionKey","explicitHashKey","sequenceNumber","subSequence","aggregated"}. A record that is not an
aggregate is printed as it is.

An aggregate that cannot be decoded gives one line {"error","line","sequenceNumber","data"} with all of its data,
and the exit code is 4 at the end. A line that is not such an object ends the command with exit code 2; the lines
before it are printed.

Example:
  aws kinesis get-records --shard-iterator "$it" | jq -c '.Records[]' | oncebox kpl decode`
}

func (c kplDecode) Run(ctx context.Context, a *cli.App) error {
	var d kplDecoder
	err := filterKPL(ctx, a, c.File, &d)
	if err == nil && d.poison > 0 {
		err = cli.DeadLetters(cli.Quantity(int64(d.poison), "aggregate") + " cannot be decoded; see the lines with an error")
	}
	return err
}

type kplEncode struct {
	File string `arg:"" optional:"" default:"-" help:"Lines as kpl decode prints them; - is stdin, the default."`
}

func (kplEncode) Help() string {
	return `The inverse of kpl decode. Successive lines with "aggregated":true, the same sequenceNumber and a growing
subSequence become one aggregate. Other lines become records of their own. Prints
{"data","partitionKey","explicitHashKey","sequenceNumber"}. An aggregate has the keys of its first record.

Example:
  echo '{"data":"YQ==","partitionKey":"pk0","aggregated":true}' | oncebox kpl encode`
}

func (c kplEncode) Run(ctx context.Context, a *cli.App) error {
	return filterKPL(ctx, a, c.File, &kplEncoder{})
}

// kplRecord is a line of input of both commands.
type kplRecord struct {
	Data            []byte  `json:"data"` // nil: absent
	PartitionKey    string  `json:"partitionKey"`
	ExplicitHashKey *string `json:"explicitHashKey"`
	SequenceNumber  *string `json:"sequenceNumber"`
	SubSequence     *int    `json:"subSequence"`
	Aggregated      bool    `json:"aggregated"`
}

// kplUserRecord is a line that decode prints.
type kplUserRecord struct {
	Data            []byte  `json:"data"`
	PartitionKey    string  `json:"partitionKey"`
	ExplicitHashKey *string `json:"explicitHashKey,omitempty"`
	SequenceNumber  *string `json:"sequenceNumber,omitempty"`
	SubSequence     int     `json:"subSequence"`
	Aggregated      bool    `json:"aggregated"`
}

// kplPoison is a line that decode prints for an aggregate that cannot be decoded.
type kplPoison struct {
	Error          string  `json:"error"`
	Line           int     `json:"line"`
	SequenceNumber *string `json:"sequenceNumber,omitempty"`
	Data           []byte  `json:"data"`
}

// kplParent is a line that encode prints: a Kinesis record.
type kplParent struct {
	Data            []byte  `json:"data"`
	PartitionKey    string  `json:"partitionKey,omitempty"`
	ExplicitHashKey *string `json:"explicitHashKey,omitempty"`
	SequenceNumber  *string `json:"sequenceNumber,omitempty"`
}

// kplDecoder decodes record after record.
type kplDecoder struct {
	decoder kpl.Decoder
	poison  int
}

func (d *kplDecoder) line(number int, r kplRecord, emit printer) error {
	records, aggregated, err := d.decoder.Decode(r.Data)
	if err == nil {
		err = checkKeys(records)
	}
	switch {
	case err != nil:
		d.poison++
		return emit(kplPoison{err.Error(), number, r.SequenceNumber, r.Data})
	case !aggregated:
		return emit(kplUserRecord{
			Data: r.Data, PartitionKey: r.PartitionKey, ExplicitHashKey: r.ExplicitHashKey, SequenceNumber: r.SequenceNumber,
		})
	}
	for sub, u := range records {
		user := kplUserRecord{
			Data: u.Data, PartitionKey: string(u.PartitionKey), SequenceNumber: r.SequenceNumber, SubSequence: sub, Aggregated: true,
		}
		if u.ExplicitHashKey != nil {
			key := string(u.ExplicitHashKey)
			user.ExplicitHashKey = &key
		}
		if err := emit(user); err != nil {
			return err
		}
	}
	return nil
}

func (d *kplDecoder) flush(printer) error { return nil }

// checkKeys refuses keys that JSON cannot represent. Printed, they would become other keys.
func checkKeys(records []kpl.UserRecord) error {
	for sub, u := range records {
		if !utf8.Valid(u.PartitionKey) || !utf8.Valid(u.ExplicitHashKey) {
			return fmt.Errorf("%w: user record %d has a key that is not UTF-8, which JSON cannot hold", kpl.ErrPoison, sub)
		}
	}
	return nil
}

// kplEncoder collects an aggregate.
type kplEncoder struct {
	encoder kpl.Encoder
	first   kplRecord
	last    int // sub-sequence
}

// largestAggregate is the size of the largest Kinesis record, if records of 10 MiB are turned on.
const largestAggregate = 10 << 20

func (e *kplEncoder) line(_ int, r kplRecord, emit printer) error {
	if !e.belongs(r) {
		if err := e.flush(emit); err != nil {
			return err
		}
	}
	if !r.Aggregated {
		return emit(kplParent{r.Data, r.PartitionKey, r.ExplicitHashKey, r.SequenceNumber})
	}
	user := kpl.UserRecord{Data: r.Data, PartitionKey: []byte(r.PartitionKey)}
	if r.ExplicitHashKey != nil {
		user.ExplicitHashKey = []byte(*r.ExplicitHashKey)
	}
	if e.encoder.SizeWith(user) > largestAggregate {
		err := fmt.Errorf("with this record the aggregate is larger than %d bytes, the limit of a Kinesis record", largestAggregate)
		return cli.BadUsage(err, "")
	}
	if e.encoder.Len() == 0 {
		e.first, e.last = r, -1
	}
	e.encoder.Add(user)
	e.last++
	if r.SubSequence != nil {
		e.last = *r.SubSequence
	}
	return nil
}

// belongs reports whether a record belongs to the aggregate that is being collected.
func (e *kplEncoder) belongs(r kplRecord) bool {
	if !r.Aggregated || e.encoder.Len() == 0 || r.SubSequence != nil && *r.SubSequence <= e.last {
		return false
	}
	mine, its := e.first.SequenceNumber, r.SequenceNumber
	return mine == its || mine != nil && its != nil && *mine == *its
}

// flush prints the aggregate, if there is one.
func (e *kplEncoder) flush(emit printer) error {
	if e.encoder.Len() == 0 {
		return nil
	}
	defer e.encoder.Reset()
	return emit(kplParent{e.encoder.Bytes(), e.first.PartitionKey, e.first.ExplicitHashKey, e.first.SequenceNumber})
}

// longestLine is longer than a Kinesis record of 10 MiB in base64 with its keys.
const longestLine = 16 << 20

// printer prints a value as a line.
type printer func(value any) error

// kplFilter turns lines into lines.
type kplFilter interface {
	line(number int, r kplRecord, emit printer) error
	flush(emit printer) error // prints the rest at the end
}

// filterKPL filters a file. An error about a line names the line. The lines before it are printed.
func filterKPL(ctx context.Context, a *cli.App, name string, f kplFilter) error {
	in, err := openStream(ctx, name, a.Stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	out := bufio.NewWriterSize(a.Stdout, 64<<10)
	encoder := cli.NewEncoder(out)
	number, err := eachLine(in, func(number int, text []byte) error {
		r, err := readKPLRecord(text)
		if err != nil {
			return err
		}
		return f.line(number, r, encoder.Encode)
	})
	if err == nil {
		err = f.flush(encoder.Encode)
	}
	if bad, ok := errors.AsType[*cli.UsageError](err); ok {
		err = cli.BadUsage(fmt.Errorf("%s: line %d: %w", name, number, bad.Err), bad.Hint)
	}
	return errors.Join(err, out.Flush())
}

// eachLine calls do for each line that is not empty. It returns the number of the last line.
func eachLine(in io.Reader, do func(number int, text []byte) error) (number int, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	for lines.Scan() && lines.Err() == nil { // after a failed read the line may be incomplete
		number++
		text := lines.Bytes()
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		if err := do(number, text); err != nil {
			return number, err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return number + 1, cli.BadUsage(fmt.Errorf("is longer than %d bytes", longestLine), "")
	}
	return number, lines.Err()
}

// readKPLRecord reads a line. It accepts names in any case, as package json does. It refuses bytes that are not
// UTF-8, which package json would replace.
func readKPLRecord(text []byte) (r kplRecord, err error) {
	if !utf8.Valid(text) {
		return r, cli.BadUsage(errors.New("is not UTF-8"), "")
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, cli.BadUsage(jsonError(err), "")
	}
	if r.Data == nil {
		return r, cli.BadUsage(errors.New(`has no "data"`), "")
	}
	return r, nil
}

// jsonError returns the error in a line without Go types.
func jsonError(err error) error {
	var field *json.UnmarshalTypeError
	switch {
	case errors.As(err, &field) && field.Field != "":
		return fmt.Errorf("%q must not be a JSON %s", field.Field, field.Value)
	case errors.As(err, &field):
		return fmt.Errorf("is not a JSON object but a JSON %s", field.Value)
	case errors.As(err, new(base64.CorruptInputError)):
		return errors.New(`"data" is not base64`)
	}
	return fmt.Errorf("is not JSON: %w", err)
}

// openStream opens a file, or stdin for -.
func openStream(ctx context.Context, name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return cli.Interruptible(ctx, stdin), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, cli.BadUsage(cli.FileError(name, err), "")
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, cli.BadUsage(errors.Join(fmt.Errorf("%s is a directory, not a file of records", name), file.Close()), "")
	}
	return file, nil
}
