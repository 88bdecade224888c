package eventsource

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// list finds the shards that the mapping does not know. The mapping needs it at the start and
// after the end of a shard, since every later shard has a parent that ended.
func (p *poller) list(ctx context.Context) error {
	in := &kinesis.ListShardsInput{StreamName: &p.stream.Name}
	for {
		out, err := p.Client.ListShards(ctx, in)
		if err != nil {
			return fmt.Errorf("eventsource: shards of %s: %w", p.stream, err)
		}
		for _, s := range out.Shards {
			p.add(s)
		}
		if out.NextToken == nil {
			p.unlisted = false
			return nil
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken} // Kinesis refuses a token together with the name
	}
}

func (p *poller) add(found types.Shard) {
	if p.shard(*found.ShardId) != nil {
		return
	}
	s := &shard{id: *found.ShardId, lanes: make([]lane, p.Parallelization)}
	for _, parent := range []*string{found.ParentShardId, found.AdjacentParentShardId} {
		if parent != nil {
			s.parents = append(s.parents, *parent)
		}
	}
	p.shards = append(p.shards, s)
}

func (p *poller) shard(id string) *shard {
	i := slices.IndexFunc(p.shards, func(s *shard) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return p.shards[i]
}

// ready reports whether a shard may be read. For the order of records consumers "always continue
// to read data from the parent shards until it is exhausted. Only then should you begin reading
// data from the child shards" (Resharding). A parent that is no longer listed has outlived the
// retention of the stream and cannot be read.
//
// Assumed: the parent is exhausted when all its records are delivered or discarded, not only read.
func (p *poller) ready(s *shard) bool {
	return !slices.ContainsFunc(s.parents, func(id string) bool {
		parent := p.shard(id)
		return parent != nil && (!parent.ended || len(parent.order) > 0)
	})
}
