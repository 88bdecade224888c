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

// Line is one item of a Source, with the number it has there, for messages.
type Line struct {
	Number int64
	Item   string
}

// Source yields the lines of a load in order. It is read twice, once to check
// and once to write, and must be the same both times. An error ends it.
type Source func() iter.Seq2[Line, error]

// Items is a Source of items at hand.
func Items(items ...string) Source {
	return func() iter.Seq2[Line, error] {
		return func(yield func(Line, error) bool) {
			for i, item := range items {
				if !yield(Line{int64(i) + 1, item}, nil) {
					return
				}
			}
		}
	}
}

// Tally counts what became of the first Rows items of a load. A row is added if
// this load put it, known if another load did, repeated if this load put it
// from an earlier row. Rows = Added + Known + Repeated.
type Tally struct {
	Rows     int64 `json:"rows"`
	Added    int64 `json:"added"`
	Known    int64 `json:"known"`
	Repeated int64 `json:"repeated"`
}

// LoadReport is the result of a load.
type LoadReport struct {
	LoadID string `json:"load_id"`
	Tally
	Resumed int64 `json:"resumed"` // rows that an earlier run of this load had done
}

// Load adds the items of the source to the campaign's bank, each once: an item
// that the campaign knows in any state is not added again. First the whole
// source is checked; if a line is invalid nothing is changed. A load that was cut is
// resumed when the same items are loaded again, and its tally is exact whatever
// happened; after a finished load the same items are all known. Several
// processes may load the same or overlapping items at once.
//
// Errors: *InvalidError, as *LineError where a line is to blame; ErrNoCampaign;
// ErrTryAgain, after which the same load resumes; the family ErrInconsistent. Also when
// there is an error the report says how far the load came: up to where it resumes.
func (b *Bank) Load(ctx context.Context, campaign string, source Source, progress Progress) (LoadReport, error) {
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return LoadReport{}, err
	}
	in, err := inspect(ctx, source)
	if err != nil {
		return LoadReport{}, err
	}
	l, err := b.findLoad(ctx, c, in.digest)
	if err != nil {
		return LoadReport{}, err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	w := &loading{bank: b, campaign: c, load: l, counted: l.Tally, input: in}
	w.progress = func() { progress(w.load.Tally.Rows, in.rows) }
	w.progress()
	err = w.run(ctx, source)
	report := LoadReport{LoadID: l.ID(), Tally: Tally(w.counted), Resumed: l.Tally.Rows}
	if err != nil {
		return report, err
	}
	return report, b.checkGeneration(ctx, l)
}

// checkGeneration reads the campaign after the load: its items went to the
// generation that the load began with.
func (b *Bank) checkGeneration(ctx context.Context, l engine.Load) error {
	after, err := b.readCampaign(ctx, l.Campaign)
	if err != nil {
		return err
	}
	if after.generation != l.Generation {
		return fmt.Errorf("%w: from %d to %d", ErrOvertaken, l.Generation, after.generation)
	}
	return nil
}

// input is what a source was on its first reading.
type input struct {
	digest string // names the load
	rows   int64
	marks  []mark // after every chunk
}

// mark is the digest of the rows so far, in short.
type mark [8]byte

// inspect reads the source once: every line must be a valid item, and there
// must be one.
func inspect(ctx context.Context, source Source) (in input, err error) {
	sum := newDigest()
	for line, err := range source() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return in, err
		}
		if err := ValidateItem(line.Item); err != nil {
			return in, &LineError{line.Number, err}
		}
		sum.add(line.Item)
		if in.rows++; in.rows%engine.MaxAddItems == 0 {
			in.marks = append(in.marks, sum.mark())
		}
	}
	if in.rows == 0 {
		return in, &InvalidError{"input", "holds no items"}
	}
	in.marks = append(in.marks, sum.mark())
	in.digest = sum.String()
	return in, nil
}

// findLoad resumes the unfinished load of this digest, or starts the next one.
func (b *Bank) findLoad(ctx context.Context, c Campaign, digest string) (engine.Load, error) {
	for {
		latest, err := b.store.LatestLoad(ctx, c.Name, digest)
		if err != nil {
			return engine.Load{}, err
		}
		next := engine.Load{Campaign: c.Name, Digest: digest, Number: 1, Generation: c.generation}
		if latest != nil {
			if !latest.Finished {
				return *latest, nil
			}
			next.Number = latest.Number + 1
		}
		started, err := b.store.StartLoad(ctx, next)
		if err != nil {
			return engine.Load{}, err
		}
		if started {
			return next, nil
		}
		// Another process started it: it is its load and ours.
	}
}

