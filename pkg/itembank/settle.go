package itembank

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// maxStalls bounds how often in a row a batch may make no progress against a
// busy store before it gives up.
const maxStalls = 12

// settle sends a batch until each part of it has an answer. What a transaction
// refused is answered by that; the rest was only in its company and is sent again.
// The answers that it has come with an error too.
func settle[In, Out any](ctx context.Context, b *Bank, batch []In, send func(context.Context, []In) ([]Out, error), settled func(Out) bool) ([]Out, error) {
	answers := make([]Out, len(batch))
	open := make([]int, len(batch))
	for i := range open {
		open[i] = i
	}
	for stalls := 0; len(open) > 0; {
		part := make([]In, len(open))
		for i, j := range open {
			part[i] = batch[j]
		}
		got, err := send(ctx, part)
		if err != nil {
			return answers, err
		}
		var rest []int
		for i, j := range open {
			if answers[j] = got[i]; !settled(got[i]) {
				rest = append(rest, j)
			}
		}
		if len(rest) < len(open) {
			stalls = 0
		} else if err := b.backOff(ctx, stalls, maxStalls, "rows met other transactions"); err != nil {
			return answers, err
		} else {
			stalls++
		}
		open = rest
	}
	return answers, nil
}

func (b *Bank) addItems(ctx context.Context, additions []engine.AddRequest) ([]engine.AddResult, error) {
	return settle(ctx, b, additions, b.store.AddItems, func(a engine.AddResult) bool { return a.Outcome != engine.AddUnsettled })
}

func (b *Bank) endItems(ctx context.Context, endings []engine.EndRequest) ([]engine.EndResult, error) {
	return settle(ctx, b, endings, b.store.EndItems, func(e engine.EndResult) bool { return e != engine.EndUnsettled })
}
