package main

import (
	"fmt"
	"strings"
)

// warehouse holds the loaded rows, by event id.
type warehouse map[string][]string

// load loads events. A loader refuses a line that is not an event.
func (w *warehouse) load(lines ...string) {
	if *w == nil {
		*w = warehouse{}
	}
	for _, line := range lines {
		if values := strings.Split(line, "\t"); len(values) == columns {
			(*w)[values[eventID]] = append((*w)[values[eventID]], line)
		}
	}
}

// view returns the result of a query by event_id.
func (w *warehouse) view() string {
	rows, shared, renamed := 0, 0, 0
	for _, lines := range *w {
		rows += len(lines)
		if len(lines) > 1 {
			shared++
		}
		if strings.Contains(lines[0], "originalEventId") {
			renamed++
		}
	}
	return fmt.Sprintf("%d rows with %d ids, of which %d are shared and %d are new", rows, len(*w), shared, renamed)
}
