package simulated

import (
	"time"
)

// turns is the number of nanoseconds in a round of turns. Each container has one turn, in which its requests end, and
// arrivals have one. So no two containers act at the same time, and the seed decides which is first.
const turns = 1 << 13

// arrival is the turn of arrivals, if there are fewer containers.
const arrival = turns - 1

// untilTurn returns the time until the first turn that comes after d.
func untilTurn(turn int, d time.Duration) time.Duration {
	late := (time.Now().UnixNano() + int64(d) - int64(turn)) % turns
	return d + time.Duration((turns-late)%turns)
}
