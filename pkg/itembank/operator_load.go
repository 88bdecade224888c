package itembank

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Line is one item of a Source. Number is its line number, for error messages.
type Line struct {
	Number int64
	Item   string
	// Columns come back with the item, to the claimant who gets it. They require a campaign with Settings.Columns.
	// ValidateColumns has the rules.
	Columns []Column
}

// Source yields the items of a load in order. A load reads it twice, to check it and to write it. Both readings must
// yield the same items. An error ends a reading.
type Source func() iter.Seq2[Line, error]

// Items returns a Source of the items.
func Items(items ...string) Source {
	return func() iter.Seq2[Line, error] {
		return func(yield func(Line, error) bool) {
			for i, item := range items {
				if !yield(Line{Number: int64(i) + 1, Item: item}, nil) {
					return
				}
			}
		}
	}
}

// Tally counts the first Rows items of a load by their outcome:
// Rows = Added + Known + Repeated.
type Tally struct {
	Rows     int64 `json:"rows"`
	Added    int64 `json:"added"`    // this load added the item
	Known    int64 `json:"known"`    // another load had added it
	Repeated int64 `json:"repeated"` // an earlier row of this load had added it
}

// LoadReport is the result of a load.
type LoadReport struct {
	LoadID string `json:"load_id"`
	Tally
	Resumed int64 `json:"resumed"` // rows that an earlier run of this load completed
	// OtherColumns counts the rows of this run whose items are known with other columns than the source has. These
	// items keep their columns.
	OtherColumns int64 `json:"other_columns,omitempty"`
}

// Load adds the items of the source to the campaign's bank. It adds each item once: an item that the campaign knows,
// whether free, held or ended, is not added again. Load first checks the whole source. If a line is invalid, it
// changes nothing.
//
// Load is safe to repeat. The same items resume a load that was interrupted, and its tally is exact. After a finished
// load, the same items are all known. Several processes can load the same or overlapping items at once. progress may
// be nil; it gets the number of rows, including those of an earlier run. A Load of known items only reads: it looks
// items up before it adds them, as long as it finds known ones.
//
// A known item keeps the columns of its first load. Two lines with the same item must have the same columns. To
// check that, a Load into a campaign with Settings.Columns needs about 100 bytes of memory for each item.
//
// A load that was given up (GiveUpLoad) is not resumed: the same items are a new load, to which the items of the load
// that was given up are known.
//
// Errors: *InvalidError, in a *LineError if a line is invalid; ErrNoCampaign; ErrTryAgain; the family
// ErrInconsistent, with ErrInputChanged and ErrLoadGivenUp. After an error the report says how many rows are done. The
// same load resumes there.
func (b *Operator) Load(ctx context.Context, campaign string, source Source, progress Progress) (LoadReport, error) {
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return LoadReport{}, err
	}
	in, err := inspect(ctx, c, source)
	if err != nil {
		return LoadReport{}, err
	}
	checkedAt := b.clock.Now()
	l, err := b.findLoad(ctx, c, in.digest)
	if err != nil {
		return LoadReport{}, err
	}
	// A campaign that has a load row is never deleted. Before that, another campaign could take the name.
	if c, err = b.Campaign(ctx, campaign); err != nil {
		return LoadReport{}, err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	w := &loading{loadRow: loadRow{b, l, checkedAt}, campaign: c, counted: l.Tally, input: in, lookUp: true}
	w.progress = func() { progress(w.load.Tally.Rows, in.rows) }
	w.progress()
	err = w.run(ctx, source)
	return LoadReport{
		LoadID: l.ID(), Tally: Tally(w.counted), Resumed: l.Tally.Rows, OtherColumns: w.otherColumns,
	}, err
}

// input describes a source after its first reading.
type input struct {
	digest string // names the load
	rows   int64
	sums   []checksum // the checksum after every chunk
}

// checksum is the first part of the digest of the rows so far.
type checksum [8]byte

// inspect reads the source once. Every line must be a valid item of the campaign, and there must be at
// least one.
func inspect(ctx context.Context, c Campaign, source Source) (in input, err error) {
	sum, check := newDigest(), newLineCheck(c)
	for line, err := range source() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return in, err
		}
		if err := check.line(line); err != nil {
			return in, &LineError{line.Number, err}
		}
		sum.add(line)
		if in.rows++; in.rows%engine.MaxAddItems == 0 {
			in.sums = append(in.sums, sum.checksum())
		}
	}
	if in.rows == 0 {
		return in, &InvalidError{"input", "holds no items"}
	}
	in.sums = append(in.sums, sum.checksum())
	in.digest = sum.String()
	return in, nil
}

// findLoad resumes the unfinished load of this digest, or starts the next one.
func (b *Operator) findLoad(ctx context.Context, c Campaign, digest string) (engine.Load, error) {
	for {
		l, unfinished, err := b.nextLoad(ctx, c, digest)
		if err != nil || unfinished {
			return l, err
		}
		started, err := b.startLoad(ctx, l)
		if err != nil {
			return engine.Load{}, err
		}
		if started {
			return l, nil
		}
		// Either another process started the same load, and both work on it. Or the campaign was deleted.
		if _, err := b.readCampaign(ctx, c.Name); err != nil {
			return engine.Load{}, err
		}
	}
}

