package framing

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The reasons why a compressed payload of Snowplow is poison as a whole.
const (
	reasonCompressed = "a broken compressed payload of Snowplow"
	reasonVersion    = "a compressed payload of Snowplow of an unknown version"
)

// Snowplow opens the compressed payloads of a Snowplow stream. A payload is one gzip member or one zstd frame. Its
// content is a byte 1, a byte for the version of the events, and then each event after its length in four bytes, most
// significant first. (snowplow-incubator/common-streams 0.24.1, modules/streams-core, compression/Compressor.scala
// and Decompressor.scala.) A stream may have both compressed and other payloads.
type Snowplow struct{}

var _ dedupe.Framing = Snowplow{}

const (
	snowplowVersion = 1
	snowplowHeader  = 2 // bytes
	lengthSize      = 4 // bytes
)

// Open returns the events. A payload that is not compressed is an event by itself.
func (Snowplow) Open(ctx context.Context, payload []byte, room *dedupe.Room) (events [][]byte, framed bool, err error) {
	c := codecOf(payload)
	if c == nil {
		return nil, false, nil
	}
	text, err := c.snowplowText(ctx, payload, room)
	if err != nil {
		return nil, false, err
	}
	for rest := text[snowplowHeader:]; len(rest) > 0; {
		if len(rest) < lengthSize {
			return nil, false, &format.BadRecord{Reason: reasonCompressed}
		}
		length := int64(binary.BigEndian.Uint32(rest))
		if rest = rest[lengthSize:]; length > int64(len(rest)) {
			return nil, false, &format.BadRecord{Reason: reasonCompressed}
		}
		if err := room.Take(1, 0); err != nil {
			return nil, false, err
		}
		events = append(events, rest[:length:length])
		rest = rest[length:]
	}
	return events, true, nil
}

// snowplowText opens a payload and checks its header.
func (c *codec) snowplowText(ctx context.Context, payload []byte, room *dedupe.Room) ([]byte, error) {
	text, err := c.decompress(ctx, payload, reasonCompressed, room)
	switch {
	case err != nil:
		return nil, err
	case len(text) < snowplowHeader:
		return nil, &format.BadRecord{Reason: reasonCompressed}
	case text[0] != snowplowVersion:
		return nil, &format.BadRecord{Reason: reasonVersion}
	}
	return text, nil
}

// Pack compresses events in the way of the original, with its versions.
func (Snowplow) Pack(original []byte, events [][]byte) ([]byte, error) {
	c := codecOf(original)
	if c == nil {
		return nil, &format.BadRecord{Reason: reasonCompressed}
	}
	text, err := c.snowplowText(context.Background(), original, dedupe.NewRoom())
	if err != nil {
		return nil, err
	}
	content := text[:snowplowHeader:snowplowHeader]
	for _, event := range events {
		content = binary.BigEndian.AppendUint32(content, uint32(len(event)))
		content = append(content, event...)
	}
	return c.compress(func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}
