package itembank

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// An item that was loaded is in exactly one place: in the bank, in a claim, or
// ended. These are the ways to contradict that.
const (
	missing       = "missing"
	heldTwice     = "held-twice"
	heldAndFree   = "held-and-free"
	heldAndEnded  = "held-and-ended"
	freeAndEnded  = "free-and-ended"
	freeTwice     = "free-twice"
	misplaced     = "misplaced"
	freeNotLoaded = "free-not-loaded"
	heldNotLoaded = "held-not-loaded"
	endsDiffer    = "ends-differ"
	moving        = "moving"
)

// Inconsistency says what is wrong with the rows of one item. Its kinds are:
//
//	missing          the item is in no place
//	held-twice       several claims hold the item
//	held-and-free    a claim holds the item, and it is in the bank
//	held-and-ended   a claim holds the item, and its row says that it ended;
//	                 Release of that claim settles it
//	free-twice       the item is in several places of the bank
//	free-and-ended   the item is in the bank, and its row says that it ended
//	free-not-loaded  the item is in the bank, and no row says that it was loaded
//	held-not-loaded  a claim holds the item, and no row says that it was loaded
//	misplaced        the item is in a wrong shard or generation, or a row has
//	                 the text of another item
//	ends-differ      the item is in the bank until another time than its row says
//	moving           the rows differed at every pass; reconcile again later
type Inconsistency struct {
	Kind     string   `json:"kind"`
	Hash     string   `json:"hash"`
	Item     string   `json:"item,omitempty"`    // where a row holds it
	LoadID   string   `json:"load_id,omitempty"` // the load that added the item
	Row      int64    `json:"row,omitempty"`     // the item's position in that load
	Claims   []string `json:"claims,omitempty"`  // ids of the claims that hold the item
	Repaired bool     `json:"repaired"`
}

// ReconcileReport is what a Reconcile saw between two moments.
type ReconcileReport struct {
	From            time.Time       `json:"from"`
	To              time.Time       `json:"to"`
	Counts                          // at the first look
	Inconsistencies []Inconsistency `json:"inconsistencies"`
}

// How long a Reconcile watches an item that looked wrong. What moves while it is
// read looks wrong once, and right at the next look.
const (
	looks     = 6
	lookPause = 2 * time.Second
)

// Reconcile compares all item rows of a campaign with its bank and the claims of
// its scope, and reports every item that is not in exactly one place, or that is free
// until another time than its row says. It may run while the campaign is live: what
// looked wrong is looked at again until it is right, or was wrong in the same way twice
// in a row. It changes nothing.
//
// It reads every row once, and twice or more if something looks wrong, and keeps
// about 100 bytes of memory for each item, and 2 KB for one that looks wrong.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain; ErrInconsistent where a row is in
// another's place, so that no list of its own holds it. Any other difference is no error.
func (b *Bank) Reconcile(ctx context.Context, campaign string) (ReconcileReport, error) {
	report := ReconcileReport{From: b.now()}
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	found, err := b.reconcile(ctx, c, &report)
	for _, f := range found {
		report.Inconsistencies = append(report.Inconsistencies, f.difference())
	}
	report.To = b.now()
	return report, err
}

// reconcile returns what is wrong, by hash.
func (b *Bank) reconcile(ctx context.Context, c Campaign, report *ReconcileReport) ([]finding, error) {
	suspects, err := b.survey(ctx, c, &report.Counts)
	if err != nil {
		return nil, err
	}
	var wrong []finding
	before := map[engine.Hash]finding{}
	for look := 0; len(suspects) > 0; look++ {
		if look > 0 {
			if err := b.clock.Sleep(ctx, lookPause); err != nil {
				return nil, err
			}
		}
		now, err := b.lookAt(ctx, c, suspects)
		if err != nil {
			return nil, err
		}
		for h, f := range now {
			last, seen := before[h]
			switch {
			case f.kind() == "":
				delete(suspects, h)
			case seen && f.same(last):
				wrong = append(wrong, f)
				delete(suspects, h)
			case look == looks-1:
				f.moving = true
				wrong = append(wrong, f)
				delete(suspects, h)
			}
		}
		before = now
	}
	slices.SortFunc(wrong, func(x, y finding) int { return slices.Compare(x.hash[:], y.hash[:]) })
	return wrong, nil
}

// sighting is where an item was seen in the first pass, in as few bytes as a bank
// of a million items wants.
type sighting struct {
	held, free   uint8
	known, ended bool
	odd          bool  // a row is not where it belongs, or another contradicts it
	generation   int   // of the bank row,
	endsAt       int64 // as its end, in milliseconds
}

func (s sighting) right() bool {
	places := int(s.held) + int(s.free)
	if s.ended {
		places++
	}
	return s.known && places == 1 && !s.odd
}

