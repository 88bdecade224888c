package format_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/format"
)

// TestCanonicalForm pins the form, because ledgers store fingerprints: after a change of the form, every late copy
// would be a synthetic duplicate. "|" means the end of a string, the bytes 0 and 1.
func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id", OwnerPath: "owner", ContextsPath: "meta.c.contexts", Volatile: []string{"v", "list.1", "deep.v"}})
	for _, test := range []struct{ members, form string }{
		{`"a":1`, "{sa|n1e0;}"},
		{`"b":true,"a":null,"c":false`, "{sa|zsb|tsc|f}"},
		{`"":{},"a":[],"b":{"y":[1,{}],"x":""}`, "{s|{}sa|[]sb|{sx|s|sy|[n1e0;{}]}}"},
		{`"a":"x","a":"y"`, "{sa|sx|sa|sy|}"},
		{`"a":"y","a":"x"`, "{sa|sy|sa|sx|}"},
		{`"é":1,"z":1,"a":1`, "{sa|n1e0;sz|n1e0;sé|n1e0;}"},
		{`"a":"\"\\\/\b\f\n\r\té\u00E9😀\ud83d\uDE00"`, "{sa|s\"\\/\b\f\n\r\téé😀😀|}"},
		{`"a":"\u0000\u0001\udfff\ud800x\ud800\udfff"`, "{sa|s\x00\x00\x01\x00\xdf\xff\x00\xd8\x00x𐏿|}"},
		{"\"a\":\"\xff\xed\xa0\x80\"", "{sa|s\xff\xed\xa0\x80|}"},
		{`"a":-0.00e5,"b":-120,"c":1.50E+3,"d":0.0015`, "{sa|n;sb|n-12e1;sc|n15e2;sd|n15e-4;}"},
		{`"a":1e999999999999999999,"b":1e1000000000000000000,"c":-10.1e-0001000000000000000000`,
			"{sa|n1e999999999999999999;sb|n1e0e1000000000000000000;sc|n-101e-1e-1000000000000000000;}"},
		// Values that the form leaves out.
		{`"v":1,"deep":{"v":1,"w":2},"list":[0,1,2]`, "{sdeep|{sw|n2e0;}slist|[n;n2e0;]}"},
		{`"v":1,"v":2,"deep":{"v":1},"deep":{"v":2}`, "{sdeep|{}sdeep|{sv|n2e0;}sv|n2e0;}"},
		{`"owner":"other"`, "{sowner|sother|}"},
		{`"meta":{}`, "{}"},
		{`"meta":{"c":{}}`, "{}"},
		{`"meta":{"c":{"contexts":[1]}}`, "{}"},
		{`"meta":{"c":{"contexts":[1],"x":1}}`, "{smeta|{sc|{sx|n1e0;}}}"},
		{`"meta":{"c":{"contexts":[1]},"x":1}`, "{smeta|{sx|n1e0;}}"},
		{`"meta":{"c":[]},"c":{}`, "{sc|{}smeta|{sc|[]}}"},
		{`"meta":{},"meta":{}`, "{smeta|{}}"},
		{`"meta":null`, "{smeta|z}"},
	} {
		form := strings.ReplaceAll(test.form, "|", "\x00\x01")
		sum := sha256.Sum256([]byte(form))
		record := `{"id":"x","owner":"o",` + test.members + `}`
		if got := mustRead(t, f, record).Fingerprint; got != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: the fingerprint is not that of %q", test.members, form)
		}
	}
}

