package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// listPage is the number of rows in a page of a list.
const listPage = 1000

// Items is an engine.Store in memory. It is safe for concurrent use. Make one with
// NewItems.
type Items struct {
	mu        sync.Mutex
	campaigns map[string]engine.Campaign
	scopes    map[string]engine.Scope
	banks     map[engine.Shard]*bank
	rows      map[string]map[engine.Hash]engine.ItemRow // the item rows, by campaign and hash
	claims    map[string]map[string]claimRow            // the claims, by scope and sortKey
	loads     map[string]map[string][]engine.Load       // the loads, by campaign and digest, in the order of their numbers
	pages     map[string][]byte                         // the claim pages, by campaign
}

var _ engine.Store = (*Items)(nil)

// NewItems returns an empty store.
func NewItems() *Items {
	return &Items{
		campaigns: map[string]engine.Campaign{},
		scopes:    map[string]engine.Scope{},
		banks:     map[engine.Shard]*bank{},
		rows:      map[string]map[engine.Hash]engine.ItemRow{},
		claims:    map[string]map[string]claimRow{},
		loads:     map[string]map[string][]engine.Load{},
		pages:     map[string][]byte{},
	}
}

// begin locks the store, unless the caller's context has ended.
func (s *Items) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	return nil
}

// CreateCampaign implements engine.Store.
func (s *Items) CreateCampaign(ctx context.Context, c engine.Campaign) (result engine.CreateResult, err error) {
	if err := s.begin(ctx); err != nil {
		return result, err
	}
	defer s.mu.Unlock()
	if there := lookUp(s.campaigns, c.Name); there != nil && !there.CanBecome(c) {
		result.Existing = there
	}
	scope := c.ScopeRow()
	if there := lookUp(s.scopes, scope.Name); there != nil && *there != scope {
		result.Scope = there
	}
	if result.Created() {
		s.campaigns[c.Name], s.scopes[scope.Name] = c, scope
	}
	return result, nil
}

// Campaign implements engine.Store.
func (s *Items) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return lookUp(s.campaigns, name), nil
}

// Campaigns implements engine.Store.
func (s *Items) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := slices.SortedFunc(maps.Values(s.campaigns), func(a, b engine.Campaign) int { return cmp.Compare(a.Name, b.Name) })
	return slices.DeleteFunc(all, func(c engine.Campaign) bool { return c.Mode == engine.Deleted }), nil
}

// ReplaceCampaign implements engine.Store.
func (s *Items) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (replaced bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	c, found := s.campaigns[now.Name]
	if !found || c.Version != old.Version || c.EmptyVersion != old.EmptyVersion {
		return false, nil
	}
	s.campaigns[now.Name] = now
	if now.Mode == engine.Deleted {
		delete(s.pages, now.Name)
	}
	return true, nil
}

// NextVersion implements engine.Store.
func (s *Items) NextVersion(ctx context.Context, campaign string) (*engine.Campaign, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	c, found := s.campaigns[campaign]
	if !found {
		return nil, nil
	}
	c.Version++
	s.campaigns[campaign] = c
	return &c, nil
}

// MarkEmpty implements engine.Store.
func (s *Items) MarkEmpty(ctx context.Context, campaign string, version int64) (marked bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	c, found := s.campaigns[campaign]
	if !found || c.Version != version {
		return false, nil
	}
	c.EmptyVersion = version
	s.campaigns[campaign] = c
	return true, nil
}

// FreeItems implements engine.Store. FreePage.More is exact.
func (s *Items) FreeItems(
	ctx context.Context, shard engine.Shard, r engine.Range, limit int, _ engine.Consistency,
) (engine.FreePage, error) {
	if err := s.begin(ctx); err != nil {
		return engine.FreePage{}, err
	}
	defer s.mu.Unlock()
	b, found := s.banks[shard]
	if !found {
		return engine.FreePage{}, nil
	}
	return b.page(r, limit), nil
}

