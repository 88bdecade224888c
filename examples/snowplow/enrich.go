package main

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// These are the columns that the stand-ins know, of the 131 of an enriched event.
const (
	etlTstamp        = 2
	collectorTstamp  = 3
	eventID          = 6
	userIPAddress    = 13
	pageTitle        = 30
	dvceSentTstamp   = 119
	derivedContexts  = 122
	eventFingerprint = 129

	columns = 131
)

// enrich is a stand-in for trackers, the collector and Enrich: the enriched events of a number of page views, with what
// goes wrong on the way.
//
//   - Every third tracker gets no answer and sends the event again, from another network.
//   - Every seventh event is enriched again, after Enrich stopped before its checkpoint.
//   - Every tenth event has a copy from a robot that has its id and another page: an event of its own.
//   - Every fifth event has no fingerprint: that enrichment was off.
//   - One event is cut.
func enrich(views int) (stream []string) {
	start := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for i := range views {
		v := view{
			id:      uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)).String(),
			title:   fmt.Sprintf("Page %d", i),
			printed: i%5 != 0,
			sent:    start.Add(time.Duration(i) * time.Second),
			address: "203.0.113.7",
		}
		stream = append(stream, v.enriched(v.sent.Add(time.Second)))
		if i%3 == 0 {
			again := v
			again.sent, again.address = v.sent.Add(time.Minute), "198.51.100.9"
			stream = append(stream, again.enriched(again.sent.Add(time.Second)))
		}
		if i%7 == 0 {
			stream = append(stream, v.enriched(v.sent.Add(time.Hour)))
		}
		if i%10 == 0 {
			robot := v
			robot.title = "Another page"
			stream = append(stream, robot.enriched(v.sent.Add(time.Second)))
		}
	}
	return append(stream, stream[0][:100])
}

// view is a page view as a tracker sends it.
type view struct {
	id, title string
	printed   bool // Enrich makes a fingerprint
	sent      time.Time
	address   string
}

// enriched is the view as Enrich writes it at a time.
func (v view) enriched(at time.Time) string {
	const form = "2006-01-02 15:04:05.000"
	values := make([]string, columns)
	values[etlTstamp], values[collectorTstamp], values[dvceSentTstamp] = at.Format(form), v.sent.Format(form), v.sent.Format(form)
	values[eventID], values[pageTitle], values[userIPAddress] = v.id, v.title, v.address
	if v.printed {
		sum := md5.Sum([]byte(v.title)) // Enrich hashes the parameters of the request, without its time
		values[eventFingerprint] = hex.EncodeToString(sum[:])
	}
	return strings.Join(values, "\t")
}
