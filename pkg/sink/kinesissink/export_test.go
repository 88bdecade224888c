package kinesissink

import "context"

// MaxAttempts is how often records are sent without any progress.
const MaxAttempts = maxAttempts

// SetWait replaces the pauses between attempts.
func (s *Sink) SetWait(wait func(ctx context.Context, attempt int) error) { s.wait = wait }

// BackOff is the pause of a sink by default.
var BackOff = backOff

// Translate reads an error as a sink of the stream does.
func Translate(stream string, err error) error { return (&Sink{stream: stream}).translate(err) }
