package settings

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// hoursPerDay makes a day 24 hours, even on a day when clocks are changed.
const hoursPerDay = 24

// DurationForms are examples of durations, for messages and help texts.
const DurationForms = "500ms, 30s, 15m, 24h or 7d"

var errDuration = errors.New("not a duration; write it as " + DurationForms)

// ParseDuration reads a Go duration that may begin with whole days of 24 hours: 90s, 24h, 7d, 1d12h. The error says
// how to write a duration. It does not repeat the text, which may be a secret in the wrong place.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(daysAsHours(text))
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// daysAsHours replaces the days of a duration by hours, which time.ParseDuration can read. It returns a text without
// days unchanged.
func daysAsHours(text string) string {
	number := strings.TrimLeft(text, "+-")
	sign := text[:len(text)-len(number)]
	number, rest, found := strings.Cut(number, "d")
	days, err := strconv.ParseUint(number, 10, 16) // 65,535 days are 179 years; a duration holds 292
	if !found || err != nil {
		return text
	}
	return sign + strconv.FormatUint(days*hoursPerDay, 10) + "h" + rest
}

// FormatDuration writes a duration as ParseDuration reads it. It uses days for whole days, and leaves out units that
// are zero: 7d, 36h, 1h30m, 5s.
func FormatDuration(d time.Duration) string {
	const day = hoursPerDay * time.Hour
	if d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
