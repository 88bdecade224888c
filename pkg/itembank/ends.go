package itembank

import (
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// endGrace is how long after its end a claim is left alone. The clocks of two
// machines differ by less. So a request that saw the claim alive is over by then.
const endGrace = 10 * time.Second

// closable reports that the claim ended long enough ago to be closed by any request.
func closable(c engine.Claim, now time.Time) bool {
	return !c.EndsAt.IsZero() && c.EndsAt.Before(now.Add(-endGrace))
}

// hasEnded reports that the item may not be handed out any more.
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

// endOf returns when something that has a life ends. A life of 0 has no end.
func endOf(start time.Time, life time.Duration) time.Time {
	if life == 0 {
		return time.Time{}
	}
	return start.Add(life)
}

// endRequests asks for the end of items that ended by a moment; zero: of all.
func endRequests(items []engine.FreeItem, state engine.ItemState, endedBy time.Time) []engine.EndRequest {
	requests := make([]engine.EndRequest, len(items))
	for i, item := range items {
		requests[i] = engine.EndRequest{Item: item, EndedBy: endedBy, State: state}
	}
	return requests
}
