package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
)

// texts are valid JSON, and texts that are almost JSON.
var texts = []string{
	``, ` `, `null`, `nul`, `nulll`, `true`, `tru`, `false`, `0`, `-0`, `00`, `01`, `-`, `+1`, `1.`, `.1`, `1.5`, `1e`,
	`1e+`, `1E-5`, `1e5.`, `0x1`,
	`""`, `"`, `"a`, `"\"`, `"\""`, `"\\"`, `"\x"`, `"\u12aF"`, `"\u12a"`, `"\u12ag"`, "\"\t\"", "\"\x7f\xff\"", `'a'`,
	`[]`, `[ ]`, `[`, `]`, `[1]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[1}`, `[[[]],{}]`, ` [ 1 , 2 ] `, `[1]x`,
	`{}`, `{ }`, `{`, `}`, `{"a":1}`, `{"a":1,"b":{"c":[]}}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":1,}`, `{,}`,
	`{"a":1]`, ` { "a" : 1 , "b" : 2 } `, `{"a":1 "b":2}`,
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

// TestEveryByteInAString puts every byte at every place of strings, alone and with text after them. The strings are
// shorter and longer than the eight bytes that are tested together.
func TestEveryByteInAString(t *testing.T) {
	t.Parallel()
	for _, behind := range []string{"", `,12345678`} {
		for size := range 18 {
			for place := range size {
				for c := range 256 {
					text := jsonscan.Text(`"` + strings.Repeat("n", size) + `"` + behind)
					text[1+place] = byte(c)
					want, wantEscaped := len(text)-len(behind), c == '\\'
					switch {
					case c == '"':
						want = place + 2
					case !json.Valid(text[:want]):
						want = jsonscan.NotJSON
					}
					if end, escaped := text.String(0); end != want || end >= 0 && escaped != wantEscaped {
						t.Errorf("%q: got %d, %v, want %d, %v", text, end, escaped, want, wantEscaped)
					}
				}
			}
		}
	}
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
