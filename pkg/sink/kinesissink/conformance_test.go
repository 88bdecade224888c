package kinesissink_test

import (
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sinktest.AtLeastOnce(t, func(testing.TB) sinktest.Target {
		s := newStream(t, 3)
		return sinktest.Target{
			Sink: s.sink(t), Poison: &dedupe.Output{ID: "large", Data: make([]byte, kinesissink.DefaultMaxRecord+1)},
			Read: func(testing.TB) (payloads [][]byte) {
				for _, shard := range s.read(t) {
					for _, r := range shard.records {
						payloads = append(payloads, r.Data)
					}
				}
				return payloads
			},
		}
	})
}
