package cli

import (
	"fmt"
	"strings"
	"time"
)

// timeForms are examples of times for help and errors.
const timeForms = "2027-03-01 (midnight UTC), 2027-03-01T09:00:00Z, 2027-03-01T09:00+01:00 or " +
	`"2027-03-01 09:00 Europe/Berlin"`

// wallForms are the forms of a time of day without a zone. Behind the last part Parse takes fractions of a second.
var wallForms = []string{"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02T15:04:05"}

// parseTime reads a date, which begins at midnight UTC, or a date and a time of day with an offset or a time zone. The
// location of the result is what the user typed.
func parseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	for _, form := range wallForms {
		for _, offset := range []string{"Z07:00", " Z07:00"} {
			if t, err := time.Parse(form+offset, text); err == nil {
				return t, nil
			}
		}
	}
	if _, ok := parseWall(text); ok {
		return time.Time{}, fmt.Errorf("%q has no time zone; add Z for UTC, an offset such as +01:00, or a zone such as Europe/Berlin", text)
	}
	if end := strings.LastIndexByte(text, ' '); end > 0 {
		if wall, ok := parseWall(text[:end]); ok {
			return inZone(text, wall, text[end+1:])
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time; use %s", text, timeForms)
}

// parseWall reads a date, or a date and a time of day, as if it was in UTC.
func parseWall(text string) (wall time.Time, ok bool) {
	for _, form := range append(wallForms, time.DateOnly) {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// inZone returns the moment at which the clocks of a zone show a time. It refuses a time that they show never or twice.
func inZone(text string, wall time.Time, name string) (time.Time, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // this one depends on the machine
		const form = "%q: there is no time zone %q; use a zone such as Europe/Berlin, an offset such as +01:00, or Z for UTC"
		return time.Time{}, fmt.Errorf(form, text, name)
	}
	switch moments, forward := momentsOf(wall, zone); len(moments) {
	case 0:
		return time.Time{}, fmt.Errorf("%q does not exist: the clocks go forward over it; use %s or another time",
			text, forward.Format(time.RFC3339))
	case 1:
		return moments[0], nil
	default:
		return time.Time{}, fmt.Errorf("%q happens twice, because the clocks go back; use %s or %s",
			text, moments[0].Format(time.RFC3339), moments[1].Format(time.RFC3339))
	}
}

// momentsOf returns the moments at which the clocks of a zone show a time. forward is the latest moment before them at
// which the clocks changed.
func momentsOf(wall time.Time, zone *time.Location) (moments []time.Time, forward time.Time) {
	const farthest = 24 * time.Hour // more than any offset
	for at, last := wall.Add(-farthest).In(zone), wall.Add(farthest); at.Before(last); {
		_, offset := at.Zone()
		begin, end := at.ZoneBounds()
		moment := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if !moment.Before(begin) && (end.IsZero() || moment.Before(end)) {
			moments = append(moments, moment)
		}
		if end.IsZero() {
			break
		}
		if !moment.Before(end) {
			forward = end
		}
		at = end
	}
	return moments, forward
}

// Understood writes a time that a user typed: in UTC, and in the zone that the user named, or else in the zone of
// this machine.
func Understood(t time.Time) string {
	utc, there := t.UTC().Format(time.RFC3339), t
	if t.Location() == time.UTC {
		there = t.Local()
	}
	local := there.Format(time.RFC3339)
	switch zone := there.Location(); {
	case local == utc:
		return utc
	case zone == time.Local:
		local += " here"
	case zone.String() != "":
		local += " in " + zone.String()
	}
	return utc + " (" + local + ")"
}
