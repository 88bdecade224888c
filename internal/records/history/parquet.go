package history

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	parquetformat "github.com/parquet-go/parquet-go/format"

	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/format"
)

// ErrNoColumn says that a Parquet file lacks a column, or that the column has the wrong type.
var ErrNoColumn = errors.New("the file cannot be read by these columns")

// Columns are the columns of a Parquet file that identify a record, by their paths, as in event.id.
type Columns struct {
	ID          string
	Fingerprint string
	Time        string // may be empty: the rows have no times
}

// parquetVersion is the version of all fingerprints of a Parquet file, which does not name the settings of its
// fingerprints.
const parquetVersion = "parquet"

type parquetRows struct {
	inputs  []offline.Input
	columns Columns
}

// Parquet returns the rows of Parquet files. It reads only the named columns.
func Parquet(inputs []offline.Input, columns Columns) Source { return parquetRows{inputs, columns} }

// Digest first checks the columns of the first file: a wrong name must not begin an import.
func (p parquetRows) Digest(ctx context.Context) ([]byte, error) {
	for _, in := range p.inputs[:min(1, len(p.inputs))] {
		if err := p.eachRow(ctx, in, func(Record) bool { return false }); err != nil {
			return nil, fmt.Errorf("%s: %w", in.Name, err)
		}
	}
	return offline.DigestOf(ctx, p.inputs)
}

func (p parquetRows) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, in := range p.inputs {
			goOn := true
			err := p.eachRow(ctx, in, func(r Record) bool {
				goOn = yield(r, nil)
				return goOn
			})
			if err != nil {
				yield(Record{}, fmt.Errorf("%s: %w", in.Name, err))
				return
			}
			if !goOn {
				return
			}
		}
	}
}

// eachRow calls do with each row of a file, until it returns false.
func (p parquetRows) eachRow(ctx context.Context, in offline.Input, do func(Record) bool) error {
	content, remove, err := randomAccess(in)
	if err != nil {
		return err
	}
	defer remove()
	file, err := parquet.OpenFile(content, in.Size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return fmt.Errorf("this is not a Parquet file, or it is damaged: %w", err)
	}
	number := int64(0)
	for _, group := range file.RowGroups() {
		columns, err := p.open(file.Schema(), group)
		if err != nil {
			return err
		}
		goOn := true
		for range group.NumRows() {
			if number++; ctx.Err() != nil {
				err = ctx.Err()
				break
			}
			record := Record{Place: placeOf(in.Name, number)}
			if err = columns.read(&record); err != nil {
				break
			}
			if goOn = do(record); !goOn {
				break
			}
		}
		if err = errors.Join(err, columns.close()); err != nil || !goOn {
			return err
		}
	}
	return nil
}

// randomAccess opens an input for reading at any place. If the input is not a file, it is copied to a temporary file.
func randomAccess(in offline.Input) (_ io.ReaderAt, remove func(), err error) {
	content, err := in.Open()
	if err != nil {
		return nil, nil, err
	}
	if file, ok := content.(*os.File); ok {
		return file, func() { _ = file.Close() }, nil // the file is only read
	}
	file, err := os.CreateTemp("", "oncebox-parquet-*")
	if err != nil {
		return nil, nil, errors.Join(err, content.Close())
	}
	remove = func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	_, err = io.CopyN(file, content, in.Size)
	if err = errors.Join(err, content.Close()); err != nil {
		remove()
		return nil, nil, err
	}
	return file, remove, nil
}

// rowColumns are the columns of a row group.
type rowColumns struct {
	id, fingerprint *column
	time            *column // nil without times
	toTime          func(parquet.Value) (time.Time, error)
}

func (p parquetRows) open(schema *parquet.Schema, group parquet.RowGroup) (r rowColumns, err error) {
	if r.id, _, err = openColumn(schema, group, p.columns.ID); err != nil {
		return r, err
	}
	if r.fingerprint, _, err = openColumn(schema, group, p.columns.Fingerprint); err != nil {
		return r, errors.Join(err, r.close())
	}
	if p.columns.Time == "" {
		return r, nil
	}
	var kind parquet.Type
	if r.time, kind, err = openColumn(schema, group, p.columns.Time); err == nil {
		r.toTime, err = timesOf(p.columns.Time, kind)
	}
	if err != nil {
		return r, errors.Join(err, r.close())
	}
	return r, nil
}

func (r rowColumns) close() (err error) {
	for _, c := range []*column{r.id, r.fingerprint, r.time} {
		if c != nil {
			err = errors.Join(err, c.pages.Close())
		}
	}
	return err
}

// read reads the next row.
func (r rowColumns) read(record *Record) error {
	id, err := r.id.next()
	if err != nil {
		return err
	}
	record.ID = textOf(id)
	fingerprint, err := r.fingerprint.next()
	if err != nil {
		return err
	}
	record.Fingerprint, record.Version = textOf(fingerprint), parquetVersion
	switch {
	case record.ID == "":
		record.Bad = "the id is null or empty"
	case record.Fingerprint == "":
		record.Bad = "the fingerprint is null or empty"
	case len(record.Fingerprint) > format.MaxText:
		record.Bad = fmt.Sprintf("the fingerprint is longer than %d bytes", format.MaxText)
	}
	if r.time == nil {
		return nil
	}
	at, err := r.time.next()
	if err != nil {
		return err
	}
	var notTime error
	if at.IsNull() {
		notTime = errors.New("the time is null")
	} else {
		record.Time, notTime = r.toTime(at)
	}
	if notTime != nil && record.Bad == "" {
		record.Bad = notTime.Error()
	}
	return nil
}

