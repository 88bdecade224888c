package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/jsonscan"
)

// texts are JSON and nearly so.
var texts = []string{
	``, ` `, `null`, `nul`, `nulll`, `true`, `tru`, `false`, `0`, `-0`, `00`, `01`, `-`, `+1`, `1.`, `.1`, `1.5`, `1e`, `1e+`, `1E-5`, `1e5.`, `0x1`,
	`""`, `"`, `"a`, `"\"`, `"\""`, `"\\"`, `"\x"`, `"\u12aF"`, `"\u12a"`, `"\u12ag"`, "\"\t\"", "\"\x7f\xff\"", `'a'`,
	`[]`, `[ ]`, `[`, `]`, `[1]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[1}`, `[[[]],{}]`, ` [ 1 , 2 ] `, `[1]x`,
	`{}`, `{ }`, `{`, `}`, `{"a":1}`, `{"a":1,"b":{"c":[]}}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":1,}`, `{,}`, `{"a":1]`, ` { "a" : 1 , "b" : 2 } `, `{"a":1 "b":2}`,
	"\v1", "\u00a01", `{"a":1}{}`,
}

func FuzzSkip(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		text := jsonscan.Text(raw)
		end := text.Skip(text.Space(0), 10_000) // encoding/json has this limit
		if got := end >= 0 && text.Space(end) == len(raw); got != json.Valid(raw) {
			t.Errorf("%q: ends at %d; encoding/json says %v", raw, end, !got)
		}
	})
}

func TestSkipStopsAtLevels(t *testing.T) {
	t.Parallel()
	for levels := range 4 {
		for _, pair := range []string{"[ ]", `{"a": }`} {
			begin, end, _ := strings.Cut(pair, " ")
			for depth := range 6 {
				text := jsonscan.Text(strings.Repeat(begin, depth) + "1" + strings.Repeat(end, depth))
				want := len(text)
				if depth > levels {
					want = jsonscan.TooDeep
				}
				if got := text.Skip(0, levels); got != want {
					t.Errorf("%s with %d levels: got %d, want %d", text, levels, got, want)
				}
			}
		}
	}
}
