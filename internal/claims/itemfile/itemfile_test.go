package itemfile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/oncebox/oncebox/internal/claims/itemfile"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// from opens a text that is read byte by byte.
func from(content string) itemfile.Open {
	return func() (io.ReadCloser, error) {
		return io.NopCloser(iotest.OneByteReader(strings.NewReader(content))), nil
	}
}

// whole opens a text that is read in large pieces, for large files.
func whole(content string) itemfile.Open {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
}

func collect(s itembank.Source) (items []string, numbers []int64, err error) {
	for line, err := range s() {
		if err != nil {
			return items, numbers, err
		}
		items, numbers = append(items, line.Item), append(numbers, line.Number)
	}
	return items, numbers, nil
}

var asLines = itemfile.Options{Lines: true}

func TestLines(t *testing.T) {
	t.Parallel()
	raw, trim := itemfile.Options{Lines: true, Raw: true}, itemfile.Options{Lines: true, Trim: true}
	for _, test := range []struct {
		name, content string
		options       itemfile.Options
		items         []string
		numbers       []int64
		blank         int64
	}{
		{"plain", "a\nb\n", asLines, []string{"a", "b"}, []int64{1, 2}, 0},
		{"no last line end", "a\nb", asLines, []string{"a", "b"}, []int64{1, 2}, 0},
		{"windows", "\xef\xbb\xbfa\r\n\r\nb\r\n", asLines, []string{"a", "b"}, []int64{1, 3}, 1},
		{"space inside", "row 3, seat 5\n", asLines, []string{"row 3, seat 5"}, []int64{1}, 0},
		{"empty", "", asLines, nil, nil, 0},
		{"only blank lines", "\n\r\n \t\n\n", asLines, nil, nil, 4},
		{"raw", " a \n\u200bb\n \n", raw, []string{" a ", "\u200bb", " "}, []int64{1, 2, 3}, 0},
		{"raw: a mark only at the beginning", "a\n\xef\xbb\xbfb\n", raw, []string{"a", "\ufeffb"}, []int64{1, 2}, 0},
		{"trim", "\u00a0a\t\n\u200bb\u00adc \n \u200b \nd\n", trim, []string{"a", "bc", "d"}, []int64{1, 2, 4}, 1},
	} {
		items, numbers, err := collect(itemfile.Source(from(test.content), test.options))
		if err != nil || !slices.Equal(items, test.items) || !slices.Equal(numbers, test.numbers) {
			t.Errorf("%s: want %q at %v, got %q at %v, %v", test.name, test.items, test.numbers, items, numbers, err)
		}
		report, err := itemfile.Check(t.Context(), from(test.content), test.options)
		if err != nil || report.Blank != test.blank || !slices.Equal(report.First, test.items) {
			t.Errorf("%s: want %q and %d blank lines, got %+v, %v", test.name, test.items, test.blank, report, err)
		}
	}
}

