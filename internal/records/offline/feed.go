package offline

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"

	"golang.org/x/sync/semaphore"
)

// These are the limits of a piece. A piece may have one line more than these bytes.
const (
	pieceLines = 1000
	pieceBytes = 256 << 10
)

// usualLine is the length of the line for which a piece keeps room. The first piece has room for nothing else: most
// files that are made by hand end there.
const usualLine = 16 << 10

// These limit how much is read ahead. A single line may be longer.
const (
	bytesAhead  = 2 << 20
	piecesAhead = 16
)

// piece holds some successive lines that are decoded together. It ends after a line that is too long.
type piece struct {
	records []record
	buffer  []byte        // holds the text of the lines
	weight  int64         // the piece's part of the bytes that are read ahead
	decoded chan struct{} // closed when the records are decoded, or err is set
	taken   int           // the number of records that a batch has taken
	last    bool          // no line follows the piece
	err     error         // the lines cannot be used
}

func (p *piece) allTaken() bool { return p.taken == len(p.records) }

func (p *piece) endsTooLong() bool { return len(p.records) > 0 && p.records[len(p.records)-1].tooLong }

// feed reads the lines of a run ahead, decodes them on all processors, and hands them out in order.
type feed struct {
	decode func(context.Context, *record) error
	size   int // the number of lines of a piece
	pieces chan *piece
	free   chan *piece         // pieces to use again
	ahead  *semaphore.Weighted // the bytes that are read ahead
	resume chan struct{}       // the caller has read the rest of a line that is too long
	cancel context.CancelFunc
	all    sync.WaitGroup
}

// startFeed reads lines in pieces of up to size lines. decode fills in a record. The feed closes lines when it ends.
func startFeed(ctx context.Context, lines *lineReader, size int, decode func(context.Context, *record) error) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{
		decode: decode, size: min(size, pieceLines), cancel: cancel,
		pieces: make(chan *piece, piecesAhead), ahead: semaphore.NewWeighted(bytesAhead),
		free: make(chan *piece, maxBatch/pieceBytes+piecesAhead), resume: make(chan struct{}, 1),
	}
	work := make(chan *piece, piecesAhead)
	f.all.Go(func() {
		defer close(work)
		defer lines.close()
		f.readAll(ctx, lines, work)
	})
	for range runtime.GOMAXPROCS(0) {
		f.all.Go(func() {
			for p := range work {
				f.decodeAll(ctx, p)
			}
		})
	}
	return f
}

// stop ends the feed. It waits until no read is running, unless a read may block for ever.
func (f *feed) stop(mayBlock bool) {
	f.cancel()
	if !mayBlock {
		f.all.Wait()
	}
}

// next returns the next piece. If the last line of the piece is too long, the caller may use the lineReader until it
// calls proceed.
func (f *feed) next(ctx context.Context) (*piece, error) {
	select {
	case p := <-f.pieces:
		<-p.decoded
		f.ahead.Release(p.weight)
		return p, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// proceed lets the feed read on after a line that is too long.
func (f *feed) proceed() { f.resume <- struct{}{} }

// room returns the size of the buffer of a piece.
func (f *feed) room() int { return min(pieceBytes, f.size*usualLine) + usualLine }

// reuse takes back a piece whose records are no longer used.
func (f *feed) reuse(p *piece) {
	if cap(p.buffer) < f.room() || cap(p.buffer) > 4*pieceBytes { // the first piece, or a piece with a long line
		return
	}
	select {
	case f.free <- p:
	default:
	}
}

func (f *feed) readAll(ctx context.Context, lines *lineReader, work chan<- *piece) {
	for room := usualLine; ; room = f.room() {
		p := f.empty(room)
		f.fill(ctx, lines, p)
		p.weight = min(int64(len(p.buffer)), bytesAhead)
		if f.ahead.Acquire(ctx, p.weight) != nil {
			return
		}
		ends, waits := p.last || p.err != nil, p.endsTooLong() // after the send others own the piece
		for _, to := range []chan<- *piece{work, f.pieces} {
			select {
			case to <- p:
			case <-ctx.Done():
				return
			}
		}
		if ends {
			return
		}
		if waits {
			select {
			case <-f.resume:
			case <-ctx.Done():
				return
			}
		}
	}
}

// empty returns a piece without records. It uses the memory of a piece that was taken back, if there is one.
func (f *feed) empty(room int) *piece {
	p := &piece{decoded: make(chan struct{})}
	select {
	case old := <-f.free:
		clear(old.records)
		p.records, p.buffer = old.records[:0], old.buffer[:0]
	default: // make room now, because a growing buffer would be kept for each line
		p.buffer = make([]byte, 0, room)
	}
	return p
}

func (f *feed) fill(ctx context.Context, lines *lineReader, p *piece) {
	for len(p.records) < f.size && len(p.buffer) < pieceBytes && !p.endsTooLong() {
		before := lines.done
		l, buffer, err := lines.next(ctx, p.buffer)
		p.buffer = buffer
		if p.last = errors.Is(err, io.EOF); p.last {
			return
		}
		if p.err = err; err != nil {
			return
		}
		p.records = append(p.records, record{line: l, size: lines.done - before})
	}
}

func (f *feed) decodeAll(ctx context.Context, p *piece) {
	defer close(p.decoded)
	for i := range p.records {
		if p.err != nil {
			return
		}
		p.err = f.decode(ctx, &p.records[i])
	}
}