// Take implements engine.Store.
func (s *Items) Take(ctx context.Context, items []engine.FreeItem, claim engine.Claim) (engine.TakeResult, error) {
	if err := s.begin(ctx); err != nil {
		return engine.TakeResult{}, err
	}
	defer s.mu.Unlock()
	result := engine.TakeResult{Held: s.held(claim.Key())}
	for _, item := range items {
		result.ItemGone = result.ItemGone || !s.available(item, claim.ClaimedAt)
	}
	if result.Taken() {
		for _, item := range items {
			s.banks[item.Shard].remove(item.Hash)
		}
		s.putClaim(claimRow{claim, shardOfFirst(items)})
	}
	return result, nil
}

// shardOfFirst returns the shard of a claim's first item, or 0 for a block, which has no item.
func shardOfFirst(items []engine.FreeItem) int {
	if len(items) == 0 {
		return 0
	}
	return items[0].Shard.Number
}

// ServerTime implements engine.Store. It returns no time, because the store has no clock.
func (s *Items) ServerTime() time.Time { return time.Time{} }

// HeldClaim implements engine.Store. Transactions never overlap, so there is no conflict.
func (s *Items) HeldClaim(
	ctx context.Context, key engine.ClaimKey, _ engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	if err := s.begin(ctx); err != nil {
		return nil, false, err
	}
	defer s.mu.Unlock()
	return s.held(key), false, nil
}

// CloseClaim implements engine.Store. The result names all conditions that failed.
func (s *Items) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if err := s.begin(ctx); err != nil {
		return engine.CloseResult{}, err
	}
	defer s.mu.Unlock()
	claim := r.Claim
	held := s.held(claim.Key())
	result := engine.CloseResult{
		ClaimChanged: held == nil || held.ID != claim.ID || r.IfHold && held.EndsAt.IsZero() || !r.EndedBy.IsZero() && !endsBefore(*held, r.EndedBy) ||
			r.NextItem != nil && !held.EndsAt.Equal(claim.EndsAt),
		ItemGone: r.NextItem != nil && !s.available(*r.NextItem, r.Next.ClaimedAt),
	}
	for _, item := range r.Items() {
		row, hasRow := s.rows[claim.Campaign][item.Hash]
		result.ItemChanged = result.ItemChanged || !hasRow || row.State != item.Row.State || row.Withdraw != item.Row.Withdraw
		result.ItemFree = result.ItemFree || item.Return != nil && s.freeItem(*item.Return) != nil
	}
	if !result.Closed() {
		return result, nil
	}
	delete(s.claims[claim.Scope], sortKey(claim.Key()))
	if r.Next != nil {
		s.putClaim(claimRow{*r.Next, s.takeFree(r.NextItem)})
	}
	for _, item := range r.Items() {
		row := s.rows[claim.Campaign][item.Hash]
		if item.Return != nil {
			row.Returns++
			s.addFree(*item.Return)
		} else {
			row.State = item.State
		}
		put(s.rows, claim.Campaign, item.Hash, row)
	}
	return result, nil
}

// ItemRow implements engine.Store.
func (s *Items) ItemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return lookUp(s.rows[campaign], h), nil
}

// ItemRows implements engine.Store. It reads all rows at one moment.
func (s *Items) ItemRows(
	ctx context.Context, campaign string, hashes []engine.Hash, _ engine.Consistency,
) ([]*engine.ItemRow, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	rows := make([]*engine.ItemRow, len(hashes))
	for i, h := range hashes {
		rows[i] = lookUp(s.rows[campaign], h)
	}
	return rows, nil
}

// ReadItems implements engine.Store. Transactions never overlap, so there is no conflict.
func (s *Items) ReadItems(ctx context.Context, keys []engine.FreeItem) ([]engine.ItemRead, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	reads := make([]engine.ItemRead, len(keys))
	for i, key := range keys {
		reads[i] = engine.ItemRead{Row: lookUp(s.rows[key.Shard.Campaign], key.Hash), Free: s.freeItem(key)}
	}
	return reads, nil
}

