package itembankfault

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// halfVisible is an engine whose transactions become visible row by row, in a random order. DynamoDB permits this
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-isolation):
//
//   - A plain read shows a row of a running transaction as it was before or as it is after.
//     Two reads may show two rows of one transaction at different stages, in either order.
//   - A transaction, and an isolated read, conflict with a row that another transaction has
//     not made visible yet. A row that is visible is free for the next transaction.
//   - After the reply of a transaction, all its rows are visible.
//   - A transaction that is cancelled is never visible.
//   - An eventually consistent read may show the row as it was up to a second ago.
//
// It works in a synctest bubble, over an engine in memory. The delays and conflicts of a call depend only on the seed
// and on the calls before it. So a run can be repeated.
type halfVisible struct {
	engine.Store // the rows as they are once all transactions are visible
	seed         uint64
	way          time.Duration // the longest time that a request or a reply takes
	spread       time.Duration // the longest time between the moments when two rows become visible

	mu    sync.Mutex
	rows  map[rowKey]row // the rows of running transactions, as plain reads see them
	older map[rowKey]olderRow
	calls map[string]int // the number of calls, by method and arguments
}

// rowKey is the key of a row. space is the campaign of an item or the scope of a claim.
type rowKey struct {
	kind  rowKind
	space string
	shard int
	id    string
}

type rowKind string

const (
	bankRow  rowKind = "bank"
	itemRow  rowKind = "item"
	claimRow rowKind = "claim"
)

// row is a row of any kind. It is absent if all fields are nil.
type row struct {
	free  *engine.FreeItem
	item  *engine.ItemRow
	claim *engine.Claim
}

// olderRow is the state of a row before a transaction changed it.
type olderRow struct {
	row
	until time.Time
}

// staleFor is how long an eventually consistent read may show the older state of a row.
const staleFor = time.Second

func newHalfVisible(store engine.Store, seed uint64, way, spread time.Duration) *halfVisible {
	return &halfVisible{
		Store: store, seed: seed, way: way, spread: spread,
		rows: map[rowKey]row{}, older: map[rowKey]olderRow{}, calls: map[string]int{},
	}
}

func bankKey(i engine.FreeItem) rowKey {
	return rowKey{bankRow, i.Shard.Campaign, i.Shard.Number, i.Hash.String()}
}

func itemKey(campaign string, h engine.Hash) rowKey { return rowKey{itemRow, campaign, 0, h.String()} }

func claimKey(k engine.ClaimKey) rowKey { return rowKey{claimRow, k.Scope, 0, claimID(k)} }

func claimID(k engine.ClaimKey) string { return fmt.Sprintf("%s #%d", k.Claimant, k.Slot) }

// claim returns the key of a claim.
func (k rowKey) claim() engine.ClaimKey {
	claimant, slot, _ := strings.Cut(k.id, " #")
	n, err := strconv.Atoi(slot)
	neverFails(err)
	return engine.ClaimKey{Scope: k.space, Claimant: claimant, Slot: n}
}

// random returns the random source for one call. It does not depend on the order of calls at one moment. It leaves
// out the names of campaigns and scopes, because each run has its own names.
func (h *halfVisible) random(method string, arguments ...any) *rand.Rand {
	call := method + fmt.Sprint(arguments...)
	h.mu.Lock()
	h.calls[call]++
	n := h.calls[call]
	h.mu.Unlock()
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, call, " ", n)
	return rand.New(rand.NewPCG(h.seed, sum.Sum64()))
}

// travel waits as long as a request or a reply takes, or until ctx ends.
func (h *halfVisible) travel(ctx context.Context, r *rand.Rand) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(r.Int64N(int64(h.way)))):
		return nil
	}
}

// oneStep makes a call that takes effect in one step: a read, or the write of a single row that no transaction
// writes.
func oneStep[R any](ctx context.Context, h *halfVisible, r *rand.Rand, do func() (R, error)) (R, error) {
	var none R
	if err := h.travel(ctx, r); err != nil {
		return none, err
	}
	h.mu.Lock()
	result, err := do()
	h.mu.Unlock()
	if err != nil {
		return none, err
	}
	return result, h.travel(ctx, r)
}

