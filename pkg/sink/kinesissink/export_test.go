package kinesissink

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/pause"
)

// MaxAttempts is the number of attempts without progress.
const MaxAttempts = maxAttempts

// AggregationMaxSize is the size of the largest aggregate in bytes.
const AggregationMaxSize = aggregationMaxSize

// SetWait replaces the pauses between attempts.
func (s *Sink) SetWait(wait func(ctx context.Context, attempt int) error) { s.wait = wait }

// BackOff is the default pause.
var BackOff = pause.BackOff

// Translate translates an error as a sink of the stream does.
func Translate(stream string, err error) error { return (&Sink{stream: stream}).translate(err) }
