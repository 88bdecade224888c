package settings_test

import (
	"math"
	"testing"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"0": 0, "1048576": 1 << 20, "1MiB": 1 << 20, "10MiB": 10 << 20, "512KiB": 512 << 10, "1024MiB": 1 << 30,
		"1GiB": 1 << 30, "1025MiB": 1025 << 20, "1073741825": 1<<30 + 1, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := settings.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: want %d, got %d, %v", text, want, got, err)
		}
	}
	for _, text := range []string{
		"", "MiB", "1.5MiB", "-1", "+1", "1 MiB", "1MB", "1mib", "1M", "1MiBKiB", "1gib", "9223372036854775808", "8589934592GiB",
		"18446744073709551616", "big",
	} {
		if got, err := settings.ParseSize(text); err == nil {
			t.Errorf("%q: want an error, got %d", text, got)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	const problem = "ONCEBOX_X is out of range or not a size (allowed: 1MiB to 10MiB)"
	for value, c := range map[string]struct {
		want    int
		problem string
	}{
		"": {5, ""}, "1MiB": {1 << 20, ""}, "10485760": {10 << 20, ""},
		"10": {5, problem}, "11MiB": {5, problem}, "big": {5, problem},
	} {
		p := read(value)
		wantValue(t, p.Size("ONCEBOX_X", 5, 1<<20, 10<<20, "1MiB to 10MiB"), c.want)
		wantProblem(t, p, c.problem)
	}
}