// transaction is a transaction that is about to run.
type transaction struct {
	*halfVisible
	random *rand.Rand
	keys   []rowKey
}

// lock locks the rows of the transaction. If another transaction works on one of the rows, lock locks nothing and
// calls refused with the busy rows. The lock of a row ends when the row is visible.
func (t transaction) lock(ctx context.Context, refused func(busy map[rowKey]bool)) (locked bool, err error) {
	if err := t.travel(ctx, t.random); err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	busy := map[rowKey]bool{}
	for _, k := range t.keys {
		if _, running := t.rows[k]; running {
			busy[k] = true
		}
	}
	if len(busy) > 0 {
		refused(busy)
		return false, nil
	}
	for _, k := range t.keys {
		t.rows[k] = t.committed(k)
	}
	return true, nil
}

// run runs the transaction after its rows are locked. commit reports whether it wrote anything. The end of the
// caller's context no longer stops it.
func (t transaction) run(commit func() (bool, error)) error {
	time.Sleep(time.Duration(t.random.Int64N(int64(t.way))))
	done, err := commit()
	if err != nil || !done {
		t.mu.Lock()
		for _, k := range t.keys {
			delete(t.rows, k)
		}
		t.mu.Unlock()
	} else {
		keys := slices.Clone(t.keys)
		t.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, k := range keys {
			time.Sleep(time.Duration(t.random.Int64N(int64(t.spread))))
			t.mu.Lock()
			t.older[k] = olderRow{t.rows[k], time.Now()}
			delete(t.rows, k)
			t.mu.Unlock()
		}
	}
	time.Sleep(time.Duration(t.random.Int64N(int64(t.way))))
	return err
}

// committed reads a row as it is once all transactions are visible.
func (h *halfVisible) committed(k rowKey) (r row) {
	var err error
	ctx := context.Background()
	switch k.kind {
	case claimRow:
		r.claim, _, err = h.Store.HeldClaim(ctx, k.claim(), engine.Strong)
	case itemRow:
		var hash engine.Hash
		if hash, err = engine.ParseHash(k.id); err == nil {
			r.item, err = h.Store.ItemRow(ctx, k.space, hash)
		}
	case bankRow:
		free := h.allFree(engine.Shard{Campaign: k.space, Number: k.shard})
		if i := slices.IndexFunc(free, func(i engine.FreeItem) bool { return i.Hash.String() == k.id }); i >= 0 {
			r.free = &free[i]
		}
	}
	neverFails(err)
	return r
}

// neverFails panics on an error, because an engine in memory fails only when the caller's context ends.
func neverFails(err error) {
	if err != nil {
		panic(err)
	}
}

// visible reads a row as a plain read sees it.
func (h *halfVisible) visible(k rowKey) row {
	if r, running := h.rows[k]; running {
		return r
	}
	return h.committed(k)
}

// allFree lists the bank rows of a shard as they are once all transactions are visible.
func (h *halfVisible) allFree(s engine.Shard) (all []engine.FreeItem) {
	const limit = 1000
	r := engine.Range{}
	for {
		page, err := h.Store.FreeItems(context.Background(), s, r, limit, engine.Strong)
		neverFails(err)
		all = append(all, page.Items...)
		if !page.More {
			return all
		}
		r.After = &all[len(all)-1].Hash
	}
}

// overlay replaces rows of a list, by their keys, with the rows that plain reads see.
func overlay[R any](h *halfVisible, kind rowKind, in rowKey, rows map[string]R, visible func(rowKey, row) *R) []R {
	for k, seen := range h.rows {
		if k.kind != kind || k.space != in.space || k.shard != in.shard {
			continue
		}
		delete(rows, k.id)
		if r := visible(k, seen); r != nil {
			rows[k.id] = *r
		}
	}
	var all []R
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		all = append(all, rows[id])
	}
	return all
}

// mostListed is the number of rows in a page of a list. It is small, so that much happens between pages.
const mostListed = 2

// listPage returns the page of a sorted list that begins after the cursor.
func listPage[R any](rows []R, cursor string, id func(R) string) (page []R, next string) {
	rows = slices.DeleteFunc(rows, func(r R) bool { return id(r) <= cursor && cursor != "" })
	if len(rows) <= mostListed {
		return rows, ""
	}
	return rows[:mostListed], id(rows[mostListed-1])
}

