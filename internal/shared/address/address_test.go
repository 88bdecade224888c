package address_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/shared/address"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ scheme, name, lanes, problems string }{
		"log":                          {"log", "", "", ""},
		"log?lanes=8":                  {"log", "", "8", ""},
		"valkey://a:1,b:2?lanes=8":     {"valkey", "//a:1,b:2", "8", ""},
		"sqs:https://sqs/q?lanes=a%26": {"sqs", "https://sqs/q", "a&", ""},
		"a?lanes=x=y+z":                {"a", "", "x=y+z", ""},
		"":                             {"", "", "", ""},
		"a?":                           {"a", "", "", " has an option that is not OPTION=VALUE (allowed: ?OPTION=VALUE&OPTION=VALUE)"},
		"a?=8":                         {"a", "", "", " has an option that is not OPTION=VALUE (allowed: ?OPTION=VALUE&OPTION=VALUE)"},
		"a?lanes":                      {"a", "", "", " has an option that is not OPTION=VALUE (allowed: ?OPTION=VALUE&OPTION=VALUE)"},
		"a?hunter2=x@b":                {"a", "", "", " has an option that is not OPTION=VALUE (allowed: ?OPTION=VALUE&OPTION=VALUE)"},
		"a?lanes=":                     {"a", "", "", "option lanes has no value, or a % without two hexadecimal digits behind it (allowed: ?OPTION=VALUE&OPTION=VALUE)"},
		"a?lanes=%2":                   {"a", "", "", "option lanes has no value, or a % without two hexadecimal digits behind it (allowed: ?OPTION=VALUE&OPTION=VALUE)"},
		"a?lanes=1&lanes=2":            {"a", "", "1", "option lanes is given twice (allowed: ?OPTION=VALUE&OPTION=VALUE)"},
		"a?lane=1":                     {"a", "", "", "option lane is not a known setting, did you mean lanes? (allowed: lanes, memory)"},
		"a?colour=1":                   {"a", "", "", "option colour is not a known setting (allowed: lanes, memory)"},
		"a?lanes=1&x=1&x=2":            {"a", "", "1", "option x is given twice (allowed: ?OPTION=VALUE&OPTION=VALUE); option x is not a known setting (allowed: lanes, memory)"},
	} {
		a := address.Parse(text)
		problems := ""
		if err := a.Done("lanes", "memory"); err != nil {
			problems = err.Error()
		}
		got := struct{ scheme, name, lanes, problems string }{a.Scheme, a.Name, a.Text("lanes"), problems}
		if got != want || address.Scheme(text) != want.scheme {
			t.Errorf("%q: got %+v", text, got)
		}
	}
	if err := address.Parse("keys?lanes=8").Done(); err == nil || err.Error() != "option lanes is not a known setting (allowed: no options)" {
		t.Errorf("got %v", err)
	}
}

// TestWith: an option that was added is read as it was.
func TestWith(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.StringN(1, 20, -1).Draw(rt, "value")
		text := rapid.SampledFrom([]string{"log", "valkey://a:1", "log?memory=1GiB"}).Draw(rt, "text")
		a := address.Parse(address.With(text, "lanes", value))
		if err := a.Done("lanes", "memory"); err != nil || a.Text("lanes") != value {
			rt.Fatalf("got %q, %v", a.Text("lanes"), err)
		}
	})
}
