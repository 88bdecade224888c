package format_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/format"
)

func TestMemberNames(t *testing.T) {
	t.Parallel()
	var all []string
	var many strings.Builder
	for i := range 60 {
		all = append(all, fmt.Sprintf("m%d", i))
		fmt.Fprintf(&many, `,"m%d":{"inner":%d}`, i, i)
	}
	long := strings.Repeat("é", 100)
	for _, test := range []struct {
		record string
		want   []string
	}{
		{` {"b":1,"a":[{"c":2}],"b":3,"\u0069d":{"d":4}} `, []string{"b", "a", "id"}},
		{`{"a.b":1,"c,d":2,"@e":3,"f@":4,"g\\h":5,"*?#|":6,"[":7,"x y":8,"é":9}`,
			[]string{`a\.b`, `c\,d`, `\@e`, `f@`, `g\\h`, `\*\?\#\|`, `\[`, "x y", "é"}},
		{`{"":1,"a\u0000":2,"\u001b[31m":3,"\ud800":4,` + "\"\xff\"" + `:5,"\u0085":6,"b":7}`, []string{"b"}},
		{`{"` + long + `":1,"` + long[:64] + `":2}`, []string{long[:64] + "…", long[:64]}},
		{`{"x` + long + `":1}`, []string{"x" + long[:62] + "…"}},
		{`{` + many.String()[1:] + `}`, all[:50]},
		{`{}`, nil}, {`[{"a":1}]`, nil}, {`{"a":1`, nil}, {``, nil},
	} {
		if got := format.MemberNames([]byte(test.record)); !slices.Equal(got, test.want) {
			t.Errorf("%.100s: want %q, got %q", test.record, test.want, got)
		}
	}
}

// FuzzMemberNames checks that NewJSON accepts each name as a path of one name.
func FuzzMemberNames(f *testing.F) {
	for _, seed := range append(slices.Clone(seeds), `{"a.b":1,"\\*|":2,"":3,"a..\\":4}`) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		for _, name := range format.MemberNames(record) {
			if !strings.HasSuffix(name, "…") { // not cut
				newJSON(t, format.Options{IDPath: name, ContextsPath: name + "x"})
			}
		}
	})
}
