package dedupe

import "context"

// Framing opens payloads that hold several records: compressed ones, arrays, lines. A Processor gives each of them an
// owner of its own, by its place in the payload.
type Framing interface {
	// Open returns the records of a payload, in order, always the same ones. framed is false for a payload that is a
	// record by itself. A frame without records is done at once, such as a control message. An error is like one of a
	// Format: unless it passes by itself, the payload is poison as a whole.
	Open(ctx context.Context, payload []byte) (records [][]byte, framed bool, err error)

	// Pack makes one payload of records that came in one, for a Sink. original is the payload that they came in. Without
	// a payload and an error, each record is sent by itself, and so is one that fits into the sink only without a frame.
	// Other sinks get single records.
	Pack(original []byte, records [][]byte) (payload []byte, err error)
}

// frame is a payload that was opened.
type frame struct{ payload []byte }

// packing makes outputs of user records.
type packing struct {
	*batchRun
	outputs []Output
	ends    []int // for each output: how many user records are in it and in those before it
}

// pack packs the records of each frame among those to be sent. A payload that the sink cannot take is made into two, and
// that of a single record is left out.
func (r *batchRun) pack(ctx context.Context, users []*userRecord) (outputs []Output, ends []int, err error) {
	p := packing{r, make([]Output, 0, len(users)), make([]int, 0, len(users))}
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

// add adds the records that are left of one frame, or a record that is in none.
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
	payload, err := p.parts.Framing.Pack(f.payload, records)
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
	switch fits := p.parts.Sink.Check(ctx, o) == nil; {
	case !fits && len(users) == 1: // the sink takes it by itself: Delivery.Read has checked that
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
