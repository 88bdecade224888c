package cli

import (
	"testing"
	"time"
	_ "time/tzdata" // as in the program
)

// TestTimes checks the forms of a time, and that a time which the clocks of a zone show never or twice is refused.
func TestTimes(t *testing.T) {
	defer func(local *time.Location) { time.Local = local }(time.Local)
	time.Local = time.UTC
	for text, want := range map[string]string{
		"2027-03-01":                              "2027-03-01T00:00:00Z",
		"2027-03-01T09:00:00Z":                    "2027-03-01T09:00:00Z",
		"2027-03-01T09:00:00.25Z":                 "2027-03-01T09:00:00Z",
		"2027-03-01T09:00-03:30":                  "2027-03-01T12:30:00Z (2027-03-01T09:00:00-03:30)",
		"2027-03-01 09:00+05:45":                  "2027-03-01T03:15:00Z (2027-03-01T09:00:00+05:45)",
		"2027-03-01 09:00 Europe/Berlin":          "2027-03-01T08:00:00Z (2027-03-01T09:00:00+01:00 in Europe/Berlin)",
		"2027-07-01T09:00:30 Europe/Berlin":       "2027-07-01T07:00:30Z (2027-07-01T09:00:30+02:00 in Europe/Berlin)",
		"2027-03-01 Pacific/Apia":                 "2027-02-28T11:00:00Z (2027-03-01T00:00:00+13:00 in Pacific/Apia)",
		"2027-03-01 09:00 UTC":                    "2027-03-01T09:00:00Z",
		"2027-03-28 01:59:59 Europe/Berlin":       "2027-03-28T00:59:59Z (2027-03-28T01:59:59+01:00 in Europe/Berlin)",
		"2027-03-28 03:00 Europe/Berlin":          "2027-03-28T01:00:00Z (2027-03-28T03:00:00+02:00 in Europe/Berlin)",
		"2027-10-31 03:00 Europe/Berlin":          "2027-10-31T02:00:00Z (2027-10-31T03:00:00+01:00 in Europe/Berlin)",
		"2027-10-31T02:30:00+02:00":               "2027-10-31T00:30:00Z (2027-10-31T02:30:00+02:00)",
		"tomorrow":                                `"tomorrow" is not a time; use ` + timeForms,
		"2027-02-30 09:00 Europe/Berlin":          `"2027-02-30 09:00 Europe/Berlin" is not a time; use ` + timeForms,
		"2027-03-01 09:00":                        `"2027-03-01 09:00" has no time zone; add Z for UTC, an offset such as +01:00, or a zone such as Europe/Berlin`,
		"2027-03-01 09:00 ":                       `"2027-03-01 09:00" has no time zone; add Z for UTC, an offset such as +01:00, or a zone such as Europe/Berlin`,
		"2027-03-01 09:00 Berlin":                 `"2027-03-01 09:00 Berlin": there is no time zone "Berlin"; use a zone such as Europe/Berlin, an offset such as +01:00, or Z for UTC`,
		"2027-03-01 09:00 Local":                  `"2027-03-01 09:00 Local": there is no time zone "Local"; use a zone such as Europe/Berlin, an offset such as +01:00, or Z for UTC`,
		"2027-03-28 02:30 Europe/Berlin":          `"2027-03-28 02:30 Europe/Berlin" does not exist: the clocks go forward over it; use 2027-03-28T03:00:00+02:00 or another time`,
		"2027-03-28 02:00 Europe/Berlin":          `"2027-03-28 02:00 Europe/Berlin" does not exist: the clocks go forward over it; use 2027-03-28T03:00:00+02:00 or another time`,
		"2011-12-30 12:00 Pacific/Apia":           `"2011-12-30 12:00 Pacific/Apia" does not exist: the clocks go forward over it; use 2011-12-31T00:00:00+14:00 or another time`,
		"2027-10-31 02:30 Europe/Berlin":          `"2027-10-31 02:30 Europe/Berlin" happens twice, because the clocks go back; use 2027-10-31T02:30:00+02:00 or 2027-10-31T02:30:00+01:00`,
		"2027-04-04T01:45:00 Australia/Lord_Howe": `"2027-04-04T01:45:00 Australia/Lord_Howe" happens twice, because the clocks go back; use 2027-04-04T01:45:00+11:00 or 2027-04-04T01:45:00+10:30`,
		"2027-03-01 09:00 ../../../etc/localtime": `"2027-03-01 09:00 ../../../etc/localtime": there is no time zone "../../../etc/localtime"; use a zone such as Europe/Berlin, an offset such as +01:00, or Z for UTC`,
		"2027-03-01T09:00:00Z and something else": `"2027-03-01T09:00:00Z and something else" is not a time; use ` + timeForms,
		"2027-03-01 09:00 Europe/Berlin please":   `"2027-03-01 09:00 Europe/Berlin please" is not a time; use ` + timeForms,
		"2027-03-01 09:00 +01:00":                 "2027-03-01T08:00:00Z (2027-03-01T09:00:00+01:00)",
	} {
		at, err := parseTime(text)
		got := Understood(at)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: want\n%s\ngot\n%s", text, want, got)
		}
	}
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	time.Local = newYork
	for text, want := range map[string]string{
		"2027-03-01":                  "2027-03-01T00:00:00Z (2027-02-28T19:00:00-05:00 here)",
		"2027-03-01 09:00-05:00":      "2027-03-01T14:00:00Z (2027-03-01T09:00:00-05:00 here)",
		"2027-03-01 09:00 Asia/Tokyo": "2027-03-01T00:00:00Z (2027-03-01T09:00:00+09:00 in Asia/Tokyo)",
	} {
		if at, err := parseTime(text); err != nil || Understood(at) != want {
			t.Errorf("%s: want %s, got %s, %v", text, want, Understood(at), err)
		}
	}
	if at, err := parseTime("2027-03-01T09:00:00.25Z"); err != nil || at.Nanosecond() != int(250*time.Millisecond) {
		t.Errorf("got %v, %v", at, err)
	}
}
