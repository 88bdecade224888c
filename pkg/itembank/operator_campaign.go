package itembank

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

func (c Campaign) row() engine.Campaign {
	row := engine.Campaign{
		Name: c.Name, Mode: c.mode(), Moved: c.Moved, Restored: c.Restored, OpensAt: c.OpensAt, ClosesAt: c.ClosesAt,
		Scope: c.Scope, Claimants: c.ClaimantAs.row(), Choice: c.Choice, Publish: c.Publish, Columns: c.Columns,
		Shards: c.Shards, PageSize: c.PageSize, ItemLife: c.ItemLife, ClaimLife: c.ClaimLife, Hold: c.Hold,
		MaxHold: c.MaxHold, OnEnd: engine.OnEnd(c.OnEnd), CreatedAt: c.CreatedAt,
	}
	if c.PerClaimant > 1 {
		row.PerClaimant = c.PerClaimant
	}
	if c.Choice && c.MaxItems < engine.MaxClaimItems {
		row.MaxItems = c.MaxItems
	}
	return row
}

func (c Campaign) mode() engine.Mode {
	switch {
	case c.Override == Open:
		return engine.OpenByHand
	case c.Override == Closed && c.UntilReconciled:
		return engine.ClosedUntilReconciled
	case c.Override == Closed:
		return engine.ClosedByHand
	}
	return engine.ByTimes
}

// Settings are the rules of a new campaign. The zero value of a field is its default.
type Settings struct {
	OpensAt   time.Time     // default: at once
	ClosesAt  time.Time     // default: never
	Scope     string        // default: the campaign's name
	Shards    int           // 1 to 256; default: 16
	PageSize  int           // 1 to 1000; default: 30
	ItemLife  time.Duration // at least 1 s, whole milliseconds; default: for ever
	ClaimLife time.Duration // at least 30 s, whole milliseconds; default: for ever
	Hold      time.Duration // at least 30 s, whole milliseconds; default: claims are not confirmed
	// MaxHold is how long a hold can last in total, from its claim, if it is prolonged (Bank.Prolong): longer than Hold,
	// whole milliseconds. Default: holds are not prolonged.
	MaxHold time.Duration
	OnEnd   OnEnd // default: Burn; with Hold: Return
	// ClaimantAs is fixed for the scope: all campaigns of a scope have the same value. Default: Exact.
	ClaimantAs ClaimantAs
	// PerClaimant is how many claims a claimant can have: 1 to 100. If it is more than 1, no other campaign can
	// share the scope. Default: 1.
	PerClaimant int
	// Choice lets claimants name the items that they claim (Choosing). Use it for seats and places. Do not use it
	// for codes: every caller could try which codes exist, and take them.
	Choice bool
	// MaxItems is how many items one claim can have: 1, or with Choice up to [engine.MaxClaimItems]. A claimant can have
	// PerClaimant times as many. Default: 1; with Choice and PerClaimant 1, engine.MaxClaimItems.
	MaxItems int
	// Publish lets every caller list the free items (PublishedItems), for a seat map. Never use it for codes.
	Publish bool
	// Columns lets loads give items columns (Line.Columns). Claimants get the columns with the item. Each answer
	// then reads the rows of its items, which costs one more request.
	Columns bool
}

// CreateCampaign creates a campaign. It is safe to repeat: with the same settings it
// returns the existing campaign and created = false. With other settings, which the error names, or if the scope has
// another ClaimantAs, it returns an *InvalidError and changes nothing. The name of a deleted campaign can
// be used again DrainTime after its deletion.
//
// Errors: *InvalidError, ErrDeleted, ErrTryAgain.
func (b *Operator) CreateCampaign(ctx context.Context, name string, s Settings) (c Campaign, created bool, err error) {
	c, err = newCampaign(name, s, b.now())
	if err != nil {
		return c, false, err
	}
	result, err := b.putCampaign(ctx, c)
	switch {
	case err != nil || result.Created():
		return c, err == nil, err
	case result.Existing == nil:
		return c, false, c.scopeDiffers(*result.Scope)
	}
	existing := campaignOf(*result.Existing)
	if differ := existing.differences(c); len(differ) > 0 {
		detail := fmt.Sprintf("%q exists with other settings: %s", name, strings.Join(differ, "; "))
		return existing, false, &InvalidError{"campaign", detail}
	}
	return existing, false, nil
}