// TestBadLines checks that the error of a bad line has its number, and that Source stops there, too.
func TestBadLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", engine.MaxItem+1)
	for item, want := range map[string]string{
		" a":           "begins with a space (U+0020)",
		"a ":           "ends with a space (U+0020)",
		"a\t":          "ends with a tab (U+0009)",
		"a\r\r":        "ends with a carriage return (U+000D)",
		"\u00a0a":      "begins with a no-break space (U+00A0)",
		"a\u3000":      "ends with white space (U+3000)",
		"a\u200bb":     "has a zero-width space (U+200B) at byte 2",
		"\ufeffa":      "has a byte order mark (U+FEFF) at byte 1",
		"ab\u00ad":     "has a soft hyphen (U+00AD) at byte 3",
		"a\u202eb":     "has an invisible character (U+202E) at byte 2",
		"a\u2028b":     "has white space (U+2028) at byte 2",
		"a\u3164b":     "has an invisible character (U+3164) at byte 2",
		"a\tb":         "has a control character (U+0009) at byte 2",
		"a\x00":        "has a control character (U+0000) at byte 2",
		"caf\xe9":      "is not valid UTF-8",
		long:           "has 513 bytes, at most 512 are allowed",
		"a\x00\u200bb": "has a zero-width space (U+200B) at byte 3",
	} {
		file := from("good\n" + item + "\n")
		_, err := itemfile.Check(t.Context(), file, asLines)
		if want := "1 line cannot be loaded:\n  line 2 " + want; !errors.Is(err, itembank.ErrInvalid) || err.Error() != want {
			t.Errorf("%q: want %s, got %v", item, want, err)
		}
		items, _, err := collect(itemfile.Source(file, asLines))
		line, ok := errors.AsType[*itembank.LineError](err)
		if !ok || line.Line != 2 || !errors.Is(err, itembank.ErrInvalid) || !slices.Equal(items, []string{"good"}) {
			t.Errorf("%q: want the source to stop at line 2, got %q, %v", item, items, err)
		}
	}
	// No option permits these items.
	for _, item := range []string{"a\tb", "a\x00", "caf\xe9", long} {
		for _, o := range []itemfile.Options{{Lines: true, Raw: true}, {Lines: true, Trim: true}} {
			if _, err := itemfile.Check(t.Context(), from(item), o); !errors.Is(err, itembank.ErrInvalid) {
				t.Errorf("%q with %+v: %v", item, o, err)
			}
		}
	}
}

// TestManyBadLines checks that the first five bad lines are named, and that all are counted.
func TestManyBadLines(t *testing.T) {
	t.Parallel()
	_, err := itemfile.Check(t.Context(), from("a\n"+strings.Repeat(" b\n\nc\n", 12)), asLines)
	want := `12 lines cannot be loaded:
  line 2 begins with a space (U+0020)
  line 5 begins with a space (U+0020)
  line 8 begins with a space (U+0020)
  line 11 begins with a space (U+0020)
  line 14 begins with a space (U+0020)
  and 7 more`
	if err == nil || err.Error() != want {
		t.Errorf("want\n%s\ngot\n%v", want, err)
	}
}

func column(name string) itemfile.Options { return itemfile.Options{Column: name} }

func TestCSV(t *testing.T) {
	t.Parallel()
	const table = "\xef\xbb\xbfid,code,note\r\n1,A-1,\"two\nlines\"\r\n\r\n2,\"B \"\"2\"\"\",x\n"
	for name, want := range map[string][]string{
		"code": {"A-1", `B "2"`}, "2": {"code", "A-1", `B "2"`}, "id": {"1", "2"},
	} {
		items, numbers, err := collect(itemfile.Source(from(table), column(name)))
		if err != nil || !slices.Equal(items, want) {
			t.Errorf("column %s: want %q, got %q, %v", name, want, items, err)
		}
		if last := numbers[len(numbers)-1]; last != 5 {
			t.Errorf("column %s: want the last item in line 5, got %d", name, last)
		}
	}
	items, _, err := collect(itemfile.Source(from("id,code\n1, A-1 \n \n2,\u200bB-2\n"), itemfile.Options{Column: "code", Trim: true}))
	if want := []string{"A-1", "B-2"}; err != nil || !slices.Equal(items, want) {
		t.Errorf("trim: want %q, got %q, %v", want, items, err)
	}
	_, err = itemfile.Check(t.Context(), from("id,code\n1, A-1\n2\n3,\n4, \n5,B\n"), column("code"))
	want := `4 lines cannot be loaded:
  line 2 begins with a space (U+0020)
  line 3 has 1 column, the items are in column 2
  line 4 has nothing in column 2
  line 5 has nothing in column 2`
	if err == nil || err.Error() != want {
		t.Errorf("want\n%s\ngot\n%v", want, err)
	}
}

