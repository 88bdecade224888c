package eventsource

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// list finds the shards that the mapping does not know yet. That is needed at the
// start and after a shard has ended: all others are children of one that has.
func (p *poller) list(ctx context.Context) error {
	since := time.Time{}
	if p.StartingPosition == Latest && !p.Checkpoint.began() {
		since = p.now()
	}
	in := &kinesis.ListShardsInput{StreamName: &p.stream.Name}
	for {
		out, err := p.Client.ListShards(ctx, in)
		if err != nil {
			return fmt.Errorf("eventsource: shards of %s: %w", p.stream, err)
		}
		for _, s := range out.Shards {
			p.add(s, since)
		}
		if out.NextToken == nil {
			p.unlisted = false
			return nil
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken} // with the name it would be refused
	}
}

func (p *poller) add(found types.Shard, since time.Time) {
	if p.shard(*found.ShardId) != nil {
		return
	}
	s := &shard{id: *found.ShardId, lanes: make([]lane, p.Parallelization)}
	for _, parent := range []*string{found.ParentShardId, found.AdjacentParentShardId} {
		if parent != nil {
			s.parents = append(s.parents, *parent)
		}
	}
	s.latest = !since.IsZero() && p.ready(s) // the tip moves on while it waits for parents
	p.Checkpoint.see(s.id, since)
	p.shards = append(p.shards, s)
}

func (p *poller) shard(id string) *shard {
	i := slices.IndexFunc(p.shards, func(s *shard) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return p.shards[i]
}

// ready tells whether a shard may be read. For the order of records consumers "always
// continue to read data from the parent shards until it is exhausted. Only then should
// you begin reading data from the child shards" (Resharding). A parent that is not listed
// any more has outlived the stream's retention, and nothing of it can be read.
//
// Assumed: the end is where all of the parent is delivered or given up, not only read.
func (p *poller) ready(s *shard) bool {
	return !slices.ContainsFunc(s.parents, func(id string) bool {
		parent := p.shard(id)
		return parent != nil && (!parent.ended || len(parent.order) > 0)
	})
}