// AddItems implements engine.Store. It always gives every request a result.
func (s *Items) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]engine.AddResult, len(requests))
	for i, r := range requests {
		results[i] = s.add(r)
	}
	return results, nil
}

func (s *Items) add(r engine.AddRequest) engine.AddResult {
	campaign := r.Item.Shard.Campaign
	if existing, known := s.rows[campaign][r.Item.Hash]; known {
		return engine.AddResult{Outcome: engine.AddKnown, Existing: existing}
	}
	if s.freeItem(r.Item) != nil {
		return engine.AddResult{Outcome: engine.AddOrphan}
	}
	s.addFree(r.Item)
	put(s.rows, campaign, r.Item.Hash, engine.ItemRow{
		LoadID: r.LoadID, Row: r.Row, EndsAt: r.Item.EndsAt, Columns: r.Columns,
	})
	return engine.AddResult{Outcome: engine.AddDone}
}

// EndItems implements engine.Store. It always gives every request a result.
func (s *Items) EndItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]engine.EndResult, len(requests))
	for i, r := range requests {
		results[i] = s.end(r)
	}
	return results, nil
}

func (s *Items) end(r engine.EndRequest) engine.EndResult {
	campaign, hash := r.Item.Shard.Campaign, r.Item.Hash
	free := s.freeItem(r.Item)
	if free == nil || !r.EndedBy.IsZero() && !endedBy(*free, r.EndedBy) {
		return engine.EndNotFree
	}
	row, found := s.rows[campaign][hash]
	if !found || row.State != "" {
		return engine.EndInconsistent
	}
	row.State = r.State
	put(s.rows, campaign, hash, row)
	s.banks[r.Item.Shard].remove(hash)
	return engine.EndDone
}

// MarkWithdrawn implements engine.Store.
func (s *Items) MarkWithdrawn(ctx context.Context, item engine.FreeItem) (done bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	row, found := s.rows[item.Shard.Campaign][item.Hash]
	if !found || row.State != "" || s.freeItem(item) != nil {
		return false, nil
	}
	row.Withdraw = true
	put(s.rows, item.Shard.Campaign, item.Hash, row)
	return true, nil
}

// Loads implements engine.Store.
func (s *Items) Loads(ctx context.Context, campaign string) (some bool, unfinished []engine.Load, err error) {
	if err := s.begin(ctx); err != nil {
		return false, nil, err
	}
	defer s.mu.Unlock()
	for _, digest := range slices.Sorted(maps.Keys(s.loads[campaign])) {
		some = true
		for _, l := range s.loads[campaign][digest] {
			if !l.Finished {
				unfinished = append(unfinished, l)
			}
		}
	}
	return some, unfinished, nil
}

// LatestLoad implements engine.Store.
func (s *Items) LatestLoad(ctx context.Context, campaign, digest string) (*engine.Load, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	loads := s.loads[campaign][digest]
	if len(loads) == 0 {
		return nil, nil
	}
	latest := loads[len(loads)-1]
	return &latest, nil
}

// StartLoad implements engine.Store. There is never a conflict.
func (s *Items) StartLoad(ctx context.Context, l engine.Load, first bool) (started, conflict bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, false, err
	}
	defer s.mu.Unlock()
	if !first {
		return s.startLoad(l), false, nil
	}
	c, found := s.campaigns[l.Campaign]
	if !found || c.Mode == engine.Deleted || !s.startLoad(l) {
		return false, false, nil
	}
	c.Version++
	s.campaigns[l.Campaign] = c
	return true, false, nil
}

func (s *Items) startLoad(l engine.Load) (started bool) {
	loads := s.loads[l.Campaign][l.Digest]
	place, taken := findLoad(loads, l.Number)
	if taken {
		return false
	}
	put(s.loads, l.Campaign, l.Digest, slices.Insert(loads, place, l))
	return true
}