// survey reads all rows once and returns the items that look wrong.
func (b *Bank) survey(ctx context.Context, c Campaign, n *Counts) (map[engine.Hash]bool, error) {
	seen := map[engine.Hash]sighting{}
	note := func(h engine.Hash, change func(*sighting)) {
		s := seen[h]
		change(&s)
		seen[h] = s
	}
	err := b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		if claim.Campaign != c.Name {
			return nil
		}
		n.Claimed++
		note(claim.ItemHash, func(s *sighting) {
			s.held = min(s.held+1, 2)
			s.odd = s.odd || engine.HashItem(claim.Item) != claim.ItemHash
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		n.Free += int64(len(items))
		for _, i := range items {
			note(i.Hash, func(s *sighting) {
				s.free = min(s.free+1, 2)
				s.odd = s.odd || engine.HashItem(i.Value) != i.Hash || i.Hash.ShardOf(c.Shards) != i.Shard.Number
				s.generation, s.endsAt = i.Shard.Generation, i.EndsAt.UnixMilli()
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = b.eachItemRow(ctx, c.Name, func(row engine.ListedItem) error {
		n.Loaded++
		if row.State != "" {
			n.Ended++
		}
		note(row.Hash, func(s *sighting) {
			s.known, s.ended = true, row.State != ""
			s.odd = s.odd || s.free > 0 && (s.generation != row.Generation || s.endsAt != row.EndsAt.UnixMilli())
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	suspects := map[engine.Hash]bool{}
	for h, s := range seen {
		if !s.right() {
			suspects[h] = true
		}
	}
	return suspects, nil
}

func (b *Bank) eachItemRow(ctx context.Context, campaign string, do func(engine.ListedItem) error) error {
	for cursor := ""; ; {
		rows, next, err := b.store.ListItemRows(ctx, campaign, cursor)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := do(row); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// finding is all that the store says of one item.
type finding struct {
	hash   engine.Hash
	shards int
	row    *engine.ItemRow
	free   []engine.FreeItem
	claims []engine.Claim
	moving bool
}

// lookAt reads everything about the suspects: the bank before the claims, which is
// the way that items go.
func (b *Bank) lookAt(ctx context.Context, c Campaign, suspects map[engine.Hash]bool) (map[engine.Hash]finding, error) {
	found := map[engine.Hash]finding{}
	for h := range suspects {
		found[h] = finding{hash: h, shards: c.Shards}
	}
	err := b.eachFreePage(ctx, c, func(items []engine.FreeItem) error {
		for _, i := range items {
			if f, ok := found[i.Hash]; ok {
				f.free = append(f.free, i)
				found[i.Hash] = f
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		if f, ok := found[claim.ItemHash]; ok && claim.Campaign == c.Name {
			f.claims = append(f.claims, claim)
			found[claim.ItemHash] = f
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := b.readRows(ctx, c, found); err != nil {
		return nil, err
	}
	for _, f := range found {
		slices.SortFunc(f.claims, func(x, y engine.Claim) int { return cmp.Compare(x.ID, y.ID) })
	}
	return found, nil
}

// mostRowReads is how many item rows are read one by one. To read all is some
// requests for each of its 64 partitions, and one for some thousand rows.
const mostRowReads = 1_000

// readRows reads the item rows of what was found.
func (b *Bank) readRows(ctx context.Context, c Campaign, found map[engine.Hash]finding) error {
	note := func(h engine.Hash, row *engine.ItemRow) {
		if f, ok := found[h]; ok {
			f.row = row
			found[h] = f
		}
	}
	if len(found) > mostRowReads {
		return b.eachItemRow(ctx, c.Name, func(row engine.ListedItem) error {
			note(row.Hash, &row.ItemRow)
			return nil
		})
	}
	for h := range found {
		row, err := b.store.ItemRow(ctx, c.Name, h)
		if err != nil {
			return err
		}
		note(h, row)
	}
	return nil
}

// kind says what is wrong, the worst first; "" if nothing is.
func (f finding) kind() string {
	ended := f.row != nil && f.row.State != ""
	switch {
	case f.moving:
		return moving
	case len(f.claims) > 1:
		return heldTwice
	case len(f.claims) == 1 && len(f.free) > 0:
		return heldAndFree
	case len(f.claims) == 1 && ended:
		return heldAndEnded
	case len(f.free) > 1:
		return freeTwice
	case len(f.free) == 1 && ended:
		return freeAndEnded
	case len(f.claims) == 1 && f.row == nil:
		return heldNotLoaded
	case len(f.free) == 1 && f.row == nil:
		return freeNotLoaded
	case f.isMisplaced():
		return misplaced
	case f.row != nil && !ended && len(f.claims)+len(f.free) == 0:
		return missing
	case len(f.free) == 1 && !f.free[0].EndsAt.Equal(f.row.EndsAt):
		return endsDiffer
	}
	return ""
}

// isMisplaced looks at a single place.
func (f finding) isMisplaced() bool {
	return f.foreign() || slices.ContainsFunc(f.free, func(i engine.FreeItem) bool {
		return f.hash.ShardOf(f.shards) != i.Shard.Number || i.Shard.Generation != f.row.Generation
	})
}

// foreign reports that a row holds the text of another item.
func (f finding) foreign() bool {
	return slices.ContainsFunc(f.claims, func(c engine.Claim) bool { return engine.HashItem(c.Item) != f.hash }) ||
		slices.ContainsFunc(f.free, func(i engine.FreeItem) bool { return engine.HashItem(i.Value) != f.hash })
}

// same reports that two looks saw the same rows. That is a proof: ids of claims are
// never used again, an item's end is for good, and its row counts how often it
// returned. An item in no place that has not returned between the looks, and was not
// in the bank at either, would have been held at both, and by one claim.
func (f finding) same(o finding) bool {
	rows := f.row == nil && o.row == nil || f.row != nil && o.row != nil && *f.row == *o.row
	return rows && slices.Equal(f.free, o.free) &&
		slices.EqualFunc(f.claims, o.claims, func(x, y engine.Claim) bool { return x.ID == y.ID })
}

func (f finding) difference() Inconsistency {
	d := Inconsistency{Kind: f.kind(), Hash: f.hash.String()}
	for _, i := range f.free {
		d.Item = i.Value
	}
	for _, claim := range f.claims {
		d.Item = claim.Item
		d.Claims = append(d.Claims, claim.ID)
	}
	if f.row != nil {
		d.LoadID, d.Row = f.row.LoadID, f.row.Row
	}
	return d
}