// loading is a load on its way.
type loading struct {
	bank     *Bank
	campaign Campaign
	load     engine.Load
	counted  engine.Tally // what the store has of load.Tally
	input    input
	chunk    []engine.AddRequest
	progress func()
}

// run adds the rows after those that are done, and finishes the load. A chunk
// ends at a multiple of MaxAddItems rows, and is written only if everything up
// to its end is what it was on the first reading.
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
		sum.add(line.Item)
		if row++; row > done {
			w.add(line.Item, row)
		}
		if row%engine.MaxAddItems > 0 && row < w.input.rows {
			continue
		}
		if sum.mark() != w.input.marks[(row-1)/engine.MaxAddItems] {
			return ErrInputChanged
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if row != w.input.rows || sum.String() != w.load.Digest {
		return ErrInputChanged
	}
	w.load.Finished = true
	return w.bank.store.AdvanceLoad(ctx, w.load)
}

func (w *loading) add(item string, row int64) {
	h := engine.HashItem(item)
	shard := engine.Shard{Campaign: w.load.Campaign, Generation: w.load.Generation, Number: h.ShardOf(w.campaign.Shards)}
	free := engine.FreeItem{Shard: shard, Hash: h, Value: item, EndsAt: ends(w.bank.now(), w.campaign.ItemLife)}
	w.chunk = append(w.chunk, engine.AddRequest{Item: free, LoadID: w.load.ID(), Row: row})
}

// flush adds the chunk, then counts it: counts are written after the rows, so that a
// cut load counts its last rows again from what it finds.
func (w *loading) flush(ctx context.Context) error {
	if len(w.chunk) == 0 {
		return nil
	}
	firsts := fold(w.chunk)
	answers, err := w.bank.addItems(ctx, firsts)
	if err != nil {
		return err
	}
	holders := make(map[engine.Hash]engine.ItemRow, len(firsts))
	for i, a := range firsts {
		switch answers[i].Outcome {
		case engine.AddOrphan:
			return &InconsistentError{freeNotLoaded, fmt.Sprintf("item %d of the input", a.Row)}
		case engine.AddDone:
			holders[a.Item.Hash] = engine.ItemRow{LoadID: a.LoadID, Row: a.Row}
		default:
			holders[a.Item.Hash] = answers[i].Existing
		}
	}
	for _, a := range w.chunk {
		countRow(&w.load.Tally, a, holders[a.Item.Hash])
	}
	w.chunk = w.chunk[:0]
	if err := w.count(ctx); err != nil {
		return err
	}
	w.progress()
	return nil
}

// maxUncounted is how many rows a cut load may have to go over again. At every chunk
// the counts would be half of all writes; so they are one in 21.
const maxUncounted = 20 * engine.MaxAddItems

// count writes the counts if enough rows wait for it: as many as were counted
// before, so that a cut load has to go over half of its rows at most.
func (w *loading) count(ctx context.Context) error {
	rows := w.load.Tally.Rows
	if rows-w.counted.Rows < min(w.counted.Rows, maxUncounted) && rows < w.input.rows {
		return nil
	}
	if err := w.bank.store.AdvanceLoad(ctx, w.load); err != nil {
		return err
	}
	w.counted = w.load.Tally
	return nil
}

// countRow adds one row to the tally, by the item row that its item has now. The
// item row names the load and the row that added the item: a row that finds itself
// there after a lost reply was added.
func countRow(t *engine.Tally, a engine.AddRequest, holder engine.ItemRow) {
	t.Rows++
	switch {
	case holder.LoadID != a.LoadID:
		t.Known++
	case holder.Row != a.Row:
		t.Repeated++
	default:
		t.Added++
	}
}

// fold returns the chunk's rows with the first row of each item only: a
// transaction cannot name an item twice.
func fold(chunk []engine.AddRequest) []engine.AddRequest {
	seen := make(map[engine.Hash]bool, len(chunk))
	firsts := make([]engine.AddRequest, 0, len(chunk))
	for _, a := range chunk {
		if !seen[a.Item.Hash] {
			seen[a.Item.Hash] = true
			firsts = append(firsts, a)
		}
	}
	return firsts
}

// digest is the first 128 bits of the SHA-256 over items in order, each after
// its length.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(item string) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(item)))
	_, _ = d.Write(size[:]) // a hash never fails
	_, _ = d.Write([]byte(item))
}

func (d digest) mark() mark { return mark(d.Sum(nil)[:len(mark{})]) }

func (d digest) String() string { return hex.EncodeToString(d.Sum(nil)[:engine.HashSize]) }
