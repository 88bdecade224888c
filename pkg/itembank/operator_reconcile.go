package itembank

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The kinds of inconsistencies. An item that was loaded is in exactly one place: in the
// bank, in a claim, or ended.
const (
	missing       = "missing"
	heldTwice     = "held-twice"
	heldAndFree   = "held-and-free"
	heldAndEnded  = "held-and-ended"
	freeTwice     = "free-twice"
	freeAndEnded  = "free-and-ended"
	freeNotLoaded = "free-not-loaded"
	heldNotLoaded = "held-not-loaded"
	misplaced     = "misplaced"
	endsDiffer    = "ends-differ"
	moving        = "moving"
)

// Inconsistency says what is wrong with the rows of one item. These are the kinds:
//
//	missing          the item was loaded, but is neither free, nor held, nor ended
//	held-twice       several claims hold the item
//	held-and-free    a claim holds the item, and it is in the bank
//	held-and-ended   a claim holds the item, and its row says that it ended;
//	                 Release of that claim settles it
//	free-twice       the item is in several places of the bank
//	free-and-ended   the item is in the bank, and its row says that it ended
//	free-not-loaded  the item is in the bank, and no row says that it was loaded
//	held-not-loaded  a claim holds the item, and no row says that it was loaded
//	misplaced        the item is in a wrong shard, or a row has the text of another item
//	ends-differ      its bank row and its item row have different ends
//	moving           the rows differed at every pass; run Reconcile again later
type Inconsistency struct {
	Kind     string   `json:"kind"`
	Hash     string   `json:"hash"`              // of the item, 32 hexadecimal digits
	Item     string   `json:"item,omitempty"`    // empty if no row has it
	LoadID   string   `json:"load_id,omitempty"` // the load that added the item
	Row      int64    `json:"row,omitempty"`     // the item's position in that load
	Claims   []string `json:"claims,omitempty"`  // ids of the claims that hold the item
	Repaired bool     `json:"repaired"`
}

// ReconcileReport is the result of a Reconcile or a Repair.
type ReconcileReport struct {
	From            time.Time       `json:"from"`
	To              time.Time       `json:"to"`
	Counts                          // of the first pass
	Inconsistencies []Inconsistency `json:"inconsistencies"`
}

// An item that moves while the rows are read looks wrong in one pass and right in the next. So Reconcile reads the
// rows of suspects again.
const (
	maxPasses = 6
	passPause = 2 * time.Second
)

// Reconcile compares all item rows of a campaign with its bank and with the claims of its scope. It reports every
// item that is not in exactly one place, and every free item whose bank row has another end than its item row. It
// changes nothing.
//
// Reconcile can run while the campaign is live. It reads the rows of an item that looks wrong again, until they are
// right or two passes in a row read the same. It reads every other row once. It needs about 100 bytes of memory for
// each item, and 2 KB for each item that looks wrong.
//
// Errors: *InvalidError; ErrNoCampaign; ErrTryAgain; ErrInconsistent if a row is stored under the key of another row,
// so that no list can return it. An inconsistency in the report is not an error.
func (b *Operator) Reconcile(ctx context.Context, campaign string) (ReconcileReport, error) {
	report := ReconcileReport{From: b.now()}
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	wrong, err := b.reconcile(ctx, c, &report.Counts)
	for _, r := range wrong {
		report.Inconsistencies = append(report.Inconsistencies, r.inconsistency())
	}
	report.To = b.now()
	return report, err
}

// reconcile returns the rows of all items that are wrong, in the order of their hashes.
func (b *Operator) reconcile(ctx context.Context, c Campaign, counts *Counts) ([]itemRows, error) {
	suspects, err := b.findSuspects(ctx, c, counts)
	if err != nil {
		return nil, err
	}
	var wrong []itemRows
	before := map[engine.Hash]itemRows{}
	for pass := 1; len(suspects) > 0; pass++ {
		if pass > 1 {
			if err := b.clock.Sleep(ctx, passPause); err != nil {
				return nil, err
			}
		}
		now, err := b.readSuspects(ctx, c, suspects)
		if err != nil {
			return nil, err
		}
		for h, rows := range now {
			last, seen := before[h]
			switch {
			case rows.kind() == "":
				delete(suspects, h)
			case seen && rows.equal(last):
				wrong = append(wrong, rows)
				delete(suspects, h)
			case pass == maxPasses:
				rows.moving = true
				wrong = append(wrong, rows)
				delete(suspects, h)
			}
		}
		before = now
	}
	slices.SortFunc(wrong, func(x, y itemRows) int { return slices.Compare(x.hash[:], y.hash[:]) })
	return wrong, nil
}