// Campaign implements engine.Store.
func (h *halfVisible) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	return oneStep(ctx, h, h.random("Campaign"), func() (*engine.Campaign, error) { return h.Store.Campaign(ctx, name) })
}

// ReplaceCampaign implements engine.Store.
func (h *halfVisible) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	return oneStep(ctx, h, h.random("ReplaceCampaign", now.Mode), func() (bool, error) {
		return h.Store.ReplaceCampaign(ctx, old, now)
	})
}

// FreeItems implements engine.Store.
func (h *halfVisible) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	if how == engine.Eventual {
		return h.Store.FreeItems(ctx, s, r, limit, how)
	}
	return oneStep(ctx, h, h.random("FreeItems", s.Number), func() (page engine.FreePage, err error) {
		for _, i := range h.visibleFree(s) {
			id := i.Hash.String()
			switch {
			case r.After != nil && id <= r.After.String() || r.Through != nil && id > r.Through.String():
			case len(page.Items) == limit:
				page.More = true
			default:
				page.Items = append(page.Items, i)
			}
		}
		return page, nil
	})
}

func (h *halfVisible) visibleFree(s engine.Shard) []engine.FreeItem {
	rows := map[string]engine.FreeItem{}
	for _, i := range h.allFree(s) {
		rows[i.Hash.String()] = i
	}
	in := rowKey{space: s.Campaign, shard: s.Number}
	return overlay(h, bankRow, in, rows, func(_ rowKey, r row) *engine.FreeItem { return r.free })
}

// HeldClaim implements engine.Store.
func (h *halfVisible) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	if how == engine.Eventual {
		held, err = h.staleClaim(ctx, key)
		return held, false, err
	}
	held, err = oneStep(ctx, h, h.random("HeldClaim", key.Claimant), func() (*engine.Claim, error) {
		if _, conflict = h.rows[claimKey(key)]; conflict {
			return nil, nil
		}
		held, _, err := h.Store.HeldClaim(ctx, key, how)
		return held, err
	})
	return held, conflict, err
}

func (h *halfVisible) staleClaim(ctx context.Context, key engine.ClaimKey) (*engine.Claim, error) {
	random, k := h.random("HeldClaimEventuallyConsistent", key.Claimant), claimKey(key)
	return oneStep(ctx, h, random, func() (*engine.Claim, error) {
		if old, found := h.older[k]; found && time.Since(old.until) < staleFor && random.IntN(2) == 0 {
			return old.claim, nil
		}
		return h.visible(k).claim, nil
	})
}

// ItemRow implements engine.Store.
func (h *halfVisible) ItemRow(ctx context.Context, campaign string, hash engine.Hash) (*engine.ItemRow, error) {
	return oneStep(ctx, h, h.random("ItemRow", hash), func() (*engine.ItemRow, error) {
		return h.visible(itemKey(campaign, hash)).item, nil
	})
}

