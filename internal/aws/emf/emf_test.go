package emf_test

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"strings"
	"testing"

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