// places counts the rows of an item in the first pass. It is small, because a bank can have millions of items.
type places struct {
	held, free    uint8
	loaded, ended bool
	contradictory bool  // a row is in the wrong place, or differs from another row
	endsAt        int64 // of the bank row, in milliseconds
}

func (p places) right() bool {
	n := int(p.held) + int(p.free)
	if p.ended {
		n++
	}
	return p.loaded && n == 1 && !p.contradictory
}

// findSuspects reads all rows once and returns the items that look wrong.
func (b *Operator) findSuspects(ctx context.Context, c Campaign, counts *Counts) (map[engine.Hash]bool, error) {
	seen := map[engine.Hash]places{}
	note := func(h engine.Hash, change func(*places)) {
		p := seen[h]
		change(&p)
		seen[h] = p
	}
	err := b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		if claim.Campaign != c.Name {
			return nil
		}
		for i, h := range claim.Hashes() {
			counts.Claimed++
			note(h, func(p *places) {
				p.held = min(p.held+1, 2)
				p.contradictory = p.contradictory || i == 0 && engine.HashItem(claim.Item) != h
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		counts.Free += int64(len(items))
		for _, i := range items {
			note(i.Hash, func(p *places) {
				p.free = min(p.free+1, 2)
				inPlace := i.Hash.ShardOf(c.Shards) == i.Shard.Number
				p.contradictory = p.contradictory || !inPlace || engine.HashItem(i.Value) != i.Hash
				p.endsAt = i.EndsAt.UnixMilli()
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = b.eachItemRow(ctx, c.Name, func(row engine.ListedItem) error {
		counts.Loaded++
		if row.State != "" {
			counts.Ended++
		}
		note(row.Hash, func(p *places) {
			p.loaded, p.ended = true, row.State != ""
			p.contradictory = p.contradictory || p.free > 0 && p.endsAt != row.EndsAt.UnixMilli()
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	suspects := map[engine.Hash]bool{}
	for h, p := range seen {
		if !p.right() {
			suspects[h] = true
		}
	}
	return suspects, nil
}

// itemRows has all rows of one item.
type itemRows struct {
	hash   engine.Hash
	shards int // of the campaign
	item   *engine.ItemRow
	free   []engine.FreeItem
	claims []engine.Claim
	moving bool // a transaction is working on them, or they differed at every pass
}

// readSuspects reads all rows of the suspects. It reads the bank before the claims, because items move from the bank
// to the claims.
func (b *Operator) readSuspects(
	ctx context.Context, c Campaign, suspects map[engine.Hash]bool,
) (map[engine.Hash]itemRows, error) {
	found := map[engine.Hash]itemRows{}
	for h := range suspects {
		found[h] = itemRows{hash: h, shards: c.Shards}
	}
	err := b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		for _, i := range items {
			if rows, ok := found[i.Hash]; ok {
				rows.free = append(rows.free, i)
				found[i.Hash] = rows
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		if claim.Campaign != c.Name {
			return nil
		}
		for _, h := range claim.Hashes() {
			if rows, ok := found[h]; ok {
				rows.claims = append(rows.claims, claim)
				found[h] = rows
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := b.readItems(ctx, c, found); err != nil {
		return nil, err
	}
	for _, rows := range found {
		slices.SortFunc(rows.claims, func(x, y engine.Claim) int { return cmp.Compare(x.ID, y.ID) })
	}
	return found, nil
}

// readItems reads the item rows of the suspects, and again their bank rows in the right shard, so that both rows of
// an item are from one moment. It runs after the lists, which may show only some writes of a running transaction. If
// a transaction is working on an item, the item is marked as moving.
func (b *Operator) readItems(ctx context.Context, c Campaign, found map[engine.Hash]itemRows) error {
	for hashes := range slices.Chunk(slices.Collect(maps.Keys(found)), engine.MaxAddItems) {
		keys := make([]engine.FreeItem, len(hashes))
		for i, h := range hashes {
			keys[i] = engine.FreeItem{Shard: c.shardOf(h), Hash: h}
		}
		reads, err := b.store.ReadItems(ctx, keys)
		if err != nil {
			return err
		}
		for i, read := range reads {
			rows := found[hashes[i]]
			rows.moving, rows.item = read.Conflict, read.Row
			rows.free = slices.DeleteFunc(rows.free, func(f engine.FreeItem) bool { return f.Shard == keys[i].Shard })
			if read.Free != nil {
				rows.free = slices.Insert(rows.free, 0, *read.Free)
			}
			found[hashes[i]] = rows
		}
	}
	return nil
}

// kind returns the worst inconsistency of the rows, or "" if they are right.
func (r itemRows) kind() string {
	ended := r.item != nil && r.item.State != ""
	switch {
	case r.moving:
		return moving
	case len(r.claims) > 1:
		return heldTwice
	case len(r.claims) == 1 && len(r.free) > 0:
		return heldAndFree
	case len(r.claims) == 1 && ended:
		return heldAndEnded
	case len(r.free) > 0 && ended:
		return freeAndEnded
	case len(r.free) > 1:
		return freeTwice
	case len(r.claims) == 1 && r.item == nil:
		return heldNotLoaded
	case len(r.free) == 1 && r.item == nil:
		return freeNotLoaded
	case r.misplaced():
		return misplaced
	case r.item != nil && !ended && len(r.claims)+len(r.free) == 0:
		return missing
	case len(r.free) == 1 && !r.free[0].EndsAt.Equal(r.item.EndsAt):
		return endsDiffer
	}
	return ""
}

// misplaced reports whether a row is in the wrong shard or has the text of another item.
func (r itemRows) misplaced() bool {
	return r.otherText() || slices.ContainsFunc(r.free, func(i engine.FreeItem) bool {
		return r.hash.ShardOf(r.shards) != i.Shard.Number
	})
}

// otherText reports whether a row has the text of another item.
func (r itemRows) otherText() bool {
	return slices.ContainsFunc(r.claims, func(c engine.Claim) bool { return engine.HashItem(textIn(c, r.hash)) != r.hash }) ||
		slices.ContainsFunc(r.free, func(i engine.FreeItem) bool { return engine.HashItem(i.Value) != r.hash })
}

// textIn returns the text that a claim stores for one of its hashes.
func textIn(c engine.Claim, h engine.Hash) string {
	return c.Items()[max(slices.Index(c.Hashes(), h), 0)]
}

// equal reports whether two passes read the same rows while no transaction was working on them. Then the rows were
// wrong at one moment (docs/adr/0031-campaigns-change-under-a-condition.md). The only exception is a transaction that
// was visible in part at both passes, for at least passPause.
func (r itemRows) equal(o itemRows) bool {
	if r.moving || o.moving {
		return false
	}
	sameRow := r.item == nil && o.item == nil || r.item != nil && o.item != nil && *r.item == *o.item
	return sameRow && slices.Equal(r.free, o.free) &&
		slices.EqualFunc(r.claims, o.claims, func(x, y engine.Claim) bool { return x.ID == y.ID })
}

func (r itemRows) inconsistency() Inconsistency {
	i := Inconsistency{Kind: r.kind(), Hash: r.hash.String()}
	for _, free := range r.free {
		i.Item = free.Value
	}
	for _, claim := range r.claims {
		i.Item = textIn(claim, r.hash)
		i.Claims = append(i.Claims, claim.ID)
	}
	if r.item != nil {
		i.LoadID, i.Row = r.item.LoadID, r.item.Row
	}
	return i
}