// ItemRows implements engine.Store. It reads the rows one by one.
func (h *halfVisible) ItemRows(
	ctx context.Context, campaign string, hashes []engine.Hash, how engine.Consistency,
) (rows []*engine.ItemRow, err error) {
	if how == engine.Eventual {
		return h.Store.ItemRows(ctx, campaign, hashes, how)
	}
	for _, hash := range hashes {
		row, err := h.ItemRow(ctx, campaign, hash)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// ReadItems implements engine.Store.
func (h *halfVisible) ReadItems(ctx context.Context, keys []engine.FreeItem) ([]engine.ItemRead, error) {
	return oneStep(ctx, h, h.random("ReadItems", hashesOf(keys)), func() ([]engine.ItemRead, error) {
		reads, err := h.Store.ReadItems(ctx, keys)
		for i, k := range keys {
			_, itemBusy := h.rows[itemKey(k.Shard.Campaign, k.Hash)]
			_, bankBusy := h.rows[bankKey(k)]
			if err == nil && (itemBusy || bankBusy) {
				reads[i] = engine.ItemRead{Conflict: true}
			}
		}
		return reads, err
	})
}

// ListClaims implements engine.Store.
func (h *halfVisible) ListClaims(ctx context.Context, scope, cursor string) (page []engine.Claim, next string, err error) {
	page, err = oneStep(ctx, h, h.random("ListClaims", cursor), func() ([]engine.Claim, error) {
		rows := map[string]engine.Claim{}
		for inner := ""; ; {
			claims, more, err := h.Store.ListClaims(ctx, scope, inner)
			if err != nil {
				return nil, err
			}
			for _, c := range claims {
				rows[claimID(c.Key())] = c
			}
			if inner = more; inner == "" {
				break
			}
		}
		all := overlay(h, claimRow, rowKey{space: scope}, rows, func(_ rowKey, r row) *engine.Claim { return r.claim })
		var part []engine.Claim
		part, next = listPage(all, cursor, func(c engine.Claim) string { return claimID(c.Key()) })
		return part, nil
	})
	return page, next, err
}

// ListItemRows implements engine.Store.
func (h *halfVisible) ListItemRows(
	ctx context.Context, campaign, cursor string,
) (page []engine.ListedItem, next string, err error) {
	page, err = oneStep(ctx, h, h.random("ListItemRows", cursor), func() ([]engine.ListedItem, error) {
		rows := map[string]engine.ListedItem{}
		for inner := ""; ; {
			items, more, err := h.Store.ListItemRows(ctx, campaign, inner)
			if err != nil {
				return nil, err
			}
			for _, i := range items {
				rows[i.Hash.String()] = i
			}
			if inner = more; inner == "" {
				break
			}
		}
		all := overlay(h, itemRow, rowKey{space: campaign}, rows, func(k rowKey, r row) *engine.ListedItem {
			hash, err := engine.ParseHash(k.id)
			if err != nil || r.item == nil {
				return nil
			}
			return &engine.ListedItem{Hash: hash, ItemRow: *r.item}
		})
		var part []engine.ListedItem
		part, next = listPage(all, cursor, func(i engine.ListedItem) string { return i.Hash.String() })
		return part, nil
	})
	return page, next, err
}

// Take implements engine.Store.
func (h *halfVisible) Take(
	ctx context.Context, items []engine.FreeItem, claim engine.Claim,
) (result engine.TakeResult, err error) {
	claimed := claimKey(claim.Key())
	var banks []rowKey
	for _, item := range items {
		banks = append(banks, bankKey(item))
	}
	t := transaction{h, h.random("Take", claim.ItemHash, claim.Claimant), append(slices.Clone(banks), claimed)}
	locked, err := t.lock(ctx, func(busy map[rowKey]bool) {
		if result.ClaimConflict = busy[claimed]; !busy[claimed] {
			result.Held = h.committed(claimed).claim
		}
		for _, bank := range banks {
			result.ItemConflict = result.ItemConflict || busy[bank]
			result.ItemGone = result.ItemGone || !busy[bank] && h.committed(bank).free == nil
		}
	})
	if err != nil || !locked {
		return result, err
	}
	err = t.run(func() (bool, error) {
		result, err = h.Store.Take(context.WithoutCancel(ctx), items, claim)
		return result.Taken(), err
	})
	return result, err
}

// ConfirmClaim implements engine.Store. It writes a single row, and does not lock it.
func (h *halfVisible) ConfirmClaim(ctx context.Context, claim engine.Claim) (engine.ConfirmResult, error) {
	k := claimKey(claim.Key())
	return oneStep(ctx, h, h.random("ConfirmClaim", claim.Claimant), func() (engine.ConfirmResult, error) {
		if _, busy := h.rows[k]; busy {
			return engine.ConfirmResult{Conflict: true}, nil
		}
		h.older[k] = olderRow{h.committed(k), time.Now()}
		return h.Store.ConfirmClaim(ctx, claim)
	})
}

// ProlongClaim implements engine.Store. It writes a single row, and does not lock it.
func (h *halfVisible) ProlongClaim(
	ctx context.Context, claim engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	k := claimKey(claim.Key())
	return oneStep(ctx, h, h.random("ProlongClaim", claim.Claimant), func() (engine.ConfirmResult, error) {
		if _, busy := h.rows[k]; busy {
			return engine.ConfirmResult{Conflict: true}, nil
		}
		h.older[k] = olderRow{h.committed(k), time.Now()}
		return h.Store.ProlongClaim(ctx, claim, endsAt)
	})
}

// DueClaims implements engine.Store. The list may be stale, as its contract permits.
func (h *halfVisible) DueClaims(
	ctx context.Context, s engine.Shard, after, before time.Time, limit int,
) (engine.DuePage, error) {
	return oneStep(ctx, h, h.random("DueClaims", s.Number), func() (engine.DuePage, error) {
		return h.Store.DueClaims(ctx, s, after, before, limit)
	})
}

// CloseClaim implements engine.Store. A refused result names at least one of the reasons, not always all.
func (h *halfVisible) CloseClaim(ctx context.Context, r engine.CloseRequest) (result engine.CloseResult, err error) {
	claim := claimKey(r.Claim.Key())
	keys := []rowKey{claim}
	for _, item := range r.Items() {
		keys = append(keys, itemKey(r.Claim.Campaign, item.Hash))
		if item.Return != nil {
			keys = append(keys, bankKey(*item.Return))
		}
	}
	if r.NextItem != nil {
		keys = append(keys, bankKey(*r.NextItem))
	}
	t := transaction{h, h.random("CloseClaim", r.Claim.ItemHash, r.Claim.Claimant), keys}
	locked, err := t.lock(ctx, func(busy map[rowKey]bool) {
		result.Conflict = true
		held := h.committed(claim).claim
		result.ClaimChanged = !busy[claim] && (held == nil || held.ID != r.Claim.ID)
		for _, item := range r.Items() {
			k := itemKey(r.Claim.Campaign, item.Hash)
			row := h.committed(k).item
			changed := row == nil || row.State != item.Row.State || row.Withdraw != item.Row.Withdraw
			result.ItemChanged = result.ItemChanged || !busy[k] && changed
			if item.Return != nil {
				k = bankKey(*item.Return)
				result.ItemFree = result.ItemFree || !busy[k] && h.committed(k).free != nil
			}
		}
		if r.NextItem != nil {
			k := bankKey(*r.NextItem)
			result.ItemGone = !busy[k] && h.committed(k).free == nil
		}
	})
	if err == nil && locked {
		err = t.run(func() (bool, error) {
			result, err = h.Store.CloseClaim(context.WithoutCancel(ctx), r)
			return result.Closed(), err
		})
	}
	return someReasons(t.random, result), err
}

// someReasons keeps at least one of the reasons of a result, at random.
func someReasons(r *rand.Rand, all engine.CloseResult) engine.CloseResult {
	some := all
	for _, reason := range []*bool{&some.ClaimChanged, &some.ItemChanged, &some.ItemFree, &some.ItemGone, &some.Conflict} {
		*reason = *reason && r.IntN(2) == 0
	}
	if some.Closed() {
		return all
	}
	return some
}

// AddItems implements engine.Store. One item that cannot be added cancels the transaction.
func (h *halfVisible) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	items := make([]engine.FreeItem, len(requests))
	for i, r := range requests {
		items[i] = r.Item
	}
	settle := func(i int, item, bank *row) engine.AddResult {
		own := item != nil && isOwnRow(item.item, requests[i])
		switch {
		case own && bank == nil: // an isolated read conflicts
		case item != nil && item.item != nil:
			return engine.AddResult{Outcome: engine.AddKnown, Existing: *item.item}
		case item != nil && bank != nil && bank.free != nil:
			return engine.AddResult{Outcome: engine.AddOrphan}
		}
		return engine.AddResult{}
	}
	return batch(ctx, h, h.random("AddItems", hashesOf(items)), items, settle, func() ([]engine.AddResult, error) {
		return h.Store.AddItems(context.WithoutCancel(ctx), requests)
	})
}

// isOwnRow reports whether an item row is the one that the request wants to put.
func isOwnRow(row *engine.ItemRow, r engine.AddRequest) bool {
	return row != nil && row.LoadID == r.LoadID && row.Row == r.Row
}

// EndItems implements engine.Store. One item that cannot end cancels the transaction.
func (h *halfVisible) EndItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	items := make([]engine.FreeItem, len(requests))
	for i, r := range requests {
		items[i] = r.Item
	}
	settle := func(i int, item, bank *row) engine.EndResult {
		by := requests[i].EndedBy
		switch {
		case item == nil || bank == nil:
			return engine.EndUnsettled
		case bank.free == nil || !by.IsZero() && (bank.free.EndsAt.IsZero() || bank.free.EndsAt.After(by)):
			return engine.EndNotFree
		case item.item == nil || item.item.State != "":
			return engine.EndInconsistent
		}
		return engine.EndUnsettled
	}
	return batch(ctx, h, h.random("EndItems", hashesOf(items)), items, settle, func() ([]engine.EndResult, error) {
		return h.Store.EndItems(context.WithoutCancel(ctx), requests)
	})
}

