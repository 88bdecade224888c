package sinktest_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

// A sink's test runs the cases of its level.
func ExampleAtLeastOnce() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T)
		sinktest.AtLeastOnce(t, func(testing.TB) sinktest.Target {
			var mu sync.Mutex
			var lines bytes.Buffer
			sink := dedupe.SinkFunc(func(_ context.Context, o dedupe.Output) error {
				mu.Lock()
				defer mu.Unlock()
				lines.Write(append(o.Data, '\n'))
				return nil
			})
			return sinktest.Target{
				Sink: sink,
				Read: func(testing.TB) [][]byte { return bytes.Split(lines.Bytes(), []byte("\n")) },
			}
		})
	}
}