// UpdateLoad implements engine.Store. For progress of a load that was never started it returns an error of the family
// engine.ErrInconsistent.
func (s *Items) UpdateLoad(ctx context.Context, l engine.Load) (refused bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	loads := s.loads[l.Campaign][l.Digest]
	place, started := findLoad(loads, l.Number)
	if l.GivenUp {
		if !started || loads[place].Finished {
			return true, nil
		}
		loads[place].GivenUp, loads[place].Finished = true, l.Finished
		return false, nil
	}
	if !started {
		return false, fmt.Errorf("%w: load %s was never started", engine.ErrInconsistent, l.ID())
	}
	row := &loads[place]
	if !row.GivenUp && l.Tally.Rows >= row.Tally.Rows {
		row.Tally = l.Tally
		row.Finished = row.Finished || l.Finished
	}
	return row.GivenUp, nil
}

func findLoad(loads []engine.Load, number int) (place int, found bool) {
	return slices.BinarySearchFunc(loads, number, func(l engine.Load, number int) int { return cmp.Compare(l.Number, number) })
}

// ListClaims implements engine.Store. It lists by sortKey. The cursor is the last key of a page.
func (s *Items) ListClaims(ctx context.Context, scope, cursor string) (claims []engine.Claim, next string, err error) {
	if err := s.begin(ctx); err != nil {
		return nil, "", err
	}
	defer s.mu.Unlock()
	page, more := pageAfter(slices.Sorted(maps.Keys(s.claims[scope])), cursor)
	for _, key := range page {
		claims = append(claims, s.claims[scope][key].Claim)
	}
	if more {
		next = page[len(page)-1]
	}
	return claims, next, nil
}

// ListItemRows implements engine.Store. It lists by hash. The cursor is the last hash of a page.
func (s *Items) ListItemRows(ctx context.Context, campaign, cursor string) (rows []engine.ListedItem, next string, err error) {
	if err := s.begin(ctx); err != nil {
		return nil, "", err
	}
	defer s.mu.Unlock()
	var hashes []string
	for h := range s.rows[campaign] {
		hashes = append(hashes, string(h[:]))
	}
	slices.Sort(hashes)
	page, more := pageAfter(hashes, cursor)
	for _, h := range page {
		hash := engine.Hash([]byte(h))
		rows = append(rows, engine.ListedItem{Hash: hash, ItemRow: s.rows[campaign][hash]})
	}
	if more {
		next = page[len(page)-1]
	}
	return rows, next, nil
}

// pageAfter returns the page of sorted keys that begins after the cursor.
func pageAfter(keys []string, cursor string) (page []string, more bool) {
	place, found := slices.BinarySearch(keys, cursor)
	if found {
		place++
	}
	keys = keys[place:]
	if len(keys) <= listPage {
		return keys, false
	}
	return keys[:listPage], true
}

// Counts implements engine.Store.
func (s *Items) Counts(ctx context.Context, c engine.Campaign, _ engine.Consistency) (counts engine.Counts, err error) {
	if err := s.begin(ctx); err != nil {
		return counts, err
	}
	defer s.mu.Unlock()
	for _, row := range s.rows[c.Name] {
		counts.Loaded++
		if row.State != "" {
			counts.Ended++
		}
	}
	for shard, b := range s.banks {
		if shard.Campaign == c.Name {
			counts.Free += int64(len(b.items))
		}
	}
	for _, claim := range s.claims[c.Scope] {
		if claim.Campaign == c.Name {
			counts.Claimed += int64(len(claim.Hashes()))
		}
	}
	return counts, nil
}

// Repair implements engine.Store.
func (s *Items) Repair(ctx context.Context, r engine.RepairRequest) (done bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if !s.holds(r) {
		return false, nil
	}
	return s.change(r), nil
}

// holds reports whether the condition of a repair is met.
func (s *Items) holds(r engine.RepairRequest) bool {
	switch {
	case r.IfRow != nil:
		row, found := s.rows[r.Campaign][r.Hash]
		return found && row.State == r.IfRow.State && row.Returns == r.IfRow.Returns && row.Withdraw == r.IfRow.Withdraw
	case r.IfClaim == nil: // PutRow has a condition of its own
		return true
	default:
		held := s.held(r.IfClaim.Key())
		return held != nil && held.ID == r.IfClaim.ID
	}
}

