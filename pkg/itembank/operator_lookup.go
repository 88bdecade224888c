package itembank

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ItemPlace says where an item is.
type ItemPlace string

// The places of an item. An item in one of the last six has no claim and never gets one.
const (
	PlaceFree      ItemPlace = "free"      // in the bank
	PlaceClaimed   ItemPlace = "claimed"   // in a claim
	PlaceHeld      ItemPlace = "held"      // in a hold that is not confirmed
	PlaceBurned    ItemPlace = "burned"    // its claim was released
	PlaceExpired   ItemPlace = "expired"   // its own life or the life of its claim ended
	PlaceWithdrawn ItemPlace = "withdrawn" // an operator took it out
	PlaceReplaced  ItemPlace = "replaced"  // its claimant got another item for it
	PlaceLost      ItemPlace = "lost"      // a repair found it neither free, nor held, nor ended
	PlaceUnknown   ItemPlace = "unknown"   // it was never loaded into the campaign
	// PlaceMissing is an inconsistency: the item was loaded, but is neither free, nor held, nor ended (see Reconcile).
	PlaceMissing ItemPlace = "missing"
)

// ItemReport is the result of a LookUp. Rows keep no history except the number of Returns.
type ItemReport struct {
	Campaign string
	Item     string
	Place    ItemPlace
	Claim    *Claim    // with PlaceClaimed and PlaceHeld
	EndsAt   time.Time // when the life of the item itself ends; zero: never
	LoadID   string    // of the load that added it
	Row      int64     // its position in that load, from 1
	Returns  int       // how often it came back to the bank, each time from another claim
	Withdraw bool      // it was withdrawn while a claim held it: it ends with the claim
	Columns  Columns
}

// lookUps is how often all claims are read for an item before it is called missing. The item row counts each return
// of the item. So if the row is unchanged, either one claim held the item all the time or none did. If one did, the
// second read, passPause later, must show it (docs/adr/0031-campaigns-change-under-a-condition.md).
const lookUps = 2

// LookUp says where an item of a campaign is, and who holds it.
//
// No row leads from an item to its holder. So if the item is held, LookUp reads the claims of the scope until it
// finds the claim: in the worst case all of them, at the rate of WithRate. For other items it sends one request.
//
// Errors: *InvalidError; ErrNoCampaign; ErrTryAgain; the family ErrInconsistent.
func (b *Operator) LookUp(ctx context.Context, campaign, item string) (ItemReport, error) {
	if err := ValidateItem(item); err != nil {
		return ItemReport{}, err
	}
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return ItemReport{}, err
	}
	var before engine.ItemRow
	for same := 0; ; { // how many times in a row no claim held the item and its row was unchanged
		report, row, err := b.readPlace(ctx, c, item)
		if err != nil || report.Place != PlaceClaimed {
			return report, err
		}
		if same > 0 && *row != before {
			same = 0
		}
		if same == lookUps {
			report.Place = PlaceMissing
			return report, nil
		}
		claim, err := b.claimOfItem(ctx, c, engine.HashItem(item))
		if err != nil {
			return report, err
		}
		if claim != nil {
			held, err := b.withColumns(ctx, c, claimOf(*claim))
			report.heldBy(c, held)
			return report, err
		}
		before, same = *row, same+1
		if err := b.clock.Sleep(ctx, passPause); err != nil {
			return report, err
		}
	}
}

// EndedItems returns for each item the place where it has ended, or PlaceUnknown if it was never loaded into the campaign.
// For an item that is free or claimed it returns "": only LookUp tells these apart. It reads the row of each item, which
// costs one read unit on DynamoDB, at the rate of WithRate.
//
// Errors: *InvalidError; ErrNoCampaign; ErrTryAgain.
func (b *Operator) EndedItems(ctx context.Context, campaign string, items []string) ([]ItemPlace, error) {
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return nil, err
	}
	places := make([]ItemPlace, 0, len(items))
	for part := range slices.Chunk(items, engine.MaxItemRows) {
		hashes := map[engine.Hash]bool{} // an item may be named twice
		for _, item := range part {
			if err := ValidateItem(item); err != nil {
				return nil, err
			}
			hashes[engine.HashItem(item)] = true
		}
		rows, err := b.itemRowsOf(ctx, c.Name, slices.Collect(maps.Keys(hashes)))
		if err != nil {
			return nil, err
		}
		for _, item := range part {
			place := PlaceUnknown
			if row, ok := rows[engine.HashItem(item)]; ok {
				place = ItemPlace(row.State)
			}
			places = append(places, place)
		}
	}
	return places, nil
}

// ItemsOfClaim returns the report of each item of a claim that was just read. It costs one request for each item.
//
// Errors: ErrNoCampaign; ErrTryAgain; the family ErrInconsistent.
func (b *Operator) ItemsOfClaim(ctx context.Context, claim Claim) ([]ItemReport, error) {
	c, err := b.Campaign(ctx, claim.Campaign)
	if err != nil {
		return nil, err
	}
	var reports []ItemReport
	for _, item := range claim.Items {
		report, _, err := b.readPlace(ctx, c, item)
		if err != nil {
			return nil, err
		}
		if report.Place == PlaceClaimed {
			report.heldBy(c, claim)
		}
		reports = append(reports, report)
	}
	return reports, nil
}

func (r *ItemReport) heldBy(c Campaign, claim Claim) {
	r.Claim = &claim
	if c.Hold > 0 && !claim.EndsAt.IsZero() {
		r.Place = PlaceHeld
	}
}

// readPlace reads the rows of an item and reports its place. An item that is neither free nor ended is claimed.
func (b *Operator) readPlace(ctx context.Context, c Campaign, item string) (ItemReport, *engine.ItemRow, error) {
	h := engine.HashItem(item)
	report := ItemReport{Campaign: c.Name, Item: item, Place: PlaceUnknown}
	read, err := whileBusy(ctx, b.Bank, rowsBusy, func() (engine.ItemRead, bool, error) {
		reads, err := b.store.ReadItems(ctx, []engine.FreeItem{{Shard: c.shardOf(h), Hash: h}})
		if err != nil {
			return engine.ItemRead{}, false, err
		}
		return reads[0], reads[0].Conflict, nil
	})
	switch row := read.Row; {
	case err != nil:
		return report, nil, err
	case row == nil && read.Free != nil:
		return report, nil, &InconsistentError{freeNotLoaded, fmt.Sprintf("%q", item)}
	case row == nil:
		return report, nil, nil
	case row.State != "" && read.Free != nil:
		return report, nil, &InconsistentError{freeAndEnded, fmt.Sprintf("%q", item)}
	}
	report.EndsAt, report.LoadID, report.Row = read.Row.EndsAt, read.Row.LoadID, read.Row.Row
	report.Returns, report.Withdraw, report.Columns = read.Row.Returns, read.Row.Withdraw, Columns(read.Row.Columns)
	switch {
	case read.Row.State != "":
		report.Place = ItemPlace(read.Row.State)
	case read.Free == nil:
		report.Place = PlaceClaimed
	case hasEnded(*read.Free, b.serverNow()): // a sweep takes it out
		report.Place = PlaceExpired
	default:
		report.Place = PlaceFree
	}
	return report, read.Row, nil
}
