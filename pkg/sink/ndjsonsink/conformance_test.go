package ndjsonsink_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.AtLeastOnce(t, func(testing.TB) sinktest.Target {
		path := newPath(t)
		return sinktest.Target{
			Sink: open(t, path), Poison: &dedupe.Output{ID: "lines", Data: []byte("{\n")},
			Read: func(t testing.TB) [][]byte {
				text, err := os.ReadFile(path)
				must(t, err)
				return bytes.Split(text, []byte("\n"))
			},
		}
	})
}
