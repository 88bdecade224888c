package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// RunStorage runs the cases of a storage of package logledger as parallel subtests of t. open returns the storage under
// test. It may return the same storage each time.
func RunStorage(t *testing.T, open func(*testing.T) logledger.Storage) {
	for name, test := range map[string]func(*storageFixture){
		"epochs":              storageEpochs,
		"first-put-wins":      storageFirstPutWins,
		"one-writer-wins":     storageOneWriterWins,
		"reads":               storageReads,
		"large-items":         storageLargeItems,
		"names":               storageNames,
		"purge-times":         storagePurgeTimes,
		"context-that-ended":  storageEndedContext,
		"unknown-place-empty": storageEmpty,
	} {
		t.Run("storage/"+name, func(t *testing.T) {
			t.Parallel()
			test(&storageFixture{TB: t, ctx: t.Context(), Storage: open(t), lane: logledger.LaneID{Scope: newScope(), Lane: 3}})
		})
	}
}

// storageFixture is the environment of a storage case.
type storageFixture struct {
	testing.TB
	logledger.Storage
	ctx  context.Context
	lane logledger.LaneID
}

const never = int64(4_000_000_000) // a purge time after all tests

func (f *storageFixture) at(epoch, index int) logledger.Place {
	return logledger.Place{LaneID: f.lane, Epoch: epoch, Index: index}
}

func (f *storageFixture) append(at logledger.Place, data []byte) (existing []byte) {
	f.Helper()
	existing, err := f.Append(f.ctx, at, data, never)
	if err != nil {
		f.Fatalf("append at %+v: %v", at, err)
	}
	return existing
}

// all reads from a place to the end, consistently. It returns the items and the number of calls.
func (f *storageFixture) all(from logledger.Place, limit int) (items []logledger.Item, calls int) {
	f.Helper()
	for more := true; more; {
		var page []logledger.Item
		var err error
		if page, more, err = f.Read(f.ctx, from, limit, true); err != nil {
			f.Fatalf("read from %+v: %v", from, err)
		}
		if limit > 0 && len(page) > limit {
			f.Fatalf("a read with the limit %d has returned %d items", limit, len(page))
		}
		if more && len(page) == 0 {
			f.Fatalf("a read from %+v has returned no items, but more", from)
		}
		items = append(items, page...)
		if calls++; len(page) > 0 {
			from.Index = page[len(page)-1].Index + 1
		}
	}
	return items, calls
}

func (f *storageFixture) wantItems(from logledger.Place, limit int, want ...logledger.Item) {
	f.Helper()
	got, _ := f.all(from, limit)
	same := func(a, b logledger.Item) bool { return a.Index == b.Index && bytes.Equal(a.Data, b.Data) }
	if !slices.EqualFunc(got, want, same) {
		f.Errorf("read from %+v: want %s, got %s", from, indexes(want), indexes(got))
	}
}

func indexes(items []logledger.Item) (text string) {
	for _, i := range items {
		text += fmt.Sprintf("%d(%.20q) ", i.Index, i.Data)
	}
	return text
}

// chainRow returns a chain row that differs from all others in every field.
func chainRow(number int) logledger.Epoch {
	n := int64(number)
	return logledger.Epoch{
		Number: number, Sealed: 7*number + 1, Start: -1_000_000 + 100*n, Ends: 2_500_000_000_123 + n,
		Until: 2_600_000_000_456 - n, Window: time.Hour + time.Duration(n), Horizon: 200*time.Hour + 3*time.Duration(n),
		Lanes: 8 + number, Layout: 1 + number,
	}
}

// storageEpochs: chain rows come back with all their fields, the latest first, also if numbers have different lengths.
func storageEpochs(f *storageFixture) {
	const n = 150
	for number := range n {
		if existing, err := f.PutEpoch(f.ctx, f.lane, chainRow(number)); err != nil || existing != nil {
			f.Fatalf("epoch %d: got %+v, %v", number, existing, err)
		}
	}
	for _, test := range []struct{ below, limit, first, last int }{
		{math.MaxInt32, 1, 149, 149}, {math.MaxInt32, 64, 149, 86}, {86, 64, 85, 22}, {22, 64, 21, 0}, {n, n + 1, 149, 0},
		{101, 3, 100, 98}, {11, 2, 10, 9}, {10, 1, 9, 9}, {1, 5, 0, 0}, {0, 5, -1, 0}, {math.MaxInt32, n, 149, 0},
	} {
		var want []logledger.Epoch
		for number := test.first; number >= test.last; number-- {
			want = append(want, chainRow(number))
		}
		got, err := f.Epochs(f.ctx, f.lane, test.below, test.limit)
		if err != nil || !slices.Equal(got, want) {
			f.Errorf("below %d, at most %d: want %+v, got %+v, %v", test.below, test.limit, want, got, err)
		}
	}
}