// startLoad puts a load row. The first load row of a campaign is put only if the campaign still exists: until then it
// can be deleted.
func (b *Operator) startLoad(ctx context.Context, l engine.Load) (started bool, err error) {
	some, _, err := b.store.Loads(ctx, l.Campaign)
	switch {
	case err != nil:
		return false, err
	}
	return whileBusy(ctx, b.Bank, campaignBusy, func() (started, busy bool, err error) {
		return b.store.StartLoad(ctx, l, !some)
	})
}

// nextLoad returns the unfinished load of this digest, or the load to start next.
func (b *Operator) nextLoad(ctx context.Context, c Campaign, digest string) (l engine.Load, unfinished bool, err error) {
	latest, err := b.store.LatestLoad(ctx, c.Name, digest)
	if err != nil {
		return engine.Load{}, false, err
	}
	next := engine.Load{Campaign: c.Name, Digest: digest, Number: 1, StartedAt: b.now()}
	if latest != nil {
		if !latest.Finished && !latest.GivenUp {
			return *latest, true, nil
		}
		next.Number = latest.Number + 1
	}
	return next, false, nil
}

// loading is one run of a load.
type loading struct {
	loadRow
	campaign  Campaign
	counted   engine.Tally // the part of load.Tally that is stored
	input     input
	chunk     []engine.AddRequest
	lookUp    bool // look up the items of the next chunk before they are added
	announced bool // the campaign row says that items will come
	progress  func()

	otherColumns int64
}

