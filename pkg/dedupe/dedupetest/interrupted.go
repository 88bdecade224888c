package dedupetest

import (
	"context"
	"crypto/md5"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// interrupted lets the name's entry be purged, and perhaps taken by a copy of
// the record that is on its way, just before its purge time is raised.
type interrupted struct {
	hooked
	f     *fixture
	taken bool
	done  bool
}

func (i *interrupted) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	if !i.done {
		i.done = true
		i.f.must(i.f.Raw.DropEntry(ctx, i.f.scope, format.KeyOf("a")))
		if i.taken {
			taker := i.f.entry("a", "a copy", epoch.Add(112*time.Second))
			taker.Fingerprint = "y"
			i.f.wantPut("the copy", taker, nil)
		}
	}
	return i.Store.RaisePurge(ctx, raises)
}

// resigned breaks the first byte of an aggregate's message and makes the
// digest fit again.
func resigned(aggregate []byte, first byte) []byte {
	const magic = 4
	message := append([]byte(nil), aggregate[magic:len(aggregate)-md5.Size]...)
	message[0] = first
	digest := md5.Sum(message)
	return append(append(append([]byte(nil), aggregate[:magic]...), message...), digest[:]...)
}