// storageFirstPutWins: an existing row stays. Every later put gets it.
func storageFirstPutWins(f *storageFixture) {
	first, second := chainRow(0), chainRow(0)
	second.Ends++
	for n, put := range []logledger.Epoch{first, second, first} {
		existing, err := f.PutEpoch(f.ctx, f.lane, put)
		if err != nil || (existing == nil) != (n == 0) || existing != nil && *existing != first {
			f.Errorf("put %d of a chain row: got %+v, %v", n, existing, err)
		}
	}
	if got, err := f.Epochs(f.ctx, f.lane, 1, 1); err != nil || len(got) != 1 || got[0] != first {
		f.Errorf("want the first chain row, got %+v, %v", got, err)
	}
	for n, data := range []string{"first", "second", "first", ""} {
		existing := f.append(f.at(0, 0), []byte(data))
		if (existing == nil) != (n == 0) || n > 0 && string(existing) != "first" {
			f.Errorf("append %d: got %q", n, existing)
		}
	}
	f.wantItems(f.at(0, 0), 0, logledger.Item{Data: []byte("first")})
}

// storageOneWriterWins: if several writers append at one place, one wins, and the others get its data.
func storageOneWriterWins(f *storageFixture) {
	const places, writers = 15, 4
	for n := range places {
		var existing [writers][]byte
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				var err error
				if existing[w], err = f.Append(f.ctx, f.at(0, n), []byte{byte(w)}, never); err != nil {
					f.Errorf("writer %d: %v", w, err)
				}
			})
		}
		all.Wait()
		winner := slices.IndexFunc(existing[:], func(e []byte) bool { return e == nil })
		if winner < 0 {
			f.Fatalf("place %d: no writer has appended: %v", n, existing)
		}
		for w, e := range existing {
			if w != winner && !bytes.Equal(e, []byte{byte(winner)}) {
				f.Errorf("place %d: writer %d has won, and writer %d got %v", n, winner, w, e)
			}
		}
		f.wantItems(f.at(0, n), 0, logledger.Item{Index: n, Data: []byte{byte(winner)}})
	}
}

// storageReads: items come in the order of their indexes, from any index on. An inconsistent read may miss some, but
// never returns wrong ones.
func storageReads(f *storageFixture) {
	const n = 120
	var all []logledger.Item
	for index := range n {
		all = append(all, logledger.Item{Index: index, Data: []byte(strconv.Itoa(index))})
	}
	for _, index := range rand.Perm(n) {
		f.append(f.at(12, index), all[index].Data)
	}
	for _, from := range []int{0, 1, 9, 10, 99, 100, 119, 120, 1000} {
		for _, limit := range []int{0, 1, 7, 200} {
			if limit == 1 && from < 99 {
				continue // too many calls
			}
			f.wantItems(f.at(12, from), limit, all[min(from, n):]...)
		}
	}
	first, more, err := f.Read(f.ctx, f.at(12, 5), 3, true)
	if err != nil || !more || len(first) != 3 {
		f.Errorf("want 3 items, and more: got %s, %t, %v", indexes(first), more, err)
	}
	some, _, err := f.Read(f.ctx, f.at(12, 5), 0, false)
	if err != nil {
		f.Fatal(err)
	}
	for i, item := range some {
		if item.Index < 5 || item.Index >= n || i > 0 && item.Index <= some[i-1].Index ||
			!bytes.Equal(item.Data, all[item.Index].Data) {
			f.Errorf("an inconsistent read has returned %s", indexes(some))
			break
		}
	}
}

// mostData is the size of the largest data. DynamoDB takes 400 KB with names and keys.
const mostData = 400<<10 - 512

