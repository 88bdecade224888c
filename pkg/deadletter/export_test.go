package deadletter

import (
	"context"
	"time"
)

// MaxAttempts is how often a bucket puts an object.
const MaxAttempts = maxAttempts

// NotifyPause is how long a notifier that failed is left alone.
const NotifyPause = notifyPause

// SetWait replaces the pauses between attempts.
func (b *Bucket) SetWait(wait func(ctx context.Context, attempt int) error) { b.wait = wait }

// SetNow replaces the clock.
func (s *Store) SetNow(now func() time.Time) { s.now = now }

// Translate reads an error as bucket and queue do.
func Translate(err error) error { return translate("s3://b", "put object", err) }