// TestSeparators checks that commas, semicolons, tabs and pipes are told apart, by the name of the column or by the first rows.
func TestSeparators(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ content, column, want string }{
		{"\xef\xbb\xbfid;code;price\r\n1;A-1;9,50\r\n2;\"A;2\";8,00\r\n", "code", "A-1 A;2"},
		{"id\tcode\n1\tA,1\n2\tA;2\n", "code", "A,1 A;2"},
		{"id|code\n1|A,1\n2|A;2\n", "code", "A,1 A;2"},
		{"1;A,1\n2;A,2,3\n", "2", "--column 2: the columns could be separated by commas or semicolons; put a first row"},
		{"A;1,note\nA;2\n", "1", "--column 1: the columns could be separated by commas or semicolons; put a first row"},
		{"1;\"A,1\"\n2;\"A,2,3\"\n", "2", "A,1 A,2,3"},
		{"1,\"A;1\"\n2,\"A;2\"\n", "2", "A;1 A;2"},
		{"1\t\"A\n1\"\n2\tA-2\n", "1", "1 2"},
		{"code\nA;1\nA;2\n", "code", "A;1 A;2"},
		{"A;1\nA\n", "1", "A;1 A"},
		{"code;a,b\nA-1;1,2\n", "code", "A-1"},
		{"1;40,50\n2;39,00\n", "1", "--column 1: the columns could be separated by commas or semicolons; put a first row"},
		{"code,x;code\n1,2;3\n", "code", "--column code: the columns could be separated by commas or semicolons; give another name"},
		{"id;code\n1;A-1\n", "coupon", `--column coupon: there is no such column; the first row has "id", "code"`},
		{"id;code\n1;A-1\n2\n", "code", "1 line cannot be loaded:\n  line 3 has 1 column, the items are in column 2"},
		{"code;note\nA;1;x\n", "code", "1 line cannot be loaded:\n  line 2 has 3 columns, the first row names 2"},
		{"code,note\nA-1,x,, \n", "code", "A-1"},
	} {
		_, err := itemfile.Check(t.Context(), from(test.content), column(test.column))
		items, _, sourceErr := collect(itemfile.Source(from(test.content), column(test.column)))
		got := strings.Join(items, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, test.want) || (err == nil) != (sourceErr == nil) {
			t.Errorf("%q: want %s, got %s, %v", test.content, test.want, got, sourceErr)
		}
	}
}

// TestNotText checks that files of other formats are named, and not read as items.
func TestNotText(t *testing.T) {
	t.Parallel()
	const little = "A\x00-\x001\x00\r\x00\n\x00"
	for content, want := range map[string]string{
		"\xff\xfe" + little:       "it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8",
		"\xfe\xff\x00A\x00-\x001": "it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8",
		little:                    "it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16LE -t UTF-8",
		"\x00A\x00-\x001":         "it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16BE -t UTF-8",
		"\x1f\x8b\x08\x00":        "it is compressed with gzip; unpack it before, for example with zcat",
		"PK\x03\x04\x14":          "it is a ZIP archive or a spreadsheet; unpack it before, or save the sheet as CSV in UTF-8",
		"SQLite format 3\x00\x10\x00\x01\x01\x00@": "it is a binary file, and not text",
	} {
		for _, o := range []itemfile.Options{{}, asLines, {Lines: true, Raw: true}, column("code"), column("1")} {
			_, err := itemfile.Check(t.Context(), from(content), o)
			if !errors.Is(err, itembank.ErrInvalid) || err.Error() != want {
				t.Errorf("%q with %+v: want %s, got %v", content, o, want, err)
			}
			if _, _, err := collect(itemfile.Source(from(content), o)); !errors.As(err, new(*itemfile.NotTextError)) {
				t.Errorf("%q with %+v: the source says %v", content, o, err)
			}
		}
	}
}

