package firehosesink

import "context"

// SetWait replaces the pauses between attempts.
func (s *Sink) SetWait(wait func(ctx context.Context, attempt int) error) { s.batches.Wait = wait }