func newCampaign(name string, s Settings, now time.Time) (Campaign, error) {
	c := Campaign{
		Name: name, OpensAt: wholeMillis(s.OpensAt), ClosesAt: wholeMillis(s.ClosesAt),
		Scope: s.Scope, Shards: s.Shards, PageSize: s.PageSize, ItemLife: s.ItemLife, ClaimLife: s.ClaimLife, Hold: s.Hold,
		MaxHold: s.MaxHold, OnEnd: s.OnEnd, ClaimantAs: cmp.Or(s.ClaimantAs, Exact), PerClaimant: cmp.Or(s.PerClaimant, 1),
		Choice: s.Choice, MaxItems: s.MaxItems, Publish: s.Publish, Columns: s.Columns, CreatedAt: now,
	}
	if c.Scope == "" {
		c.Scope = name
	}
	if c.Shards == 0 {
		c.Shards = defaultShards
	}
	if c.PageSize == 0 {
		c.PageSize = defaultPageSize
	}
	switch {
	case c.MaxItems != 0:
	case c.Choice && c.PerClaimant == 1:
		c.MaxItems = engine.MaxClaimItems
	default:
		c.MaxItems = 1
	}
	switch {
	case c.OnEnd != "":
	case c.Hold != 0:
		c.OnEnd = Return
	default:
		c.OnEnd = Burn
	}
	return c, c.validate()
}

func (c Campaign) validate() error {
	if err := ValidateName("campaign", c.Name); err != nil {
		return err
	}
	if err := ValidateName("scope", c.Scope); err != nil {
		return err
	}
	switch {
	case c.Shards < 1 || c.Shards > maxShards:
		return &InvalidError{"shards", fmt.Sprintf("must be 1 to %d, is %d", maxShards, c.Shards)}
	case c.PageSize < 1 || c.PageSize > maxPageSize:
		return &InvalidError{"page-size", fmt.Sprintf("must be 1 to %d, is %d", maxPageSize, c.PageSize)}
	case tooEarly(c.OpensAt):
		return &InvalidError{"opens", "must be later than 1970"}
	case tooEarly(c.ClosesAt):
		return &InvalidError{"closes", "must be later than 1970"}
	case !c.OpensAt.IsZero() && !c.ClosesAt.IsZero() && !c.OpensAt.Before(c.ClosesAt):
		return &InvalidError{"closes", fmt.Sprintf("must be later than `opens` (%s), is %s",
			c.OpensAt.UTC().Format(time.RFC3339), c.ClosesAt.UTC().Format(time.RFC3339))}
	case c.ClaimantAs != Exact && c.ClaimantAs != Email:
		return &InvalidError{"claimant-as", "must be exact or email"}
	case c.PerClaimant < 1 || c.PerClaimant > maxPerClaimant:
		return &InvalidError{"per-claimant", fmt.Sprintf("must be 1 to %d, is %d", maxPerClaimant, c.PerClaimant)}
	case c.MaxItems < 1 || c.MaxItems > engine.MaxClaimItems:
		return &InvalidError{"max-items", fmt.Sprintf("must be 1 to %d, is %d", engine.MaxClaimItems, c.MaxItems)}
	case c.MaxItems > 1 && !c.Choice:
		return &InvalidError{"max-items", fmt.Sprintf("must be 1 without `choice`, is %d: only a claim that names its items can "+
			"have several", c.MaxItems)}
	case c.OnEnd != Burn && c.OnEnd != Return:
		return &InvalidError{"on-end", "must be burn or return"}
	case c.Hold != 0 && c.OnEnd != Return:
		return &InvalidError{"on-end", "must be return with `hold`: a hold that is not confirmed goes back"}
	case c.Hold != 0 && c.ClaimLife != 0:
		return &InvalidError{"claim-life", "cannot be used with `hold`: a confirmed hold has no end"}
	case c.MaxHold != 0 && c.Hold == 0:
		return &InvalidError{"max-hold", "needs `hold`: only holds are prolonged"}
	case c.MaxHold != 0 && c.MaxHold <= c.Hold:
		return &InvalidError{"max-hold", fmt.Sprintf("must be longer than `hold` (%v), or 0 for none; is %v", c.Hold, c.MaxHold)}
	}
	if err := validateLife("item-life", c.ItemLife, minItemLife); err != nil {
		return err
	}
	if err := validateLife("hold", c.Hold, minClaimLife); err != nil {
		return err
	}
	if err := validateLife("max-hold", c.MaxHold, minClaimLife); err != nil {
		return err
	}
	return validateLife("claim-life", c.ClaimLife, minClaimLife)
}

