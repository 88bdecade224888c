package emf_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/internal/testkit/emftest"
)

var some = []emf.Metric{
	{Name: "Claims", Unit: emf.Count},
	{Name: "Latency", Unit: emf.Milliseconds},
	{Name: "FreeItems", Unit: emf.Count, Zero: true},
}

// write returns a line with the level info, from a log with a lowest level.
func write(l *emf.Line, lowest slog.Level, v emf.Values) []byte {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: lowest}))
	l.Log(context.Background(), log, slog.LevelInfo, "request", []slog.Attr{slog.Int("status", 201)}, v)
	return out.Bytes()
}

func TestLine(t *testing.T) {
	t.Parallel()
	l := emf.New("oncebox/function", some)
	for range 2 { // the second line has the directive of the first
		line := write(l, slog.LevelInfo, emf.Values{Metrics: []float64{1, 2.5, 0}})
		want := []emftest.Point{
			{Namespace: "oncebox/function", Name: "Claims", Unit: "Count", Value: 1},
			{Namespace: "oncebox/function", Name: "Latency", Unit: "Milliseconds", Value: 2.5},
			{Namespace: "oncebox/function", Name: "FreeItems", Unit: "Count", Value: 0},
		}
		if got := emftest.Points(t, line); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if !strings.Contains(string(line), `"status":201`) {
			t.Errorf("the line lost its members: %s", line)
		}
	}
	line := write(l, slog.LevelInfo, emf.Values{Metrics: []float64{0, 0, 3}})
	if got := emftest.Points(t, line); len(got) != 1 || got[0].Value != 3 {
		t.Errorf("a line with zeros has %v", got)
	}
}

func TestDimensions(t *testing.T) {
	t.Parallel()
	l := emf.New("oncebox", some[2:], []string{"Campaign"}, nil)
	v := emf.Values{Metrics: []float64{7}, Dimensions: []string{"spring"}}
	got := emftest.Points(t, write(l, slog.LevelInfo, v))
	want := []emftest.Point{
		{Namespace: "oncebox", Name: "FreeItems", Unit: "Count", Dimensions: "Campaign=spring", Value: 7},
		{Namespace: "oncebox", Name: "FreeItems", Unit: "Count", Value: 7},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLevels checks that the metrics do not depend on the log level, and that the members of an excluded line are
// left out.
func TestLevels(t *testing.T) {
	t.Parallel()
	v := emf.Values{Metrics: []float64{1, 0, 0}}
	line := write(emf.New("oncebox", some), slog.LevelError, v)
	if len(emftest.Points(t, line)) != 2 || strings.Contains(string(line), "status") {
		t.Errorf("below the level the line is %s", line)
	}
	if line := write(nil, slog.LevelError, v); len(line) > 0 {
		t.Errorf("without metrics the line is %s", line)
	}
	nothing := emf.Values{Metrics: []float64{0, 0}}
	if line := write(emf.New("oncebox", some[:2]), slog.LevelError, nothing); len(line) > 0 {
		t.Errorf("below the level a line without metrics is %s", line)
	}
	for name, line := range map[string][]byte{
		"no metrics":   write(nil, slog.LevelInfo, v),
		"no namespace": write(emf.New("", some), slog.LevelInfo, v),
		"no values":    write(emf.New("oncebox", some), slog.LevelInfo, emf.Values{}),
		"only zeros":   write(emf.New("oncebox", some[:2]), slog.LevelInfo, nothing),
	} {
		if len(emftest.Points(t, line)) != 0 || !strings.Contains(string(line), `"status":201`) {
			t.Errorf("%s: the line is %s", name, line)
		}
	}
}

// TestRules checks that the reader of the tests refuses lines that CloudWatch refuses.
func TestRules(t *testing.T) {
	t.Parallel()
	const good = `{"_aws":{"Timestamp":NOW,"CloudWatchMetrics":[{"Namespace":"oncebox","Dimensions":[["D"]],` +
		`"Metrics":[{"Name":"M","Unit":"Count"}]}]},"D":"d","M":1}`
	read := func(line string) ([]emftest.Point, error) {
		return emftest.Read([]byte(strings.ReplaceAll(line, "NOW", fmt.Sprint(time.Now().UnixMilli()))))
	}
	if points, err := read(good); err != nil || len(points) != 1 {
		t.Fatalf("the good line: %v, %v", points, err)
	}
	if points, err := read(strings.Replace(good, `"M":1`, `"M":[1,2]`, 1)); err != nil || len(points) != 2 {
		t.Errorf("two values: %v, %v", points, err)
	}
	for name, change := range map[string][2]string{
		"something before":       {`{"_aws"`, `INFO {"_aws"`},
		"something behind":       {`"M":1}`, `"M":1} {}`},
		"no timestamp":           {`"Timestamp":NOW,`, ``},
		"an old timestamp":       {`NOW`, `1574109732004`},
		"seconds":                {`NOW`, fmt.Sprint(time.Now().Unix())},
		"a timestamp as text":    {`NOW`, `"NOW"`},
		"no namespace":           {`"Namespace":"oncebox",`, ``},
		"an empty namespace":     {`"oncebox"`, `""`},
		"a namespace with *":     {`"oncebox"`, `"once*box"`},
		"no dimensions":          {`"Dimensions":[["D"]],`, ``},
		"no set of dimensions":   {`[["D"]]`, `[]`},
		"dimensions in one set":  {`[["D"]]`, `["D"]`},
		"null as a set":          {`[["D"]]`, `[["D"],null]`},
		"a missing dimension":    {`"D":"d",`, ``},
		"a number as dimension":  {`"D":"d"`, `"D":1`},
		"an empty dimension":     {`"D":"d"`, `"D":""`},
		"a dimension of umlauts": {`"D":"d"`, `"D":"ä"`},
		"an unknown unit":        {`"Count"`, `"count"`},
		"a missing metric":       {`,"M":1`, ``},
		"a metric as text":       {`"M":1`, `"M":"1"`},
		"an empty array":         {`"M":1`, `"M":[]`},
		"a null":                 {`"M":1`, `"M":null`},
		"a member twice":         {`"M":1`, `"M":1,"M":2`},
		"a nested metric":        {`"M":1`, `"N":{"M":1}`},
		"an unknown member":      {`"Unit":"Count"`, `"Units":"Count"`},
	} {
		line := strings.Replace(good, change[0], change[1], 1)
		if points, err := read(line); err == nil {
			t.Errorf("%s: accepted as %v: %s", name, points, line)
		}
	}
}
