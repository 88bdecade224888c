package simulated

import (
	"time"
)

// turns is how many nanoseconds a round of turns takes. Each container has one of them, in which its requests end, and
// arrivals have one. So no two containers do something at once, and a seed decides who is first.
const turns = 1 << 13

// arrival is the turn of arrivals, if there are fewer containers.
const arrival = turns - 1

// untilTurn returns the time until the first turn that comes after d.
func untilTurn(turn int, d time.Duration) time.Duration {
	late := (time.Now().UnixNano() + int64(d) - int64(turn)) % turns
	return d + time.Duration((turns-late)%turns)
}
