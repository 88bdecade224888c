package sqssink_test

import (
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"standard": standard, "fifo": fifo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sinktest.AtLeastOnce(t, func(testing.TB) sinktest.Target {
				q := &queue{}
				return sinktest.Target{
					Sink: newSink(t, q, url), Poison: &dedupe.Output{ID: "large", Data: make([]byte, sqssink.LargestRecord+1)},
					Read: func(testing.TB) (payloads [][]byte) {
						for _, request := range q.requests {
							for _, m := range request {
								payloads = append(payloads, []byte(*m.MessageBody))
							}
						}
						return payloads
					},
				}
			})
		})
	}
}