// TestSame: all ways to write a document have the same fingerprint.
func TestSame(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id", Volatile: []string{"v"}})
	for _, group := range [][]string{
		{`{"id":"x","a":1,"b":[{"c":2}]}`, `{"b":[{"c":2}],"a":1,"id":"x"}`, " { \"id\" :\t\"x\",\r\n\"a\" : 1 , \"b\" : [ { \"c\" : 2 } ] } "},
		{`{"id":"x","a":1,"b":[{"c":2}]}`, `{"id":"y","a":1,"b":[{"c":2}]}`, `{"id":17,"v":{"w":1},"contexts":"any","b":[{"c":2}],"a":1}`},
		{`{"id":"x","a":1}`, `{"id":"x","a":1.0}`, `{"id":"x","a":10e-1}`, `{"id":"x","a":0.1E1}`, `{"id":"x","a":1e0}`, `{"id":"x","a":0.001e+0003}`, `{"id":"x","a":1000.00e-3}`},
		{`{"id":"x","a":0}`, `{"id":"x","a":-0}`, `{"id":"x","a":0.000}`, `{"id":"x","a":-0e99999999999999999999}`, `{"id":"x","a":0E-5}`},
		{`{"id":"x","a":1e400}`, `{"id":"x","a":10e399}`, `{"id":"x","a":0.1e401}`},
		{`{"id":"x","a":1e999999999}`, `{"id":"x","a":100e999999997}`, `{"id":"x","a":0.01e+1000000001}`},
		{`{"id":"x","a":-12345678901234567890.1}`, `{"id":"x","a":-123456789012345678901e-1}`, `{"id":"x","a":-1.234567890123456789010e19}`},
		{`{"id":"x","a/":"é\n😀"}`, `{"id":"x","a\/":"\u00e9\u000a\ud83d\ude00"}`, `{"\u0069\u0064":"x","\u0061\u002F":"\u00E9\u000A\uD83D\uDE00"}`},
		{`{"id":"x","b":1,"\u0061":2}`, `{"id":"x","a":2,"b":1}`},
	} {
		want := mustRead(t, f, group[0]).Fingerprint
		for _, record := range group[1:] {
			if got := mustRead(t, f, record).Fingerprint; got != want {
				t.Errorf("%s and %s have different fingerprints", group[0], record)
			}
		}
	}
}

