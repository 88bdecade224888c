package kinesissink

import "context"

// AggregationMaxSize is the size of the largest aggregate in bytes.
const AggregationMaxSize = aggregationMaxSize

// SetWait replaces the pauses between attempts.
func (s *Sink) SetWait(wait func(ctx context.Context, attempt int) error) { s.attempts.Wait = wait }