func validateLife(field string, life, minimum time.Duration) error {
	if life != 0 && (life < minimum || life > maxLife || life%time.Millisecond != 0) {
		const form = "must be from %v to 100 years in whole milliseconds, or 0 for none; is %v"
		return &InvalidError{field, fmt.Sprintf(form, minimum, life)}
	}
	return nil
}

// tooEarly reports whether t is a time that an engine cannot distinguish from "no time".
func tooEarly(t time.Time) bool { return !t.IsZero() && t.UnixMilli() <= 0 }

// differences names the settings in which an existing campaign differs from a wanted one. It ignores Override, Moved and
// Restored.
func (c Campaign) differences(wanted Campaign) (texts []string) {
	for _, setting := range []struct {
		name              string
		existing, another any
	}{
		{"opens", timeOr(c.OpensAt, "at once"), timeOr(wanted.OpensAt, "at once")},
		{"closes", timeOr(c.ClosesAt, "never"), timeOr(wanted.ClosesAt, "never")},
		{"page-size", c.PageSize, wanted.PageSize},
		{"scope", c.Scope, wanted.Scope},
		{"shards", c.Shards, wanted.Shards},
		{"item-life", lifeOr(c.ItemLife, "forever"), lifeOr(wanted.ItemLife, "forever")},
		{"claim-life", lifeOr(c.ClaimLife, "forever"), lifeOr(wanted.ClaimLife, "forever")},
		{"hold", lifeOr(c.Hold, "none"), lifeOr(wanted.Hold, "none")},
		{"max-hold", lifeOr(c.MaxHold, "none"), lifeOr(wanted.MaxHold, "none")},
		{"on-end", c.OnEnd, wanted.OnEnd},
		{"claimant-as", c.ClaimantAs, wanted.ClaimantAs},
		{"per-claimant", c.PerClaimant, wanted.PerClaimant},
		{"choice", c.Choice, wanted.Choice},
		{"max-items", c.MaxItems, wanted.MaxItems},
		{"publish-items", c.Publish, wanted.Publish},
		{"columns", c.Columns, wanted.Columns},
	} {
		if setting.existing != setting.another {
			texts = append(texts, fmt.Sprintf("`%s` is %v, not %v", setting.name, setting.existing, setting.another))
		}
	}
	return texts
}

// timeOr writes a time in UTC; for the zero time it returns zero.
func timeOr(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// lifeOr writes a life without units that are zero: 15m, not 15m0s. For 0 it returns zero.
func lifeOr(d time.Duration, zero string) string {
	if d == 0 {
		return zero
	}
	return settings.FormatDuration(d)
}

// OpenCampaign opens a campaign, even before OpensAt or after ClosesAt. Other Banks follow when their copies of the
// rules expire (DefaultCampaignCache). OpenCampaign is safe to repeat.
//
// A campaign that was closed by CloseUntilReconciled is opened only if Reconcile finds nothing. That reads all rows
// of the campaign, which takes minutes. If another operator closes the campaign meanwhile, or changes it, OpenCampaign
// leaves it so and returns ErrChanged. Loads may go on.
//
// A campaign is not opened while it or another campaign of its scope is Moved or Restored: a claimant of that one could
// make a second claim in the scope.
//
// Errors: *InvalidError, ErrNoCampaign, ErrNotReconciled, ErrMoved, ErrRestored, ErrChanged, ErrTryAgain, and the
// errors of Reconcile.
func (b *Operator) OpenCampaign(ctx context.Context, name string) error {
	return b.open(ctx, name, modeChange{mode: engine.OpenByHand})
}

// open opens a campaign. If the campaign was closed until it is reconciled, it reconciles it first.
func (b *Operator) open(ctx context.Context, name string, change modeChange) error {
	row, err := b.namedCampaign(ctx, name)
	if err != nil {
		return err
	}
	except := "" // the campaign whose marks do not count
	if change.unmark {
		except = name
	}
	if err := b.scopeNotMarked(ctx, row.Scope, except); err != nil {
		return err
	}
	if row.Mode == engine.ClosedUntilReconciled {
		report, err := b.Reconcile(ctx, name)
		if err != nil {
			return err
		}
		if n := len(report.Inconsistencies); n > 0 {
			return fmt.Errorf("%w: it found %d", ErrNotReconciled, n)
		}
		if err := b.scopeNotMarked(ctx, row.Scope, except); err != nil { // that took minutes
			return err
		}
	}
	return b.setMode(ctx, *row, change)
}

// CloseCampaign closes a campaign, even between OpensAt and ClosesAt. Other Banks follow as for OpenCampaign.
// CloseCampaign is safe to repeat. Claimants keep their claims. A call of OpenCampaign that began earlier does not open
// the campaign any more.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) CloseCampaign(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedByHand})
}

