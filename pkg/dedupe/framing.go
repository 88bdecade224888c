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
	// a payload and an error, each record is sent by itself. Other sinks get single records.
	Pack(original []byte, records [][]byte) (payload []byte, err error)
}

// frame is a payload that was opened.
type frame struct{ payload []byte }

// pack packs the records of each frame among those to be sent. A payload that the sink cannot take is made into two.
func (r *batchRun) pack(ctx context.Context, users []*userRecord) (outputs []Output, of [][]*userRecord, err error) {
	for begin := 0; begin < len(users); {
		end := begin + 1
		for users[begin].frame != nil && end < len(users) && users[end].frame == users[begin].frame {
			end++
		}
		if err = r.packFrame(ctx, users[begin:end], &outputs, &of); err != nil {
			return nil, nil, err
		}
		begin = end
	}
	return outputs, of, nil
}

func (r *batchRun) packFrame(ctx context.Context, users []*userRecord, outputs *[]Output, of *[][]*userRecord) error {
	o := users[0].output
	if f := users[0].frame; f != nil {
		records := make([][]byte, len(users))
		for i, u := range users {
			records[i] = u.output.Data
		}
		payload, err := r.parts.Framing.Pack(f.payload, records)
		if err != nil {
			return err
		}
		if payload == nil {
			for _, u := range users {
				*outputs, *of = append(*outputs, u.output), append(*of, []*userRecord{u})
			}
			return nil
		}
		o.Data = payload
		if err := r.parts.Sink.Check(ctx, o); err != nil && len(users) > 1 {
			half := len(users) / 2
			if err := r.packFrame(ctx, users[:half], outputs, of); err != nil {
				return err
			}
			return r.packFrame(ctx, users[half:], outputs, of)
		}
	}
	*outputs, *of = append(*outputs, o), append(*of, users)
	return nil
}