// textOf returns a value as a JSON record would have it: texts unchanged, numbers in decimals. Null becomes "".
func textOf(v parquet.Value) string {
	switch v.Kind() {
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return string(v.ByteArray())
	case parquet.Int32:
		return strconv.FormatInt(int64(v.Int32()), 10)
	case parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10)
	}
	return ""
}

// column reads the values of a column, one in each row.
type column struct {
	pages  parquet.Pages
	values parquet.ValueReader // the values of the page; nil before the first page
	buffer [256]parquet.Value
	left   []parquet.Value
}

// openColumn opens a column, which must have one value in each row.
func openColumn(schema *parquet.Schema, group parquet.RowGroup, path string) (*column, parquet.Type, error) {
	leaf, found := schema.Lookup(strings.Split(path, ".")...)
	if !found {
		names := make([]string, 0, len(schema.Columns()))
		for _, column := range schema.Columns() {
			names = append(names, strings.Join(column, "."))
		}
		return nil, nil, fmt.Errorf("%w: there is no column %s; there are %s", ErrNoColumn, path, strings.Join(names, ", "))
	}
	if leaf.MaxRepetitionLevel > 0 {
		return nil, nil, fmt.Errorf("%w: the column %s has several values a row", ErrNoColumn, path)
	}
	switch kind := leaf.Node.Type(); kind.Kind() {
	case parquet.ByteArray, parquet.FixedLenByteArray, parquet.Int32, parquet.Int64, parquet.Int96:
		return &column{pages: group.ColumnChunks()[leaf.ColumnIndex].Pages()}, kind, nil
	default:
		return nil, nil, fmt.Errorf("%w: the column %s is of the type %s; texts and whole numbers can be read",
			ErrNoColumn, path, kind)
	}
}

func (c *column) next() (parquet.Value, error) {
	for len(c.left) == 0 {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, unexpected(err)
			}
			c.values = page.Values()
		}
		n, err := c.values.ReadValues(c.buffer[:])
		c.left = c.buffer[:n]
		if errors.Is(err, io.EOF) {
			c.values = nil
		} else if err != nil {
			return parquet.Value{}, err
		}
	}
	value := c.left[0]
	c.left = c.left[1:]
	return value, nil
}

// unexpected returns the error for a column that ends early: it has fewer values than the file has rows.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// timesOf returns a function that reads a column's values as times. It decides by the logical type of the column, or
// reads RFC 3339, or reads seconds or milliseconds since 1970 as in JSON.
func timesOf(path string, kind parquet.Type) (func(parquet.Value) (time.Time, error), error) {
	if logical := kind.LogicalType(); logical != nil && logical.Timestamp != nil {
		return timestamps(logical.Timestamp.Unit), nil
	}
	switch kind.Kind() {
	case parquet.Int96:
		return func(v parquet.Value) (time.Time, error) { return fromInt96(v), nil }, nil
	case parquet.ByteArray:
		return func(v parquet.Value) (time.Time, error) {
			at, err := time.Parse(time.RFC3339Nano, string(v.ByteArray()))
			if err != nil {
				err = fmt.Errorf("the time %.40q is not as in RFC 3339", v.ByteArray())
			}
			return at.UTC(), err
		}, nil
	case parquet.Int64:
		return func(v parquet.Value) (time.Time, error) { return sinceEpoch(v.Int64()), nil }, nil
	}
	return nil, fmt.Errorf("%w: the column %s is of the type %s, which is not a time", ErrNoColumn, path, kind)
}

func timestamps(unit parquetformat.TimeUnit) func(parquet.Value) (time.Time, error) {
	from := time.UnixMilli
	switch {
	case unit.Micros != nil:
		from = time.UnixMicro
	case unit.Nanos != nil:
		from = func(n int64) time.Time { return time.Unix(0, n) }
	}
	return func(v parquet.Value) (time.Time, error) { return from(v.Int64()).UTC(), nil }
}

// sinceEpoch returns the time of a number of seconds or milliseconds since 1970. If the number as seconds would be
// after the year 5138, it counts as milliseconds.
func sinceEpoch(n int64) time.Time {
	const mostSeconds = 100_000_000_000
	if n > -mostSeconds && n < mostSeconds {
		return time.Unix(n, 0).UTC()
	}
	return time.UnixMilli(n).UTC()
}

// fromInt96 reads the former type of times: nanoseconds of the day, and the Julian day.
func fromInt96(v parquet.Value) time.Time {
	const julianEpoch, secondsOfDay = 2_440_588, 24 * 60 * 60
	words := v.Int96()
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:4], words[0])
	binary.LittleEndian.PutUint32(b[4:], words[1])
	nanos := binary.LittleEndian.Uint64(b[:])
	return time.Unix((int64(words[2])-julianEpoch)*secondsOfDay, int64(nanos)).UTC()
}