// TestLooksLikeCSV checks that such a file needs an option that says what to do with it.
func TestLooksLikeCSV(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{
		"id,code\n1,A-1\n":               `with "id", "code" in its first row; say --column NAME if`,
		"\n\"id\",\"code\"\n1,A-1":       `"id", "code"`,
		"a,b":                            `"a", "b"`,
		"id;code\n1;A-1\n":               `with "id", "code" in its first row; say --column NAME if`,
		"id|code\n1|A-1\n":               `with "id", "code" in its first row; say --column NAME if`,
		"id\tcode\n1\tA-1\n":             `with "id", "code" in its first row; say --column NAME if`,
		"\"A-1\"\n\"A-2\"\n":             "every line is in quotes; say --column 1",
		"1,\"x, y\"\n2,z\n":              `"1", "x, y"`,
		"a,b,c,d,e,f,g,h,i,j\n":          `"h", and 2 more`,
		"a, b\n" + lines("c, d\n", 1000): "",
	} {
		_, err := itemfile.Check(t.Context(), whole(content), itemfile.Options{})
		if !errors.Is(err, itembank.ErrInvalid) || !strings.Contains(err.Error(), "it looks like CSV") || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: want an error saying %q, got %v", content, says, err)
		}
		if _, err := itemfile.Check(t.Context(), whole(content), itemfile.Options{Lines: true, Trim: true}); errors.As(err, new(*itemfile.CSVError)) {
			t.Errorf("%.40q: --lines is not obeyed: %v", content, err)
		}
	}
	for _, content := range []string{"A-1\nA-2\n", "A-1\nrow 3, seat 5\n", "a,b\nc\n", "\"\n", "", "a\n" + lines("c,d\n", 1000)} {
		if _, err := itemfile.Check(t.Context(), whole(content), itemfile.Options{}); err != nil {
			t.Errorf("%.40q: %v", content, err)
		}
	}
}

// TestFirstLineMayBeAName checks that the name of the only column is not loaded as an item: neither from a file whose name
// says CSV, whatever its first line is, nor where the first line is made of words for items, or unlike all other lines. The number of a
// column lets no such name through.
func TestFirstLineMayBeAName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		content string
		table   bool
		name    string // "": each line is an item
	}{
		{"code\nA-1\nA-2\n", false, "code"},
		{"\n\"Voucher Code\"\n\"A-1\"\n", false, "Voucher Code"},
		{"coupon_code\nABC\n", false, "coupon_code"},
		{"Rabatt\nA-1\nA-2\n", false, "Rabatt"}, // all others have a digit and another length
		{"Rabatt\nA-1\n", false, ""},
		{"Rabatt\nA-1\nABC\n", false, ""},
		{"ABCDEF\nA-0001\nA-0002\n", false, ""},
		{"code-1\nA-1\n", false, ""},
		{"A-1\nA-2\n", true, "A-1"},
		{"\"A-1\"\n\"A-2\"\n", true, "A-1"},
		{"", true, ""},
	} {
		_, err := itemfile.Check(t.Context(), from(test.content), itemfile.Options{Table: test.table})
		want := fmt.Sprintf("its first line, %[1]q, may be the name of a column; say --column %[1]q if it is, or --lines if it is an item", test.name)
		if test.name == "" && err != nil || test.name != "" && (!errors.Is(err, itembank.ErrInvalid) || err.Error() != want) {
			t.Errorf("%q: want %q, got %v", test.content, want, err)
		}
		if _, err := itemfile.Check(t.Context(), from(test.content), itemfile.Options{Lines: true, Raw: true, Table: test.table}); err != nil {
			t.Errorf("%q with --lines: %v", test.content, err)
		}
		want = fmt.Sprintf("--column 1: the first row has %[1]q there, which may be the name of the column; say --column %[1]q if it is; "+
			"if it is an item, put a first row with the names of the columns into the file", test.name)
		_, err = itemfile.Check(t.Context(), from(test.content), itemfile.Options{Column: "1", Table: test.table})
		if isItem := test.name == "" || test.name == "A-1"; isItem && err != nil || !isItem && (err == nil || err.Error() != want) {
			t.Errorf("%q with --column 1: want %q, got %v", test.content, want, err)
		}
	}
}

func lines(line string, n int) string { return strings.Repeat(line, n) }

func TestCaseConflicts(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]itemfile.CaseConflict{
		"A-1\na-2\n":                        {},
		"A-1\nA-1\n":                        {},
		"1\n2\n1\n":                         {},
		"x\nA-1\na-1\n":                     {Groups: 1, First: 2, Second: 3},
		"b\nA\na\nA\nB\nc\n":                {Groups: 2, First: 1, Second: 5},
		"ÄRGER\nx\närger\n":                 {Groups: 1, First: 1, Second: 3},
		"spring\nSPRING\nSpring\nsPring\n1": {Groups: 1, First: 1, Second: 2},
	} {
		report, err := itemfile.Check(t.Context(), from(content), itemfile.Options{Lines: true})
		if err != nil || report.CaseOnly != want {
			t.Errorf("%q: want %+v, got %+v, %v", content, want, report.CaseOnly, err)
		}
	}
}