func hashesOf(items []engine.FreeItem) (all []string) {
	for _, i := range items {
		all = append(all, i.Hash.String())
	}
	return all
}

// batch is a transaction that writes the item row and the bank row of each item. settle gets the rows of item i, with
// nil for a busy row, and returns the reason why the item cannot be written. If an item has a reason, the transaction
// writes nothing.
func batch[R comparable](
	ctx context.Context, h *halfVisible, random *rand.Rand, items []engine.FreeItem,
	settle func(i int, item, bank *row) R, commit func() ([]R, error),
) (results []R, err error) {
	var keys []rowKey
	for _, i := range items {
		keys = append(keys, itemKey(i.Shard.Campaign, i.Hash), bankKey(i))
	}
	results = make([]R, len(items))
	settleAll := func(busy map[rowKey]bool) (cancelled bool) {
		read := func(k rowKey) *row {
			if busy[k] {
				return nil
			}
			r := h.committed(k)
			return &r
		}
		var unsettled R
		for i := range items {
			results[i] = settle(i, read(keys[2*i]), read(keys[2*i+1]))
			cancelled = cancelled || results[i] != unsettled
		}
		return cancelled
	}
	t := transaction{h, random, keys}
	locked, err := t.lock(ctx, func(busy map[rowKey]bool) { settleAll(busy) })
	if err != nil || !locked {
		return results, err
	}
	err = t.run(func() (bool, error) {
		if settleAll(nil) {
			return false, nil
		}
		results, err = commit()
		return true, err
	})
	return results, err
}

