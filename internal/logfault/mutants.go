package logfault

import (
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// mutant breaks a rule of the storage.
type mutant struct {
	name string
	// append is the effect of an Append.
	append func(s *store, at logledger.Place, data []byte, purgeAt int64) (existing []byte)
	// lostIsDone takes each append that failed for one that is done.
	lostIsDone bool
	// read changes an answer.
	read func(from logledger.Place, items []logledger.Item) []logledger.Item
	// after runs after items were deleted.
	after func(s *store, now time.Time, deleted func() bool)
}

// mutants are the rules that lie in the storage, broken. Those inside the ledger are in mutants_test.go, as changes of
// its source.
var mutants = []mutant{
	{name: "plain-put", append: plainPut},
	{name: "lost-reply-is-success", lostIsDone: true},
	{name: "old-decision-put-again", append: putAgain},
	{name: "gap-in-a-page-skipped", read: skipGaps},
	{name: "no-seal", append: overTheSeal},
	{name: "chain-rows-deleted", after: deleteChain},
	{name: "purge-without-horizon", append: purgedEarlier(func(e logledger.Epoch) time.Duration { return e.Horizon })},
	{name: "purge-without-window", append: purgedEarlier(func(e logledger.Epoch) time.Duration { return e.Window })},
}

// plainPut puts an item, whatever is there.
func plainPut(s *store, at logledger.Place, data []byte, purgeAt int64) []byte {
	s.put(s.cell(at), data, purgeAt)
	return nil
}

// putAgain puts a decision at the next free place, although others were put before.
func putAgain(s *store, at logledger.Place, data []byte, purgeAt int64) []byte {
	for s.append(at, data, purgeAt) != nil {
		at.Index++
	}
	return nil
}

// skipGaps lets the items of an answer follow one another.
func skipGaps(from logledger.Place, items []logledger.Item) []logledger.Item {
	for n := range items {
		items[n].Index = from.Index + n
	}
	return items
}

// overTheSeal appends to an epoch that is sealed, where nobody reads it who has read the seal.
func overTheSeal(s *store, at logledger.Place, data []byte, purgeAt int64) []byte {
	existing := s.append(at, data, purgeAt)
	if existing != nil && isSeal(existing) {
		return nil
	}
	return existing
}

// deleteChain deletes the chain rows of epochs that are past their purge time.
func deleteChain(s *store, now time.Time, deleted func() bool) {
	for n := range s.lanes {
		for i := range s.lanes[n].chain {
			if row := &s.lanes[n].chain[i]; row.there && row.PurgeAt() < now.Unix() && deleted() {
				row.deleted = true
			}
		}
	}
}

// purgedEarlier puts items with an earlier purge time.
func purgedEarlier(by func(logledger.Epoch) time.Duration) func(*store, logledger.Place, []byte, int64) []byte {
	return func(s *store, at logledger.Place, data []byte, purgeAt int64) []byte {
		e := s.lanes[at.Lane].chain[at.Epoch].Epoch
		return s.append(at, data, purgeAt-int64(by(e)/time.Second))
	}
}