// CloseUntilReconciled closes a campaign as CloseCampaign does. From then on OpenCampaign refuses to open it while it
// has inconsistencies. Use it for campaigns whose rows may be wrong, for example after a restore. A later call of
// CloseCampaign removes this condition.
func (b *Operator) CloseUntilReconciled(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedUntilReconciled})
}

func (b *Operator) closeCampaign(ctx context.Context, name string, change modeChange) error {
	row, err := b.namedCampaign(ctx, name)
	if err != nil {
		return err
	}
	return b.setMode(ctx, *row, change)
}

// namedCampaign checks a name and reads the row of the campaign.
func (b *Operator) namedCampaign(ctx context.Context, name string) (*engine.Campaign, error) {
	if err := ValidateName("campaign", name); err != nil {
		return nil, err
	}
	return b.presentCampaign(ctx, name)
}

// Campaigns lists all campaigns in the order of their names. Errors: ErrTryAgain; *UnreadableError, with the campaigns
// that can be read.
func (b *Operator) Campaigns(ctx context.Context) ([]Campaign, error) {
	rows, err := b.campaignRows(ctx)
	campaigns := make([]Campaign, 0, len(rows))
	for _, row := range rows {
		campaigns = append(campaigns, campaignOf(row))
	}
	return campaigns, err
}

// campaignRows reads the rows of all campaigns. It returns the errors of Campaigns.
func (b *Operator) campaignRows(ctx context.Context) ([]engine.Campaign, error) {
	rows, err := b.store.Campaigns(ctx)
	unreadable, some := errors.AsType[*engine.UnreadableError](err)
	if !some {
		return rows, err
	}
	var named UnreadableError
	for _, c := range unreadable.Campaigns {
		named.Campaigns = append(named.Campaigns, Unreadable(c))
	}
	return rows, &named
}

// Campaign reads a campaign from the store, not from the Bank's copy.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) Campaign(ctx context.Context, name string) (Campaign, error) {
	if err := ValidateName("campaign", name); err != nil {
		return Campaign{}, err
	}
	c, err := b.readCampaign(ctx, name)
	return c.withoutCopy(), err
}

// Counts says where the items of a campaign are. On a campaign at rest
// Loaded = Free + Claimed + Ended.
type Counts struct {
	Loaded  int64 `json:"loaded"`  // items ever loaded
	Free    int64 `json:"free"`    // in the bank
	Claimed int64 `json:"claimed"` // in a claim
	Ended   int64 `json:"ended"`   // burned, expired or withdrawn
}

// Counts counts a campaign's items with eventually consistent reads, at half the price of ConsistentCounts. It may
// miss the writes of the last seconds. It reads every row of the campaign and every claim of its scope, one part
// after the other. So the numbers of a live campaign belong to slightly different moments.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) Counts(ctx context.Context, name string) (Counts, error) {
	return b.counts(ctx, name, engine.Eventual)
}

// ConsistentCounts is Counts with strongly consistent reads. If nothing changes the campaign meanwhile, the numbers
// are exact.
func (b *Operator) ConsistentCounts(ctx context.Context, name string) (Counts, error) {
	return b.counts(ctx, name, engine.Strong)
}

func (b *Operator) counts(ctx context.Context, name string, how engine.Consistency) (Counts, error) {
	c, err := b.Campaign(ctx, name)
	if err != nil {
		return Counts{}, err
	}
	counts, err := b.store.Counts(ctx, c.row(), how)
	return Counts(counts), err
}
