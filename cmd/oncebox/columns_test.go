package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const seatsCSV = "seat,row,price,cost\n1A,1,40,7\n1B,1,\"35, reduced\",7\n2A,2,,7\n"

// TestColumns checks that the columns of a load come back with the item, from every command that names the item.
func TestColumns(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "hall", "--columns", "--choice", "--on-end", "return")
		s.run(exitDone, "campaign", "show", "hall").saying(s.T, "columns     yes\n")
		file := s.file("seats.csv", seatsCSV)
		with := []string{"load", "hall", file, "--column", "seat", "--with", "price,row"}
		s.run(exitDone, append(with, "--dry-run")...).saying(s.T, "would add 3",
			`first items: "1A" (price=40, row=1), "1B" (price=35, reduced, row=1), "2A" (price=, row=2)`+"\n")
		dry := s.run(exitDone, append([]string{"--output", "json"}, append(with, "--dry-run")...)...)
		if want := `"first_columns":[{"price":"40","row":"1"},{"price":"35, reduced","row":"1"},{"price":"","row":"2"}]`; !strings.Contains(dry.stdout, want) {
			s.Errorf("want %s, got %s", want, dry.stdout)
		}
		s.run(exitDone, with...).saying(s.T, "added 3, known 0")
		for range 2 {
			if r := s.run(exitDone, "claim", "hall", "ann", "--item", "1B", "--item", "2A"); r.stdout != "1B\tprice=35, reduced\trow=1\n2A\tprice=\trow=2\n" {
				s.Errorf("got %q", r.stdout)
			}
		}
		const first, second = `{"price":"35, reduced","row":"1"}`, `{"price":"","row":"2"}`
		const item = `"item":"1B","columns":` + first
		const items = `"items":[{` + item + `},{"item":"2A","columns":` + second + `}]`
		for _, command := range [][]string{
			{"claim", "hall", "ann"}, {"claim", "show", "hall", "ann"}, {"claims", "list", "hall"},
			{"claims", "export", "hall", "--format", "ndjson"}, {"lookup", "hall", "--item", "1B"}, {"audit", "hall", "--claimant", "ann"},
		} {
			if got := compactJSON(s.T, s.run(exitDone, append([]string{"--output", "json"}, command...)...).stdout); !strings.Contains(got, item+","+items) {
				s.Errorf("%v: got %s", command, got)
			}
		}
		s.run(exitDone, "claim", "show", "hall", "ann").saying(s.T, "item      1B (price=35, reduced, row=1)\n", "item      2A (price=, row=2)\n")
		s.run(exitDone, "claims", "list", "hall").saying(s.T, "1B (price=35, reduced, row=1) | 2A (price=, row=2)")
		s.run(exitDone, "lookup", "hall", "--item", "1A").saying(s.T, "1A (price=40, row=1) in hall: free")
		if r := s.run(exitDone, "items", "list", "hall", "--free"); r.stdout != "1A\tprice=40\trow=1\n" {
			s.Errorf("got %q", r.stdout)
		}
		if r := s.run(exitDone, "--output", "json", "items", "list", "hall", "--free"); r.stdout != `{"item":"1A","columns":{"price":"40","row":"1"}}`+"\n" {
			s.Errorf("got %q", r.stdout)
		}
		fromCSV := claimsOfCSV(s.T, s.run(exitDone, "claims", "export", "hall").stdout)
		if want := itembank.NewColumns(itembank.Column{Name: "price", Value: "35, reduced"}, itembank.Column{Name: "row", Value: "1"}); len(fromCSV) != 1 ||
			fromCSV[0].Columns != want || len(fromCSV[0].Items) != 2 || fromCSV[0].Items[0].Columns != want {
			s.Errorf("got %+v", fromCSV)
		}
		s.replayedWithColumns()
	})
}

// replayedWithColumns checks that a replay ignores the columns of an export. The items keep the columns of the load.
func (s *shell) replayedWithColumns() {
	s.Helper()
	export := s.run(exitDone, "--output", "json", "claims", "export", "hall").stdout
	s.file("claims.ndjson", strings.ReplaceAll(export, "35, reduced", "1"))
	s.run(exitDone, "release", "hall", "ann", "--yes").saying(s.T, "item      1B (price=35, reduced, row=1)\n")
	s.run(exitDone, "claim", "hall", "bob", "--item", "1B").saying(s.T, "1B\tprice=35, reduced\trow=1\n")
	s.run(exitDone, "release", "hall", "bob", "--yes")
	s.run(exitDone, "campaign", "close", "hall")
	s.run(exitDone, "replay", "hall", "claims.ndjson", "--dry-run").saying(s.T, "would have replayed 1")
}

// compactJSON returns JSON values without white space between their parts.
func compactJSON(t *testing.T, text string) string {
	t.Helper()
	var compact bytes.Buffer
	for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if err == nil {
			err = json.Compact(&compact, value)
		}
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	return compact.String()
}

// TestBadWith checks that errors in --with are found before anything is written.
func TestBadWith(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "hall", "--columns")
		s.run(exitDone, "campaign", "create", "codes")
		file, plain := s.file("seats.csv", seatsCSV), s.file("plain.txt", "1A\n")
		eleven := strings.Repeat("x,", engine.MaxColumns) + "x"
		for _, test := range []struct {
			args []string
			want string
		}{
			{[]string{"codes", file, "--column", "seat", "--with", "row"}, "--with: codes was created without --columns, which is fixed; nothing was changed"},
			{[]string{"hall", plain, "--lines", "--with", "row"}, "--with and --lines cannot be used together"},
			{[]string{"hall", file, "--with", "row"}, "--with needs --column NAME"},
			{[]string{"hall", file, "--column", "1", "--with", "row"}, "seats.csv: --with row: --column 1 is a number"},
			{[]string{"hall", file, "--column", "seat", "--with", eleven}, "--with names 11 columns, at most 10 are allowed"},
			{[]string{"hall", file, "--column", "seat", "--with", "row,colour"}, `seats.csv: --with colour: there is no such column; the first row has "seat", "row", "price", "cost"`},
			{[]string{"hall", s.file("twice.csv", "seat,row\nA,1\nB,1\nA,2\n"), "--column", "seat", "--with", "row"}, "twice.csv: line 4: columns: differ from those of line 2, which has the same item"},
			{[]string{"hall", s.file("short.csv", "seat,row\nA,1\nB\n"), "--column", "seat", "--with", "row"}, `line 3 has 1 column, "row" is column 2`},
		} {
			s.run(exitUsage, append([]string{"load"}, test.args...)...).saying(s.T, test.want)
		}
		s.run(exitUsage, "campaign", "set", "codes", "--columns").saying(s.T, "--columns is fixed when a campaign is created")
		s.run(exitDone, "load", "hall", file, "--column", "seat", "--with", "row")
		s.run(exitDone, "load", "hall", file, "--column", "seat", "--with", "price").saying(s.T, "known 3", "the items of 3 lines are known with other columns than")
		var report loadJSON
		if s.json(&report, "load", "hall", file, "--column", "seat", "--with", "row"); report.Known != 3 || report.OtherColumns != 0 {
			s.Errorf("got %+v", report)
		}
		var body claimapi.ClaimBody
		if s.json(&body, "claim", "hall", "ann"); !strings.HasPrefix(string(body.Columns), "row\t") {
			s.Errorf("got %+v", body)
		}
	})
}