// storageLargeItems: data of 400 KB comes back exactly, with more items than one answer takes, and from a conflict.
func storageLargeItems(f *storageFixture) {
	random := rand.NewChaCha8([32]byte{1})
	var all []logledger.Item
	for n := range 6 {
		data := make([]byte, mostData)
		_, _ = random.Read(data) // never fails
		all = append(all, logledger.Item{Index: n, Data: data})
		f.append(f.at(0, n), data)
	}
	f.wantItems(f.at(0, 0), 0, all...)
	f.wantItems(f.at(0, 1), 4, all[1:]...)
	if existing := f.append(f.at(0, 2), []byte("late")); !bytes.Equal(existing, all[2].Data) {
		f.Errorf("a conflict has returned %d other bytes", len(existing))
	}
}

// storageNames: no scope, lane or epoch has the rows of another one, whatever the names of the scopes are.
func storageNames(f *storageFixture) {
	base := f.lane.Scope
	type name struct {
		logledger.LaneID
		epoch int
	}
	var names []name
	for _, scope := range []string{
		base, base + "#1", base + "#1#1", base + "#1.1", base + "%231", base + ".1", base + "#", "#" + base, base + " ä/\"",
		"arn:aws:kinesis:eu-central-1:123456789012:stream/" + base,
	} {
		for _, n := range [][2]int{{1, 1}, {1, 11}, {11, 1}} {
			names = append(names, name{logledger.LaneID{Scope: scope, Lane: n[0]}, n[1]})
		}
	}
	for n, of := range names {
		f.append(logledger.Place{LaneID: of.LaneID, Epoch: of.epoch, Index: 1}, []byte(fmt.Sprint("item ", n)))
	}
	chains := slices.Compact(slices.Collect(func(yield func(logledger.LaneID) bool) {
		for _, of := range names {
			if !yield(of.LaneID) {
				return
			}
		}
	}))
	for n, lane := range chains {
		e := chainRow(0)
		e.Sealed = n
		if existing, err := f.PutEpoch(f.ctx, lane, e); err != nil || existing != nil {
			f.Errorf("the chain of %+v: got %+v, %v", lane, existing, err)
		}
	}
	for n, of := range names {
		item := logledger.Item{Index: 1, Data: []byte(fmt.Sprint("item ", n))}
		f.wantItems(logledger.Place{LaneID: of.LaneID, Epoch: of.epoch}, 0, item)
	}
	for n, lane := range chains {
		got, err := f.Epochs(f.ctx, lane, 100, 100)
		if err != nil || len(got) != 1 || got[0].Sealed != n {
			f.Errorf("the chain of %+v: got %+v, %v", lane, got, err)
		}
	}
}

// storagePurgeTimes: an item that is past its purge time keeps its place, and is read, until it is deleted. (DynamoDB
// does not delete rows that are past their purge time by more than five years.)
func storagePurgeTimes(f *storageFixture) {
	for n := range 3 {
		if existing, err := f.Append(f.ctx, f.at(0, n), []byte{byte(n)}, int64(1+n)); err != nil || existing != nil {
			f.Fatalf("append %d: got %v, %v", n, existing, err)
		}
	}
	if existing := f.append(f.at(0, 1), []byte("late")); !bytes.Equal(existing, []byte{1}) {
		f.Errorf("the place of an item that is past its purge time: got %v", existing)
	}
	f.wantItems(f.at(0, 1), 0, logledger.Item{Index: 1, Data: []byte{1}}, logledger.Item{Index: 2, Data: []byte{2}})
}

// storageEndedContext: after its context has ended, a call has no effect, and returns the context's error.
func storageEndedContext(f *storageFixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, epochs := f.Epochs(ctx, f.lane, 1, 1)
	_, put := f.PutEpoch(ctx, f.lane, chainRow(0))
	_, appended := f.Append(ctx, f.at(0, 0), []byte("x"), never)
	_, _, read := f.Read(ctx, f.at(0, 0), 0, true)
	for name, err := range map[string]error{"Epochs": epochs, "PutEpoch": put, "Append": appended, "Read": read} {
		if !errors.Is(err, context.Canceled) {
			f.Errorf("%s: want %v, got %v", name, context.Canceled, err)
		}
	}
	storageEmpty(f)
}

// storageEmpty: reads of a lane without rows return nothing and no error.
func storageEmpty(f *storageFixture) {
	if epochs, err := f.Epochs(f.ctx, f.lane, math.MaxInt32, 64); err != nil || len(epochs) > 0 {
		f.Errorf("got epochs %+v, %v", epochs, err)
	}
	if items, more, err := f.Read(f.ctx, f.at(0, 0), 0, false); err != nil || more || len(items) > 0 {
		f.Errorf("got items %s, %t, %v", indexes(items), more, err)
	}
}
