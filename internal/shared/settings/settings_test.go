package settings_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

// read returns a parser of one variable.
func read(value string) *settings.Parser {
	return settings.NewParser([]string{"PATH=/bin", "ONCEBOX_X=" + value})
}

// wantProblem checks the error of a parser. If want is "", there must be no error.
func wantProblem(t *testing.T, p interface{ Err() error }, want string) {
	t.Helper()
	got := ""
	if err := p.Err(); err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func wantValue[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("want %v, got %v", want, got)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for value, c := range map[string]struct {
		want    time.Duration
		problem string
	}{
		"":     {2 * day, ""},
		"36h":  {36 * time.Hour, ""},
		"7d":   {7 * day, ""},
		"1s":   {time.Second, ""},
		"0":    {0, "ONCEBOX_X is shorter than 1s (allowed: 1s or more)"},
		"8d":   {8 * day, "ONCEBOX_X is longer than 7d (allowed: 1s or more)"},
		"week": {0, "ONCEBOX_X is not a duration (allowed: 1s or more)"},
	} {
		p := read(value)
		wantValue(t, p.Duration("ONCEBOX_X", 2*day, time.Second, 7*day, "1s or more"), c.want)
		wantProblem(t, p, c.problem)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	const problem = "ONCEBOX_X is out of range or not a number (allowed: a whole number from 1 to 10)"
	for value, c := range map[string]struct {
		want    int
		problem string
	}{
		"": {5, ""}, "1": {1, ""}, "10": {10, ""}, "0": {0, problem}, "11": {11, problem}, "1.5": {0, problem}, "many": {0, problem},
		"99999999999999999999": {math.MaxInt, problem},
	} {
		p := read(value)
		wantValue(t, p.Number("ONCEBOX_X", 5, 1, 10), c.want)
		wantProblem(t, p, c.problem)
	}
}

func TestSwitchAndList(t *testing.T) {
	t.Parallel()
	p := read("on")
	wantValue(t, p.Switch("ONCEBOX_X", false), true)
	wantValue(t, p.Switch("ONCEBOX_Y", true), true)
	p = read("off")
	wantValue(t, p.Switch("ONCEBOX_X", true), false)
	p = read("yes")
	wantValue(t, p.Switch("ONCEBOX_X", true), true)
	wantProblem(t, p, "ONCEBOX_X is neither on nor off (allowed: on or off)")
	if list := read(" a, b ,,c").List("ONCEBOX_X"); !slices.Equal(list, []string{"a", "b", "", "c"}) {
		t.Errorf("list %q", list)
	}
	if list := read("").List("ONCEBOX_X"); list != nil {
		t.Errorf("list %q", list)
	}
}

// TestRefuseOthers checks that an unknown setting is refused with the name that the user most likely meant.
func TestRefuseOthers(t *testing.T) {
	t.Parallel()
	known := []string{"ONCEBOX_DEAD_LETTERS", "ONCEBOX_SCOPE"}
	for name, want := range map[string]string{
		"PATH":          "", // another program's
		"ONCEBOX_SCOPE": "",
		"ONCEBOX_SCPOE": "ONCEBOX_SCPOE is not a known setting, did you mean ONCEBOX_SCOPE?",
		"ONCEBOX_TABLE": "ONCEBOX_TABLE is not a known setting (allowed: ONCEBOX_DEAD_LETTERS, ONCEBOX_SCOPE)",
	} {
		p := settings.NewParser([]string{name + "=hunter2"})
		p.RefuseOthers(known)
		wantProblem(t, p, want)
		p = settings.NewParser([]string{name + "="})
		p.RefuseOthers(known)
		wantProblem(t, p, "")
	}
	p := settings.NewParserOf(map[string]string{"oncebox:scop": "x"})
	p.RefuseOthers([]string{"oncebox:scope", "oncebox:window"})
	wantProblem(t, p, "oncebox:scop is not a known setting, did you mean oncebox:scope?")
}