func TestFirstItems(t *testing.T) {
	t.Parallel()
	report, err := itemfile.Check(t.Context(), from("1\n\n2\n3\n4\n5\n6\n"), itemfile.Options{})
	if want := []string{"1", "2", "3", "4", "5"}; err != nil || !slices.Equal(report.First, want) {
		t.Errorf("want %q, got %q, %v", want, report.First, err)
	}
}

// TestLargeTable checks that the limit is for each row, not for all rows together.
func TestLargeTable(t *testing.T) {
	t.Parallel()
	const rows = 5000
	row := "1,\"" + strings.Repeat("two\nlines ", 100) + "\"\n"
	items, _, err := collect(itemfile.Source(whole(strings.Repeat(row, rows)), column("1")))
	if err != nil || len(items) != rows {
		t.Errorf("want %d items, got %d, %v", rows, len(items), err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk gone")
	failing := func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(broken)), nil }
	absent := func() (io.ReadCloser, error) { return nil, broken }
	for _, test := range []struct {
		name    string
		open    itemfile.Open
		options itemfile.Options
		want    error
		says    string
	}{
		{"huge line", from("a\n" + strings.Repeat("x", 1<<17)), asLines, itembank.ErrInvalid, "line 2 is longer than 65536 bytes"},
		{"no such column", from("id,code\n1,a\n"), column("coupon"), itembank.ErrInvalid, `--column coupon: there is no such column; the first row has "id", "code"`},
		{"column 0", from("a\n"), column("0"), itembank.ErrInvalid, "numbered from 1"},
		{"short row", from("a,b\n1,2\n3\n"), column("b"), itembank.ErrInvalid, "line 3 has 1 column, the items are in column 2"},
		{"a quote that is not closed", whole("a,b\n1,2\n3,\"4\n" + strings.Repeat("5,6\n", 1<<20)), column("a"), itembank.ErrInvalid, "line 3 is not CSV: a row of more than 1048576 bytes begins here"},
		{"huge row", whole("a,b\n1,2\n3," + strings.Repeat("x", 2<<20) + "\n4,5\n"), column("a"), itembank.ErrInvalid, "line 3 is not CSV: a row of more"},
		{"huge header", whole(strings.Repeat("x", 2<<20)), column("a"), itembank.ErrInvalid, "line 1 is not CSV: a row of more"},
		{"bare quote", from("a\nx\ny\"z\n"), column("a"), itembank.ErrInvalid, "line 3 is not CSV: it has a quote (\") in a cell that does not begin with one; write a quote"},
		{"a short quote that is not closed", from("a\nx\n\"z\nx\n"), column("a"), itembank.ErrInvalid, "line 3 is not CSV: a quote (\") that begins a cell is not closed, or text follows the closing one in line 4; write a quote"},
		{"bare quote in the header", from("a\"b\n"), column("a"), itembank.ErrInvalid, "line 1 is not CSV:"},
		{"empty table", from(""), column("a"), itembank.ErrInvalid, "the file is empty"},
		{"read error in lines", failing, asLines, broken, "line 1"},
		{"read error in the sample", failing, itemfile.Options{}, broken, "line 1"},
		{"read error in a table", failing, column("1"), broken, ""},
		{"read error in a header", failing, column("code"), broken, ""},
		{"open error", absent, asLines, broken, ""},
	} {
		if _, _, err := collect(itemfile.Source(test.open, test.options)); !errors.Is(err, test.want) {
			t.Errorf("%s: want the source to say %v, got %v", test.name, test.want, err)
		}
		_, err := itemfile.Check(t.Context(), test.open, test.options)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: want %v saying %q, got %v", test.name, test.want, test.says, err)
		}
	}
}

func TestCheckIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := itemfile.Check(ctx, from("a\n"), asLines); !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
}

// endless writes lines without keeping them, and records the largest heap.
type endless struct {
	left int64
	rest []byte
	n    int64
	peak uint64
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.left == 0 {
			return 0, io.EOF
		}
		e.left--
		e.n++
		e.rest = fmt.Appendf(nil, "CODE-%012d-%0200d\n", e.n, e.n)
		if e.n%100_000 == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			e.peak = max(e.peak, m.HeapAlloc)
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestMemoryOfAMillionLines checks 220 MB of lines in less than 60 MB of memory.
func TestMemoryOfAMillionLines(t *testing.T) {
	testengine.CheckOnly(t)
	const n = 1_200_000
	source := &endless{left: n}
	begun := false
	report, err := itemfile.Check(t.Context(), func() (io.ReadCloser, error) {
		if !begun { // the first reading is for the sample
			begun = true
			return io.NopCloser(strings.NewReader("")), nil
		}
		return io.NopCloser(source), nil
	}, itemfile.Options{})
	if err != nil || report.CaseOnly.Groups != 0 || source.n != n {
		t.Fatalf("%+v, %v after %d lines", report, err, source.n)
	}
	if limit := uint64(60 << 20); source.peak == 0 || source.peak > limit {
		t.Errorf("the heap had %d bytes, want at most %d", source.peak, limit)
	}
}

// TestWithColumns checks that columns come unchanged with the items, by the names of the first row.
func TestWithColumns(t *testing.T) {
	t.Parallel()
	options := itemfile.Options{Column: "seat", With: []string{"row", "price"}}
	file := from("\xef\xbb\xbfprice,seat,note,row\n 40 ,1A,x,\"1, \"\"left\"\"\"\n\n\"\",1B,y,2\n")
	if _, err := itemfile.Check(t.Context(), file, options); err != nil {
		t.Fatal(err)
	}
	var lines []itembank.Line
	for line, err := range itemfile.Source(file, options)() {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	want := []itembank.Line{
		{Number: 2, Item: "1A", Columns: []itembank.Column{{Name: "row", Value: `1, "left"`}, {Name: "price", Value: " 40 "}}},
		{Number: 4, Item: "1B", Columns: []itembank.Column{{Name: "row", Value: "2"}, {Name: "price", Value: ""}}},
	}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("want %+v, got %+v", want, lines)
	}
	for _, test := range []struct {
		content, column, with, want string
	}{
		{"seat,price\n", "seat", "row", `--with row: there is no such column; the first row has "seat", "price"`},
		{"seat,price\n", "seat", "seat", "--with seat: this is the column of the items"},
		{"seat,price,price\n", "seat", "price", "--with price: the first row has this column twice"},
		{"1A,40\n", "1", "price", "--with price: --column 1 is a number, so that the first row is an item; give the name of the column"},
		{"seat,price\n1A,40\n1B\n", "seat", "price", "1 line cannot be loaded:\n  line 3 has 1 column, \"price\" is column 2"},
		{"seat,price\n1A,4\x00\n1B,\xff\n", "seat", "price", "2 lines cannot be loaded:\n" +
			"  line 2 column \"price\": has a control character (U+0000) at byte 2\n  line 3 column \"price\": is not valid UTF-8"},
		{"seat,price\n1A," + strings.Repeat("x", engine.MaxColumnBytes) + "\n", "seat", "price",
			"1 line cannot be loaded:\n  line 2 columns: have 1029 bytes with their names, at most 1024 are allowed"},
	} {
		_, err := itemfile.Check(t.Context(), from(test.content), itemfile.Options{Column: test.column, With: []string{test.with}})
		if !errors.Is(err, itembank.ErrInvalid) || err.Error() != test.want {
			t.Errorf("want %s, got %v", test.want, err)
		}
	}
	twice := itemfile.Options{Column: "seat", With: []string{"price", "price"}}
	if _, err := itemfile.Check(t.Context(), from("seat,price\n"), twice); err == nil || err.Error() != "--with price: is named twice" {
		t.Errorf("got %v", err)
	}
}
