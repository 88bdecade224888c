package itemfile_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/oncebox/oncebox/internal/itemfile"
	"github.com/oncebox/oncebox/pkg/itembank"
)

func from(content string) itemfile.Open {
	return func() (io.ReadCloser, error) {
		return io.NopCloser(iotest.OneByteReader(strings.NewReader(content))), nil
	}
}

// whole is from in large pieces, for large files.
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

func TestLines(t *testing.T) {
	for _, test := range []struct {
		name, content string
		items         []string
		numbers       []int64
	}{
		{"plain", "a\nb\n", []string{"a", "b"}, []int64{1, 2}},
		{"no last line end", "a\nb", []string{"a", "b"}, []int64{1, 2}},
		{"windows", "\xef\xbb\xbfa\r\n\r\nb\r\n", []string{"a", "b"}, []int64{1, 3}},
		{"spaces belong to the item", " a \n", []string{" a "}, []int64{1}},
		{"a mark only at the beginning", "a\n\xef\xbb\xbfb\n", []string{"a", "\ufeffb"}, []int64{1, 2}},
		{"empty", "", nil, nil},
		{"only empty lines", "\n\r\n\n", nil, nil},
	} {
		items, numbers, err := collect(itemfile.Lines(from(test.content)))
		if err != nil || !slices.Equal(items, test.items) || !slices.Equal(numbers, test.numbers) {
			t.Errorf("%s: want %q at %v, got %q at %v, %v", test.name, test.items, test.numbers, items, numbers, err)
		}
	}
}

func TestCSV(t *testing.T) {
	const table = "\xef\xbb\xbfid,code,note\r\n1,A-1,\"two\nlines\"\r\n\r\n2,\"B \"\"2\"\"\",x\n"
	for column, want := range map[string][]string{
		"code": {"A-1", `B "2"`}, "2": {"code", "A-1", `B "2"`}, "id": {"1", "2"},
	} {
		items, numbers, err := collect(itemfile.CSV(from(table), column))
		if err != nil || !slices.Equal(items, want) {
			t.Errorf("column %s: want %q, got %q, %v", column, want, items, err)
		}
		if last := numbers[len(numbers)-1]; last != 5 {
			t.Errorf("column %s: want the last item in line 5, got %d", column, last)
		}
	}
}

// TestLargeTable: the limit is on each row, and not on all of them.
func TestLargeTable(t *testing.T) {
	const rows = 5000
	row := "1,\"" + strings.Repeat("two\nlines ", 100) + "\"\n"
	items, _, err := collect(itemfile.CSV(whole(strings.Repeat(row, rows)), "1"))
	if err != nil || len(items) != rows {
		t.Errorf("want %d items, got %d, %v", rows, len(items), err)
	}
}

func TestBadInput(t *testing.T) {
	broken := errors.New("disk gone")
	failing := func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(broken)), nil }
	absent := func() (io.ReadCloser, error) { return nil, broken }
	for _, test := range []struct {
		name   string
		source itembank.Source
		want   error
		says   string
	}{
		{"huge line", itemfile.Lines(from("a\n" + strings.Repeat("x", 1<<20))), itembank.ErrInvalid, "line 2: item: has"},
		{"no such column", itemfile.CSV(from("id,code\n1,a\n"), "coupon"), itembank.ErrInvalid, `no column "coupon"; the first row has ["id" "code"]`},
		{"column 0", itemfile.CSV(from("a\n"), "0"), itembank.ErrInvalid, "numbered from 1"},
		{"short row", itemfile.CSV(from("a,b\n1,2\n3\n"), "b"), itembank.ErrInvalid, "line 3: column: the row has 1 columns"},
		{"a quote that is not closed", itemfile.CSV(whole("a,b\n1,2\n3,\"4\n"+strings.Repeat("5,6\n", 1<<20)), "a"), itembank.ErrInvalid, "line 3: CSV: a row of more than 1048576 bytes begins here"},
		{"huge row", itemfile.CSV(whole("a,b\n1,2\n3,"+strings.Repeat("x", 2<<20)+"\n4,5\n"), "a"), itembank.ErrInvalid, "line 3: CSV: a row of more"},
		{"huge header", itemfile.CSV(whole(strings.Repeat("x", 2<<20)), "a"), itembank.ErrInvalid, "line 1: CSV: a row of more"},
		{"bare quote", itemfile.CSV(from("a\nx\ny\"z\n"), "a"), itembank.ErrInvalid, "line 3: CSV:"},
		{"bare quote in the header", itemfile.CSV(from("a\"b\n"), "a"), itembank.ErrInvalid, "line 1: CSV:"},
		{"empty table", itemfile.CSV(from(""), "a"), itembank.ErrInvalid, "is empty"},
		{"read error in lines", itemfile.Lines(failing), broken, "line 1"},
		{"read error in a table", itemfile.CSV(failing, "1"), broken, ""},
		{"read error in a header", itemfile.CSV(failing, "code"), broken, ""},
		{"open error", itemfile.Lines(absent), broken, ""},
	} {
		_, _, err := collect(test.source)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: want %v saying %q, got %v", test.name, test.want, test.says, err)
		}
	}
}
