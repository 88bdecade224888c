package deadletter

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/records/s3store"
)

// MaxAttempts is the number of attempts of a put.
const MaxAttempts = s3store.MaxAttempts

// NotifyPause is how long a notifier is not used after a failure.
const NotifyPause = notifyPause

// SetWait replaces the pauses between attempts.
func (b *Bucket) SetWait(wait func(ctx context.Context, attempt int) error) { b.wait = wait }

// SetNow replaces the clock.
func (s *Store) SetNow(now func() time.Time) { s.now = now }

// Translate translates an error as bucket and queue do.
func Translate(err error) error { return translate("s3://b", "put object", err) }

// SetFolderPage sets how many names a page of a Folder has.
func SetFolderPage(l Listed, n int) { l.(*Folder).page = n }