// run adds the rows that are not done yet, and finishes the load. A chunk ends at a multiple of MaxAddItems rows. It
// is written only if everything up to its end equals the first reading.
func (w *loading) run(ctx context.Context, source Source) error {
	sum := newDigest()
	var row int64
	done := w.load.Tally.Rows
	for line, err := range source() {
		if errors.Is(err, ErrInvalid) || row == w.input.rows {
			return ErrInputChanged
		}
		if err != nil {
			return err
		}
		sum.add(line)
		if row++; row > done {
			w.add(line, row)
		}
		if row%engine.MaxAddItems > 0 && row < w.input.rows {
			continue
		}
		if sum.checksum() != w.input.sums[(row-1)/engine.MaxAddItems] {
			return ErrInputChanged
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if row != w.input.rows || sum.String() != w.load.Digest {
		return ErrInputChanged
	}
	return w.finish(ctx) // also if this run added nothing: an earlier run of the load may have added items
}

func (w *loading) add(line Line, row int64) {
	h := engine.HashItem(line.Item)
	shard, end := w.campaign.shardOf(h), endOf(w.bank.serverNow(), w.campaign.ItemLife)
	free := engine.FreeItem{Shard: shard, Hash: h, Value: line.Item, EndsAt: end}
	columns := string(NewColumns(line.Columns...))
	w.chunk = append(w.chunk, engine.AddRequest{Item: free, LoadID: w.load.ID(), Row: row, Columns: columns})
}

// flush adds the chunk and then counts it. The tally is stored after the rows, so that a resumed load counts the last
// rows again, from the rows that it finds.
func (w *loading) flush(ctx context.Context) error {
	if len(w.chunk) == 0 {
		return nil
	}
	requests := firstRows(w.chunk)
	rows, err := w.knownRows(ctx, requests)
	if err != nil {
		return err
	}
	added, err := w.addUnknown(ctx, requests, rows)
	if err != nil {
		return err
	}
	w.lookUp = added < len(requests)
	for _, r := range w.chunk {
		countRow(&w.load.Tally, r, rows[r.Item.Hash])
		if rows[r.Item.Hash].Columns != r.Columns {
			w.otherColumns++
		}
	}
	w.chunk = w.chunk[:0]
	if err := w.saveTally(ctx); err != nil {
		return err
	}
	w.progress()
	return nil
}

// knownRows reads the item rows of a chunk if the chunk before had known items, or if this is the first chunk. A
// lookup costs one read unit for each item. Without it, a known item makes a transaction fail: that costs 4 write
// units for each item of the transaction, and locks the rows of free items. So a load of new items looks up its first
// chunk only.
func (w *loading) knownRows(
	ctx context.Context, requests []engine.AddRequest,
) (map[engine.Hash]engine.ItemRow, error) {
	if !w.lookUp {
		return map[engine.Hash]engine.ItemRow{}, nil
	}
	hashes := make([]engine.Hash, len(requests))
	for i, r := range requests {
		hashes[i] = r.Item.Hash
	}
	return w.bank.itemRowsOf(ctx, w.campaign.Name, hashes)
}

// addUnknown adds the items that have no row, and completes rows, so that it has the row of every item. It returns
// the number of added items. The transaction decides, because an item may have become known after the lookup.
func (w *loading) addUnknown(
	ctx context.Context, requests []engine.AddRequest, rows map[engine.Hash]engine.ItemRow,
) (added int, err error) {
	var unknown []engine.AddRequest
	for _, r := range requests {
		row, known := rows[r.Item.Hash]
		// The row may be from a transaction of this load that is visible only in part. Another transaction waits
		// for that one and gets its result.
		if own := row.LoadID == r.LoadID && row.Row == r.Row; !known || own {
			unknown = append(unknown, r)
		}
	}
	if err := w.announce(ctx, unknown); err != nil {
		return 0, err
	}
	results, err := w.bank.addItems(ctx, unknown, w.check)
	w.bank.mayHoldItems(unknown) // also after an error: the items may have been added
	if err != nil {
		return 0, err
	}
	for i, r := range unknown {
		switch results[i].Outcome {
		case engine.AddOrphan:
			return 0, &InconsistentError{freeNotLoaded, fmt.Sprintf("item %d of the input", r.Row)}
		case engine.AddDone:
			rows[r.Item.Hash] = engine.ItemRow{LoadID: r.LoadID, Row: r.Row, Columns: r.Columns}
			added++
		default:
			rows[r.Item.Hash] = results[i].Existing
		}
	}
	return added, nil
}

// addItems adds items, and sends requests again until each has a result. before is called before each transaction.
func (b *Operator) addItems(
	ctx context.Context, requests []engine.AddRequest, before func(context.Context) error,
) ([]engine.AddResult, error) {
	settled := func(r engine.AddResult) bool { return r.Outcome != engine.AddUnsettled }
	return sendAll(ctx, b, requests, func(ctx context.Context, part []engine.AddRequest) ([]engine.AddResult, error) {
		if err := before(ctx); err != nil {
			return nil, err
		}
		return b.store.AddItems(ctx, part)
	}, settled)
}

// announce announces items before the first item is added.
func (w *loading) announce(ctx context.Context, items []engine.AddRequest) error {
	if w.announced || len(items) == 0 {
		return nil
	}
	w.announced = true
	return w.bank.announceItems(ctx, w.campaign.Name)
}

// mayHoldItems forgets that this Bank saw the shards of the items empty. Other Banks do not know of the load; they
// read the shards again within a second.
func (b *Operator) mayHoldItems(requests []engine.AddRequest) {
	for _, r := range requests {
		b.memoryOf(r.Item.Shard.Campaign).free.itemReturned(r.Item.Shard)
	}
}

// maxUncounted is how many rows a resumed load may have to process again. A tally after every chunk would double the
// number of writes; this is one write in 21.
const maxUncounted = 20 * engine.MaxAddItems

// saveTally stores the tally if enough rows are new: as many as the stored tally has, and at most maxUncounted. So a
// resumed load processes at most half of its rows again.
func (w *loading) saveTally(ctx context.Context) error {
	rows := w.load.Tally.Rows
	if rows-w.counted.Rows < min(w.counted.Rows, maxUncounted) && rows < w.input.rows {
		return nil
	}
	if err := w.advance(ctx); err != nil {
		return err
	}
	w.counted = w.load.Tally
	return nil
}

// countRow counts one row of the input by the item row that is stored now. The item row names the load and the row
// that added the item. So an input row whose own item row is found after a lost reply counts as added.
func countRow(t *engine.Tally, r engine.AddRequest, existing engine.ItemRow) {
	t.Rows++
	switch {
	case existing.LoadID != r.LoadID:
		t.Known++
	case existing.Row != r.Row:
		t.Repeated++
	default:
		t.Added++
	}
}

// firstRows returns the first row of each item of the chunk: a transaction must not name an item twice.
func firstRows(chunk []engine.AddRequest) []engine.AddRequest {
	seen := make(map[engine.Hash]bool, len(chunk))
	firsts := make([]engine.AddRequest, 0, len(chunk))
	for _, r := range chunk {
		if !seen[r.Item.Hash] {
			seen[r.Item.Hash] = true
			firsts = append(firsts, r)
		}
	}
	return firsts
}

// digest is the first 128 bits of the SHA-256 of the lines in order. A line is its item after the item's length, and
// then its columns, if it has any.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(line Line) {
	d.addText(line.Item, 0)
	if len(line.Columns) > 0 {
		d.addText(string(NewColumns(line.Columns...)), isColumns)
	}
}

// isColumns is set in the length of columns, to tell them from items. No item is that long.
const isColumns = 1 << 31

func (d digest) addText(text string, kind uint32) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(text))|kind)
	_, _ = d.Write(size[:]) // a hash never fails
	_, _ = d.Write([]byte(text))
}

func (d digest) checksum() checksum { return checksum(d.Sum(nil)[:len(checksum{})]) }

func (d digest) String() string { return hex.EncodeToString(d.Sum(nil)[:engine.HashSize]) }