// change makes the change of a repair, unless it is already made.
func (s *Items) change(r engine.RepairRequest) (done bool) {
	switch {
	case r.PutFree != nil:
		if s.freeItem(*r.PutFree) != nil {
			return false
		}
		s.addFree(*r.PutFree)
		s.countReturn(r)
	case r.PutClaim != nil:
		if s.held(r.PutClaim.Key()) != nil {
			return false
		}
		for _, item := range r.More {
			if item.Free != nil && s.freeItem(*item.Free) == nil || item.Free == nil && !s.holds(otherItem(r, item)) {
				return false
			}
		}
		for _, item := range r.More {
			if item.Free != nil {
				s.banks[item.Free.Shard].remove(item.Hash)
				continue
			}
			s.countReturn(otherItem(r, item))
		}
		s.putClaim(claimRow{*r.PutClaim, r.Shard.Number})
		s.countReturn(r)
	case r.DropFree != nil:
		if s.freeItem(*r.DropFree) == nil {
			return false
		}
		s.banks[r.DropFree.Shard].remove(r.DropFree.Hash)
	case r.PutRow != nil:
		if _, found := s.rows[r.Campaign][r.Hash]; found {
			return false
		}
		put(s.rows, r.Campaign, r.Hash, *r.PutRow)
	default:
		row := s.rows[r.Campaign][r.Hash]
		row.State = r.End
		put(s.rows, r.Campaign, r.Hash, row)
	}
	return true
}

// otherItem returns the repair for another item of the same claim.
func otherItem(r engine.RepairRequest, item engine.RepairItem) engine.RepairRequest {
	r.Hash, r.IfRow = item.Hash, item.IfRow
	return r
}

// countReturn counts a return in the item row of a repair, and deletes the row's state.
func (s *Items) countReturn(r engine.RepairRequest) {
	if r.IfRow != nil {
		row := s.rows[r.Campaign][r.Hash]
		row.Returns++
		row.State = ""
		put(s.rows, r.Campaign, r.Hash, row)
	}
}

// freeItem returns the bank row with a key, or nil if it is absent.
func (s *Items) freeItem(key engine.FreeItem) *engine.FreeItem {
	b, found := s.banks[key.Shard]
	if !found {
		return nil
	}
	return b.item(key.Hash)
}

// available reports whether an item is free and has not ended at time t.
func (s *Items) available(key engine.FreeItem, t time.Time) bool {
	free := s.freeItem(key)
	return free != nil && !endedBy(*free, t)
}

// takeFree removes the item of a claim from the bank, and returns its shard. A block has no item: then the shard is 0.
func (s *Items) takeFree(item *engine.FreeItem) (shard int) {
	if item == nil {
		return 0
	}
	s.banks[item.Shard].remove(item.Hash)
	return item.Shard.Number
}

func (s *Items) addFree(item engine.FreeItem) {
	b, found := s.banks[item.Shard]
	if !found {
		b = &bank{shard: item.Shard, items: map[engine.Hash]bankRow{}}
		s.banks[item.Shard] = b
	}
	b.add(item)
}

// endedBy reports whether a free item has ended at time t.
func endedBy(i engine.FreeItem, t time.Time) bool { return !i.EndsAt.IsZero() && !i.EndsAt.After(t) }

// lookUp returns a copy of a row, or nil if it is absent.
func lookUp[K comparable, R any](rows map[K]R, key K) *R {
	row, found := rows[key]
	if !found {
		return nil
	}
	return &row
}

// put writes a row into a map of maps.
func put[P, K comparable, R any](rows map[P]map[K]R, partition P, key K, row R) {
	if rows[partition] == nil {
		rows[partition] = map[K]R{}
	}
	rows[partition][key] = row
}
