package dedupe

import "context"

// Framing opens payloads that hold several records: compressed payloads, arrays, lines. A Processor gives each of the
// records its own owner, by its place in the payload.
type Framing interface {
	// Open returns the records of a payload in order. The same payload always gives the same records. framed is false
	// if the payload is a single record. A frame without records, such as a control message, is done at once. Errors
	// are treated like those of a Format: unless the error may pass, the whole payload is poison.
	//
	// Open takes room for each record, and for each byte that is not a part of the payload, before it takes memory for
	// it. It returns the error of Room.Take.
	Open(ctx context.Context, payload []byte, room *Room) (records [][]byte, framed bool, err error)

	// Pack makes one payload from records of one frame, for a Sink. original is the payload that they came in. If
	// Pack returns neither a payload nor an error, each record is sent alone. A record that fits into the sink only
	// without a frame is also sent alone. Sinks of other levels always get single records.
	Pack(original []byte, records [][]byte) (payload []byte, err error)
}

// A record of a stream or a queue that opens to more than this is poison as a whole, with all that it holds. So a
// payload of a few KB cannot take the memory of the function. docs/records.md, "Limits of a payload", has the
// sizes of what producers send, with their sources. Settings.OpenedBytes can lower MaxOpenedBytes.
const (
	MaxOpenedRecords = 100_000
	MaxOpenedBytes   = 256 << 20
)

// chunkOpened is how many bytes the frames of a chunk open to before the chunk ends.
const chunkOpened = 32 << 20

// Room is how much a record of a stream or a queue may still hold, while it is opened: all parts of an aggregate and all
// their frames take from one Room.
type Room struct{ records, bytes, limit int }

// NewRoom returns the room of a record: MaxOpenedRecords and MaxOpenedBytes.
func NewRoom() *Room { return RoomOf(MaxOpenedBytes) }

// RoomOf returns the room of a record that may open to this many bytes.
func RoomOf(bytes int) *Room { return &Room{MaxOpenedRecords, bytes, bytes} }

// Bytes returns how many bytes are left.
func (r *Room) Bytes() int { return r.bytes }

// Limit returns how many bytes there were at first. A decoder may take this much beside what it returns.
func (r *Room) Limit() int { return r.limit }

func (r *Room) taken() int { return r.limit - r.bytes }

// Take takes room for some records, and for bytes that are not a part of the payload. If there is not enough, it
// returns the error with which the whole record is poison.
func (r *Room) Take(records, bytes int) error {
	if records > r.records || bytes > r.bytes {
		return errTooMuch
	}
	r.records, r.bytes = r.records-records, r.bytes-bytes
	return nil
}

// errTooMuch is the error of Room.Take.
var errTooMuch = &PoisonError{reasonTooMuch}

// frame is a payload that was opened.
type frame struct{ payload []byte }

// packing makes outputs from user records.
type packing struct {
	sink    Sink
	framing Framing
	outputs []Output
	ends    []int // by output: the number of user records in it and in the outputs before it
}

// pack packs the records of each frame among the user records to send. If the sink cannot take a payload, it is split
// into two. A payload of a single record that the sink cannot take is replaced by the record without a frame.
func (s toStream) pack(ctx context.Context, f Framing, users []*userRecord) (outputs []Output, ends []int, err error) {
	p := packing{s.Sink, f, make([]Output, 0, len(users)), make([]int, 0, len(users))}
	for begin := 0; begin < len(users); {
		end := begin + 1
		for users[begin].frame != nil && end < len(users) && users[end].frame == users[begin].frame {
			end++
		}
		if err = p.add(ctx, users[begin:end]); err != nil {
			return nil, nil, err
		}
		begin = end
	}
	return p.outputs, p.ends, nil
}

// add adds the records of one frame that are to be sent, or a record without a frame.
func (p *packing) add(ctx context.Context, users []*userRecord) error {
	f := users[0].frame
	if f == nil {
		p.addOutput(users[0].output, 1)
		return nil
	}
	records := make([][]byte, len(users))
	for i, u := range users {
		records[i] = u.output.Data
	}
	payload, err := p.framing.Pack(f.payload, records)
	if err != nil {
		return err
	}
	if payload == nil {
		for _, u := range users {
			p.addOutput(u.output, 1)
		}
		return nil
	}
	o := users[0].output
	o.Data = payload
	switch fits := p.sink.Check(ctx, o) == nil; {
	case !fits && len(users) == 1: // send the record without a frame: Delivery.Read has checked that it fits
		o = users[0].output
	case !fits:
		half := len(users) / 2
		if err := p.add(ctx, users[:half]); err != nil {
			return err
		}
		return p.add(ctx, users[half:])
	}
	p.addOutput(o, len(users))
	return nil
}

func (p *packing) addOutput(o Output, users int) {
	if n := len(p.ends); n > 0 {
		users += p.ends[n-1]
	}
	p.outputs, p.ends = append(p.outputs, o), append(p.ends, users)
}
