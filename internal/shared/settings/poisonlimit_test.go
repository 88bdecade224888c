package settings_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

func TestParsePoisonLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]settings.PoisonLimit{
		"90% of 100": {Share: 0.9, Records: 100}, "100% of 1": {Share: 1, Records: 1}, "1% of 7": {Share: 0.01, Records: 7},
		"off": {Off: true},
	} {
		if got, err := settings.ParsePoisonLimit(text, 500); err != nil || got != want {
			t.Errorf("%q: want %+v, got %+v, %v", text, want, got, err)
		}
	}
	for _, text := range []string{"", "90%", "90", "0% of 100", "101% of 100", "90% of 0", "90% of", "x% of 100", "90.5% of 100", "on", "90% of 501"} {
		if got, err := settings.ParsePoisonLimit(text, 500); err == nil {
			t.Errorf("%q: want an error, got %+v", text, got)
		}
	}
}