// TestDifferent: all these documents have different fingerprints.
func TestDifferent(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id", Volatile: []string{"v", "o.v"}})
	seen := map[string]string{}
	for _, members := range []string{
		``, `,"a":1`, `,"a":"1"`, `,"a":true`, `,"a":false`, `,"a":null`, `,"a":"null"`, `,"a":"true"`, `,"a":[]`, `,"a":{}`,
		`,"a":""`, `,"a":[1]`, `,"a":[[1]]`,
		`,"a":[1,2]`, `,"a":[2,1]`, `,"a":[12]`, `,"a":["1","2"]`, `,"a":["1,2"]`, `,"a":["12"]`, `,"a":["","12"]`,
		`,"a":["12",""]`, `,"a":[[],1]`, `,"a":[1,[]]`, `,"a":[[1],2]`, `,"a":[[1,2]]`,
		`,"a":0`, `,"a":-1`, `,"a":10`, `,"a":0.1`, `,"a":11`, `,"a":1.1`, `,"a":1e-1000000000000`, `,"a":1e1000000000000`,
		// Numbers that are equal as float64.
		`,"a":12345678901234567890`, `,"a":12345678901234567891`, `,"a":12345678901234567890.1`, `,"a":1e400`, `,"a":1e401`,
		`,"a":2e400`, `,"a":1e-400`, `,"a":0.1000000000000000055511151231257827`,
		`,"a":9007199254740992`, `,"a":9007199254740993`, `,"a":1e999999999`, `,"a":1e9999999999`,
		`,"a":1e99999999999999999999`, `,"a":1e999999999999999999999`, `,"a":-1e99999999999999999999`,
		`,"a":1e-99999999999999999999`,
		`,"a":10e99999999999999999999`, `,"a":11e99999999999999999999`, `,"a":1.1e99999999999999999999`,
		// Strings that a careless reader takes for equal.
		`,"a":"\ud800"`, `,"a":"\ud801"`, `,"a":"\udc00"`, `,"a":"\ufffd"`, `,"a":"\ud800\ud800"`, `,"a":"\udc00\ud800"`,
		`,"a":"\ud800\udc00"`, `,"a":"\\ud800"`, `,"a":"?"`,
		",\"a\":\"\xff\"", ",\"a\":\"\xfe\"", ",\"a\":\"\xed\xa0\x80\"", ",\"a\":\"\xed\xa0\xbd\xed\xb8\x80\"",
		`,"a":"\ud83d\ude00"`, `,"a":"😀😀"`, ",\"a\":\"\xc3\"", ",\"a\":\"\xc3\xa9\"", `,"a":"\u00c3\u00a9"`,
		`,"a":"\u0000"`, `,"a":"\u0000\u0000"`, `,"a":"\u0000\u0001"`, `,"a":"\u0001"`, `,"a":"\\u0000"`,
		`,"a":"\u0000\u00d8"`, `,"a":" "`, `,"a":"A"`, `,"a":"a"`, `,"a":"e\u0301"`,
		// Strings that look like delimiters.
		`,"a":"}"`, `,"a":"{"`, `,"a":"|sb|"`, `,"a":"\u0000\u0001sb"`, `,"a":"\u0000\u0001sb\u0000\u0001s"`,
		`,"a":"","b":""`, `,"a\u0000\u0001sb":""`, `,"a":"n1e0;"`,
		// Names.
		`,"b":1`, `,"A":1`, `,"":1`, `,"\ud800":1`, `,"\udc00":1`, `,"\ufffd":1`, ",\"\xff\":1", `,"a":1,"b":2`,
		`,"a":2,"b":1`, `,"ab":1`, `,"a":{"b":1}`, `,"a":{"b":1,"c":2}`, `,"a":{"b":1},"c":2`, `,"a":[{"b":1},{"c":2}]`,
		`,"a":[{"b":1,"c":2}]`,
		// Names that occur twice: JSON readers differ in which one they use.
		`,"a":1,"a":2`, `,"a":2,"a":1`, `,"a":1,"a":1`, `,"a":1,"a":1,"a":1`, `,"v":1,"v":2`,
		`,"contexts":1,"contexts":2`, `,"o":{"v":1},"o":{"v":2}`, `,"o":{},"o":{}`, `,"o":{}`,
	} {
		record := `{"id":"x"` + members + `}`
		fingerprint := mustRead(t, f, record).Fingerprint
		if twin, found := seen[fingerprint]; found {
			t.Errorf("%s and %s have one fingerprint", twin, record)
		}
		seen[fingerprint] = record
	}
}

// TestManyValues: records with more values or paths than fit on the stack are read too.
func TestManyValues(t *testing.T) {
	t.Parallel()
	for _, count := range []int{30, 31, 32, 33, 34, 5000} {
		var forwards, backwards []string
		for i := range count {
			forwards = append(forwards, fmt.Sprintf(`"m%d":{"b":%d,"a":"\u00%02x"}`, i, i, i%128+128))
			backwards = append(backwards, fmt.Sprintf(`"m%d":{"a":"%c","b":%d.0}`, i, i%128+128, i))
		}
		slices.Reverse(backwards)
		for extra := range 3 { // so that every number of values occurs around 96
			ones := strings.Repeat("1,", extra)
			for _, paths := range []int{0, 10, 11, 12, 13, 14, 15, 16, 100} {
				checkMany(t, `{`+strings.Join(forwards, ",")+`,"z":[`+ones+`1],"id":"x"}`,
					`{"id":"x","z":[`+ones+`1],`+strings.Join(backwards, ",")+`}`, paths)
			}
		}
	}
}

func checkMany(t *testing.T, first, second string, paths int) {
	t.Helper()
	var volatile []string
	for i := range paths {
		volatile = append(volatile, fmt.Sprintf("absent%d", i))
	}
	f := newJSON(t, format.Options{IDPath: "id", Volatile: volatile})
	if a, b := mustRead(t, f, first), mustRead(t, f, second); a != b {
		t.Errorf("%d paths: want %+v, got %+v\n%.200s", paths, a, b, first)
	}
}