// MarkWithdrawn implements engine.Store.
func (h *halfVisible) MarkWithdrawn(ctx context.Context, item engine.FreeItem) (done bool, err error) {
	keys := []rowKey{itemKey(item.Shard.Campaign, item.Hash), bankKey(item)}
	t := transaction{h, h.random("MarkWithdrawn", item.Hash), keys}
	locked, err := t.lock(ctx, func(map[rowKey]bool) {})
	if err != nil || !locked {
		return false, err
	}
	err = t.run(func() (bool, error) {
		done, err = h.Store.MarkWithdrawn(context.WithoutCancel(ctx), item)
		return done, err
	})
	return done, err
}

// Repair implements engine.Store.
func (h *halfVisible) Repair(ctx context.Context, r engine.RepairRequest) (done bool, err error) {
	var keys []rowKey
	for _, free := range []*engine.FreeItem{r.PutFree, r.DropFree} {
		if free != nil {
			keys = append(keys, bankKey(*free))
		}
	}
	if r.PutRow != nil || r.IfRow != nil {
		keys = append(keys, itemKey(r.Campaign, r.Hash))
	}
	for _, item := range r.More {
		if item.Free != nil {
			keys = append(keys, bankKey(*item.Free))
		} else {
			keys = append(keys, itemKey(r.Campaign, item.Hash))
		}
	}
	for _, claim := range []*engine.Claim{r.PutClaim, r.IfClaim} {
		if claim != nil {
			keys = append(keys, claimKey(claim.Key()))
		}
	}
	t := transaction{h, h.random("Repair", r.Hash), keys}
	locked, err := t.lock(ctx, func(map[rowKey]bool) {})
	switch {
	case err != nil:
		return false, err
	case !locked:
		return false, fmt.Errorf("%w: repair: the rows are busy", itembank.ErrTryAgain)
	}
	err = t.run(func() (bool, error) {
		done, err = h.Store.Repair(context.WithoutCancel(ctx), r)
		return done, err
	})
	return done, err
}
