package settings_test

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "-5s": -5 * time.Second, "1.5h": 90 * time.Minute,
		"7d": 7 * day, "0d": 0, "1d12h": 36 * time.Hour, "-1d12h": -36 * time.Hour, "+2d": 2 * day, "65535d": 65535 * day,
	} {
		if got, err := settings.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: want %v, got %v, %v", text, want, got, err)
		}
	}
	for _, text := range []string{
		"", "d", "7", "7 d", " 7d", "1.5d", "12h1d", "1d1d", "1d-12h", "--1d", "1d12", "65536d", "tomorrow", "1w", "day",
		"106752d",
		"292471h30m0s9223372036s", "65535d2000000h",
	} {
		if got, err := settings.ParseDuration(text); err == nil {
			t.Errorf("%q: want an error, got %v", text, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "5s": 5 * time.Second, "1m": time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute,
		"1h0m5s": time.Hour + 5*time.Second,
		"7d":     7 * 24 * time.Hour, "-1d": -24 * time.Hour, "36h": 36 * time.Hour, "500ms": 500 * time.Millisecond,
		"10s": 10 * time.Second,
		"20m": 20 * time.Minute, "10h": 10 * time.Hour,
	} {
		if got := settings.FormatDuration(d); got != want {
			t.Errorf("%v: want %q, got %q", d, want, got)
		}
		if back, err := settings.ParseDuration(want); err != nil || back != d {
			t.Errorf("%q does not read as %v: %v, %v", want, d, back, err)
		}
	}
}
