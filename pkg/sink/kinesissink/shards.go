package kinesissink

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// hash is a hash key: a number of 128 bits, with the highest byte first.
type hash [16]byte

func (h hash) compare(other hash) int { return bytes.Compare(h[:], other[:]) }

// hashOf returns the hash key of a record that has passed Check: its explicit hash key, or the MD5 of its partition
// key (API reference, PutRecordsRequestEntry).
func hashOf(o dedupe.Output) hash {
	if h, ok := parseHash(o.ExplicitHashKey); ok {
		return h
	}
	return md5.Sum([]byte(partitionKey(o)))
}

func parseHash(decimal string) (h hash, ok bool) {
	n, ok := new(big.Int).SetString(decimal, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 8*len(h) {
		return h, false
	}
	n.FillBytes(h[:])
	return h, true
}

// shard is an open shard. It takes the hash keys from first to last.
type shard struct {
	id          string
	first, last hash
	start       string // first, as the API writes it
}

// shardMap holds the open shards in the order of their hash keys. A nil map has no shards.
type shardMap struct{ shards []*shard }

// of returns the shard of a hash key, or nil if it is not known.
func (m *shardMap) of(h hash) *shard {
	if m == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(m.shards, h, func(s *shard, h hash) int { return s.last.compare(h) })
	if i == len(m.shards) || m.shards[i].first.compare(h) > 0 {
		return nil
	}
	return m.shards[i]
}

// covers reports whether a shard has all hash keys of another one, as after a merge.
func (m *shardMap) covers(id string, s *shard) bool {
	other := m.of(s.first)
	return other != nil && other.id == id && other.last.compare(s.last) >= 0
}

// The limits of listing shards. While they cannot be listed, records are sent plain.
const (
	listTimeout = 2 * time.Second  // of the whole list: the Send waits for it
	listPause   = 10 * time.Second // after a list that failed
)

// shardList keeps the shard map of a stream.
type shardList struct {
	client   API
	stream   string
	fallback func(error)

	mu     sync.Mutex
	kept   *shardMap // nil: not known
	failed bool      // the last listing failed
	retry  time.Time // after a failure: when the shards are listed again at the earliest
}

// get returns the shard map. It lists the shards if they are not known. If it returns nil, all records are sent
// plain.
func (l *shardList) get(ctx context.Context) *shardMap {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept != nil || time.Now().Before(l.retry) {
		return l.kept
	}
	m, err := l.list(ctx)
	switch {
	case err == nil:
		l.kept, l.failed = m, false
	case ctx.Err() == nil: // otherwise the caller has no time left, and the listing may be fine
		if !l.failed {
			l.fallback(err)
		}
		l.failed, l.retry = true, time.Now().Add(listPause)
	}
	return l.kept
}

// next returns a shard map that is newer than wrong.
func (l *shardList) next(ctx context.Context, wrong *shardMap) *shardMap {
	l.mu.Lock()
	if l.kept == wrong {
		l.kept = nil
	}
	l.mu.Unlock()
	return l.get(ctx)
}

func (l *shardList) list(ctx context.Context) (*shardMap, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	m := &shardMap{}
	in := &kinesis.ListShardsInput{
		StreamName: &l.stream, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}, // the open shards
	}
	for {
		out, err := l.client.ListShards(ctx, in)
		if err != nil {
			return nil, l.cannot(err)
		}
		for _, s := range out.Shards {
			if err := m.add(s); err != nil {
				return nil, l.cannot(err)
			}
		}
		if out.NextToken == nil {
			break
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken} // Kinesis refuses a token together with the name
	}
	slices.SortFunc(m.shards, func(a, b *shard) int { return a.first.compare(b.first) })
	return m, nil
}

func (l *shardList) cannot(err error) error {
	return fmt.Errorf("kinesis: list the shards of stream %q: %w; records are sent without aggregation; "+
		"if the right is missing, allow kinesis:ListShards on the stream", l.stream, err)
}

func (m *shardMap) add(s types.Shard) error {
	if s.HashKeyRange == nil {
		return fmt.Errorf("shard %q has no range of hash keys", aws.ToString(s.ShardId))
	}
	start, end := aws.ToString(s.HashKeyRange.StartingHashKey), aws.ToString(s.HashKeyRange.EndingHashKey)
	first, ok := parseHash(start)
	last, alsoOK := parseHash(end)
	if !ok || !alsoOK {
		return fmt.Errorf("shard %q has the hash keys %q to %q, which are not numbers", aws.ToString(s.ShardId), start, end)
	}
	m.shards = append(m.shards, &shard{id: aws.ToString(s.ShardId), first: first, last: last, start: start})
	return nil
}
