package dedupe

import (
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

// Key is the key of an entry: the 128 bits that format.KeyOf makes of an id.
type Key = format.Key

// Never is the purge time of an entry or an ack that is kept for ever.
const Never int64 = 0

// Entry is a row of an engine that stores one row for each key. It says that a key was seen, and in which record.
type Entry struct {
	Scope       string // the name space of the key
	Key         Key
	Owner       Owner  // the one record that holds the entry
	Fingerprint string // tells copies of a record from other records with the same key
	Version     string // of the settings that made the fingerprint; never compared
	Arrival     time.Time
	PurgeAt     int64 // epoch seconds, or Never
	// Done says that the effect of the record is done. A TxSink stores it with the effect, and Holds.Finish after it.
	Done bool
	Hold Hold // of a message of a queue
}

// Existing is the entry that a put found. Its digests are enough to compare it with a record.
type Existing struct {
	Owner   Digest // Owner.Digest of the record that holds the entry
	Content Digest // ContentDigest of its fingerprint
	PurgeAt int64  // epoch seconds, or Never
	Done    bool   // as in Entry
	Hold    Hold   // as in Entry
}

// Existing returns the entry as a later put finds it.
func (e Entry) Existing() Existing {
	return Existing{
		Owner: e.Owner.Digest(), Content: ContentDigest(e.Fingerprint), PurgeAt: e.PurgeAt, Done: e.Done, Hold: e.Hold,
	}
}

// PurgedAt reports whether a record with this arrival may replace the entry. It is the condition of
// Entries.PutIfAbsent. Only the purge time decides: it does not matter whether the engine has already deleted the row.
func (e Existing) PurgedAt(arrival time.Time) bool {
	return e.PurgeAt != Never && time.Unix(e.PurgeAt, 0).Before(arrival)
}

// Retention says how long entries count.
type Retention struct {
	// Window is how long after the arrival of a record its copies are recognized. A copy that arrives later may be
	// recognized too.
	Window time.Duration
	// Horizon is the longest time between the arrival of a record and its processing. It must be at least the
	// stream's retention.
	Horizon time.Duration
	// ForGood keeps entries for ever. Window and Horizon are then ignored.
	ForGood bool
}

// PurgeAt returns the time from which the entry of a record no longer counts: arrival + window + horizon, in epoch
// seconds, rounded up. The window alone is not enough: a copy that arrives inside the window, but is processed late,
// would not find the entry.
func (r Retention) PurgeAt(arrival time.Time) int64 { return r.endOf(arrival, r.Window+r.Horizon) }

// purgeAckAt returns the time from which the ack of a record is useless, because the record is no longer processed.
func (r Retention) purgeAckAt(arrival time.Time) int64 { return r.endOf(arrival, r.Horizon) }

// PastHorizon reports whether a record is older than the horizon, so that entries of its copies may be purged.
func (r Retention) PastHorizon(arrival, now time.Time) bool {
	return !r.ForGood && now.Sub(arrival) > r.Horizon
}

func (r Retention) endOf(arrival time.Time, life time.Duration) int64 {
	if r.ForGood {
		return Never
	}
	end := arrival.Add(life)
	if end.Nanosecond() > 0 {
		return end.Unix() + 1
	}
	return end.Unix()
}
