package objectsink

import "context"

// PositionText returns the name of a position.
func PositionText(sequence string, step int) string { return position{sequence, step}.String() }

// ParsePosition reads the name of a position.
func ParsePosition(text string) (sequence string, step int, err error) {
	p, err := parsePosition(text)
	return p.sequence, p.step, err
}

// SetWait replaces the pauses between attempts.
func (b *Bucket) SetWait(wait func(ctx context.Context, attempt int) error) { b.store.Wait = wait }
