package offline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/framing"
)

// splitted returns the content of an input with one record a line. It reads in small parts.
func splitted(t testing.TB, as Records, content string) (string, error) {
	t.Helper()
	in := texts(content)[0]
	in.Records = as
	open := in.Open
	in.Open = func() (io.ReadCloser, error) {
		file, err := open()
		return io.NopCloser(iotest.OneByteReader(file)), err
	}
	from, err := in.open(t.Context())
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(from)
	return string(text), err
}

func TestRecords(t *testing.T) {
	t.Parallel()
	const a, b = `{"id":"]},\"\\","n":[1, {}]}`, `{"id":9007199254740993}`
	pretty := "{\r\n\t\"id\": \"x\",\n  \"n\": [ 1,\n 2 ]\n}"
	const joined = "{\t\"id\": \"x\",  \"n\": [ 1, 2 ]}"
	for name, test := range map[string]struct {
		as         Records
		text, want string
		says       string // the error
	}{
		"lines":                     {OneALine, "[" + a + "]\n", "[" + a + "]\n", ""},
		"array":                     {Array, " [" + a + " ,\n" + b + "]\n", a + "\n" + b + "\n", ""},
		"array of other values":     {Array, `[1,"a]",null,[2],-1.5e3 ]`, "1\n\"a]\"\nnull\n[2]\n-1.5e3\n", ""},
		"empty array":               {Array, "\xef\xbb\xbf[ ]", "", ""},
		"blank":                     {Array, " \n", "", ""},
		"pretty":                    {Array, "[\n" + pretty + "\n]", joined + "\n", ""},
		"bad element":               {Array, `[{"a":tru},{]` + `]`, "{\"a\":tru}\n{]\n", ""},
		"no array":                  {Array, a, "", `after record 0: it begins with '{', and not with [ as a JSON array. Say --records auto`},
		"cut array":                 {Array, "[" + a, "", "after record 1: it ends in the middle of its records"},
		"cut element":               {Array, `[{"a":1`, "", "it ends in the middle"},
		"cut string":                {Array, `["a`, "", "it ends in the middle"},
		"no comma":                  {Array, `[{} {}]`, "", "after record 1: an element is followed by '{', and not by , or ]"},
		"comma at the end":          {Array, `[{},]`, "", "there is ']' instead of a JSON value"},
		"two commas":                {Array, `[{},,{}]`, "", "there is ',' instead of a JSON value"},
		"more after the array":      {Array, `[{}]{}`, "", "it has '{' after its array"},
		"line break in a string":    {Array, "[\"a\nb\"]", "", "there is a line break in a string"},
		"concatenated":              {Concatenated, a + b + "\n" + pretty + " 1 2", a + "\n" + b + "\n" + joined + "\n1\n2\n", ""},
		"concatenated, no space":    {Concatenated, `1"a"2{}null[3]` + "\n1-2 nullx", "1\n\"a\"\n2\n{}\nnull\n[3]\n1-2\nnullx\n", ""},
		"concatenated, cut":         {Concatenated, a + `{"id`, "", "after record 1: it ends in the middle"},
		"concatenated, with commas": {Concatenated, a + "," + b, "", "there is ',' instead of a JSON value"},

		"auto: lines":        {Auto, a + "\n" + b, a + "\n" + b, ""},
		"auto: one line":     {Auto, a, a, ""},
		"auto: bad line":     {Auto, "broken\n" + a + "\n", "broken\n" + a + "\n", ""},
		"auto: bad string":   {Auto, "{\"id\n" + a + "\n", "{\"id\n" + a + "\n", ""},
		"auto: array":        {Auto, "\xef\xbb\xbf\n [" + a + "]", a + "\n", ""},
		"auto: pretty":       {Auto, pretty + "\n" + pretty, joined + "\n" + joined + "\n", ""},
		"auto: concatenated": {Auto, a + b, a + "\n" + b + "\n", ""},
		"auto: TSV":          {Auto, "a\tb\n", "a\tb\n", ""},
		"auto: empty":        {Auto, "", "", ""},
	} {
		got, err := splitted(t, test.as, test.text)
		_, broken := errors.AsType[*brokenError](err)
		switch {
		case test.says == "" && (err != nil || got != test.want):
			t.Errorf("%s: want %q, got %q, %v", name, test.want, got, err)
		case test.says != "" && (!broken || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: want an error that says %q, got %v", name, test.says, err)
		}
	}
}

// TestLikeFramings compares the records of an input with those of the function's framing, which reads payloads as a
// whole. The records are the same except for line ends.
func TestLikeFramings(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{
		"[", "]", "{", "}", ",", ":", " ", "\n", "\r\n", `"`, `\`, `"a"`, `"]"`, "1", "-2.5", "null", `{"id":"x"}`, "{\n\"id\" : 1\n}", "[1,\n2]",
	})
	opened := 0
	rapid.Check(t, func(rt *rapid.T) {
		as := rapid.SampledFrom([]Records{Array, Concatenated}).Draw(rt, "form")
		values := rapid.SliceOfN(rapid.SampledFrom([]string{`{"id":"x"}`, "{\n\"id\" : 1\n}", `"]\""`, "[ ]", "7"}), 0, 4).Draw(rt, "values")
		text := strings.Join(values, "\n")
		if as == Array {
			text = "[" + strings.Join(values, " ,") + "]"
		}
		if rapid.Bool().Draw(rt, "odd") {
			text = strings.Join(rapid.SliceOfN(part, 0, 9).Draw(rt, "parts"), "")
		}
		f, err := framing.Named(string(as))
		if err != nil {
			rt.Fatal(err)
		}
		records, framed, err := f.Open(context.Background(), []byte(text), dedupe.NewRoom())
		got, gotErr := splitted(t, as, text)
		if !framed || err != nil {
			return // the function takes the payload as one record, or refuses it
		}
		opened++
		var want bytes.Buffer
		for _, r := range records {
			want.Write(bytes.ReplaceAll(bytes.ReplaceAll(r, []byte("\n"), nil), []byte("\r"), nil))
			want.WriteByte('\n')
		}
		if gotErr != nil || got != want.String() {
			rt.Fatalf("%s of %q: want %q, got %q, %v", as, text, want.String(), got, gotErr)
		}
	})
	if opened == 0 {
		t.Error("no payload was opened: the test shows nothing")
	}
}

// TestArrayIsTheSameRun stops a run over an array. It continues with the same records in lines, and with the array.
func TestArrayIsTheSameRun(t *testing.T) {
	t.Parallel()
	lines := []string{rec("1", "x"), rec("2", "x"), rec("1", "x"), rec("9007199254740993", "x"), `{"id":"1","fp":"y","contexts":[]}` + "\n", rec("3", "x")}
	array, err := json.MarshalIndent(json.RawMessage("["+strings.Join(lines, ",")+"]"), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	job := func() *bench {
		b := newBench(t, string(array))
		b.job.Inputs[0].Records = Array
		b.job.BatchSize, b.tick = 2, recordEvery
		return b
	}
	reference := job()
	reference.run()
	if got := strings.Count(reference.output(), "\n"); got != 5 {
		t.Fatalf("%d records in the output: %s", got, reference.output())
	}
	for n := 1; ; n++ {
		b := job()
		if !b.die(n, powerCut) {
			break
		}
		b.finish()
		if b.output() != reference.output() {
			t.Fatalf("killed at %d: want\n%s\ngot\n%s", n, reference.output(), b.output())
		}
	}
	b := newBench(t, string(array)+"]")
	b.job.Inputs[0].Records = Array
	b.refused("a cannot be read after record 6: it has ']' after its array")
}
