package logfault

import (
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/format"
)

// mutant breaks a rule of the storage.
type mutant struct {
	name string
	rare bool // finding it takes long, and the answers that callers got are enough to find it
	// append replaces the effect of an Append.
	append func(log *memlog.Log, at logledger.Place, data []byte, purgeAt int64) (existing []byte)
	// lostIsDone counts each failed append as done.
	lostIsDone bool
	// read changes an answer of a read.
	read func(from logledger.Place, items []logledger.Item) []logledger.Item
	// answer changes the answer that a caller gets.
	answer func(w *world, v *verdict)
	// after runs after items were deleted.
	after func(log *memlog.Log, now time.Time, deleted func() bool)
}

// mutants lists the broken rules of the storage. The broken rules inside the ledger are in mutants_test.go, as
// changes of its source.
var mutants = []mutant{
	{name: "plain-put", append: plainPut},
	{name: "lost-reply-is-success", lostIsDone: true},
	{name: "old-decision-put-again", append: putAgain},
	{name: "gap-in-a-page-skipped", read: skipGaps},
	{name: "no-seal", append: appendAfterSeal},
	{name: "chain-rows-deleted", after: deleteChain},
	{name: "purge-without-horizon", append: purgedEarlier(func(e logledger.Epoch) time.Duration { return e.Horizon })},
	{name: "purge-without-window", append: purgedEarlier(func(e logledger.Epoch) time.Duration { return e.Window })},
	{name: "copy-before-the-own-row", rare: true, answer: copyFirst},
}

// plainPut puts an item even if its place is taken.
func plainPut(log *memlog.Log, at logledger.Place, data []byte, purgeAt int64) []byte {
	log.Put(at, data, purgeAt)
	return nil
}

// putAgain puts a decision at the next free place, although other items were put before it.
func putAgain(log *memlog.Log, at logledger.Place, data []byte, purgeAt int64) []byte {
	for appendTo(log, at, data, purgeAt) != nil {
		at.Index++
	}
	return nil
}

// skipGaps numbers the items of an answer as if they followed one another.
func skipGaps(from logledger.Place, items []logledger.Item) []logledger.Item {
	for n := range items {
		items[n].Index = from.Index + n
	}
	return items
}

// appendAfterSeal appends to a sealed epoch, at a place that no process reads after it has read the seal.
func appendAfterSeal(log *memlog.Log, at logledger.Place, data []byte, purgeAt int64) []byte {
	existing := appendTo(log, at, data, purgeAt)
	if memlog.IsSeal(existing) {
		return nil
	}
	return existing
}

// deleteChain deletes the chain rows of epochs that are past their purge time.
func deleteChain(log *memlog.Log, now time.Time, deleted func() bool) {
	log.PurgeEpochs(scope, now.Unix(), deleted)
}

// purgedEarlier puts items with an earlier purge time.
func purgedEarlier(by func(logledger.Epoch) time.Duration) func(*memlog.Log, logledger.Place, []byte, int64) []byte {
	return func(log *memlog.Log, at logledger.Place, data []byte, purgeAt int64) []byte {
		row, _ := log.Ever().Epochs(whole, at.LaneID, at.Epoch+1, 1)
		return appendTo(log, at, data, purgeAt-int64(by(row[0])/time.Second))
	}
}

// copyFirst reports a record with a row of its own as a duplicate of a copy, unless a caller was already told to
// deliver it.
func copyFirst(w *world, v *verdict) {
	if v.Found != dedupe.Mine || len(w.deliveries(v.record)) > 0 {
		return
	}
	r := w.Records[v.record]
	entries, err := w.entries(r.Key)
	if err != nil {
		panic(err) // cannot happen: the storage never fails
	}
	if slices.ContainsFunc(entries, func(e logledger.Entry) bool {
		return !e.HasOwner(r.owner()) && e.HasContent(format.KeyOf(ids[r.Key]), r.fingerprint(v.changed)) && w.counts(e, r)
	}) {
		v.Answer = dedupe.Answer{Found: dedupe.Same}
	}
}
