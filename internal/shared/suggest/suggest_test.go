package suggest_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/shared/suggest"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	settings := []string{"ONCEBOX_DEDUPE_TABLE", "ONCEBOX_DEAD_LETTERS", "ONCEBOX_SCOPE", "ONCEBOX_SINK", "ONCEBOX_IDS",
		"ONCEBOX_LOG_LEVEL"}
	commands := []string{"campaign", "claim", "claims", "load", "local"}
	for name, c := range map[string]struct {
		name  string
		known []string
		want  string
	}{
		"one letter added":           {"ONCEBOX_LOG_LEVELS", settings, "ONCEBOX_LOG_LEVEL"},
		"one letter removed":         {"ONCEBOX_DEDUP_TABLE", settings, "ONCEBOX_DEDUPE_TABLE"},
		"one letter replaced":        {"ONCEBOX_SCOBE", settings, "ONCEBOX_SCOPE"},
		"two neighbours swapped":     {"ONCEBOX_SNIK", settings, "ONCEBOX_SINK"},
		"lower case":                 {"oncebox_scope", settings, "ONCEBOX_SCOPE"},
		"other separators":           {"ONCEBOX-DEAD-LETTERS", settings, "ONCEBOX_DEAD_LETTERS"},
		"several edits, long name":   {"ONCEBOX_DEADLETTER", settings, "ONCEBOX_DEAD_LETTERS"},
		"the prefix does not count":  {"ONCEBOX_STORE", settings, ""},
		"too short":                  {"ONCEBOX_ID", settings, ""},
		"nothing like it":            {"ONCEBOX_ADDRESS", settings, ""},
		"other prefix":               {"ONEBOX_SCOPE", settings, "ONCEBOX_SCOPE"},
		"the closest counts":         {"claimss", commands, "claims"},
		"the first of several":       {"clai", []string{"claim", "clair"}, "claim"},
		"the name itself":            {"load", commands, "load"},
		"without a prefix":           {"laod", commands, "load"},
		"letters of several bytes":   {"grün-2027", []string{"grau-2027", "grün-2026"}, "grün-2026"},
		"nothing known":              {"load", nil, ""},
		"empty name":                 {"", commands, ""},
		"a known name is the prefix": {"oncebox:auht", []string{"oncebox:", "oncebox:auth"}, "oncebox:auth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := suggest.Closest(c.name, c.known); got != c.want {
				t.Errorf("Closest(%q): want %q, got %q", c.name, c.want, got)
			}
		})
	}
}
