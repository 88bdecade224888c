package itembank

import (
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// endGrace is how long a claim is left alone after its end. It is larger than the difference between the clocks of
// two machines. So a request that saw the claim alive has finished by then.
const endGrace = 10 * time.Second

// closable reports whether the claim ended long enough ago that any request may close it.
func closable(c engine.Claim, now time.Time) bool {
	return !c.EndsAt.IsZero() && c.EndsAt.Before(now.Add(-endGrace))
}

// hasEnded reports whether the item's life is over, so that it must not be handed out.
func hasEnded(i engine.FreeItem, now time.Time) bool {
	return !i.EndsAt.IsZero() && !i.EndsAt.After(now)
}

// splitEnded separates items that can be handed out from those that have ended.
func splitEnded(items []engine.FreeItem, now time.Time) (live, ended []engine.FreeItem) {
	for _, i := range items {
		if hasEnded(i, now) {
			ended = append(ended, i)
		} else {
			live = append(live, i)
		}
	}
	return live, ended
}

// endOf returns the end of a life that begins at start, or the zero time if life is 0: it never ends.
func endOf(start time.Time, life time.Duration) time.Time {
	if life == 0 {
		return time.Time{}
	}
	return start.Add(life)
}

// endRequests returns the requests that end items whose life ended by endedBy, or all items if endedBy is zero.
func endRequests(items []engine.FreeItem, state engine.ItemState, endedBy time.Time) []engine.EndRequest {
	requests := make([]engine.EndRequest, len(items))
	for i, item := range items {
		requests[i] = engine.EndRequest{Item: item, EndedBy: endedBy, State: state}
	}
	return requests
}
