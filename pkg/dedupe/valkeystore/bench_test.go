package valkeystore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// BenchmarkEnter enters new records. It reports keys a second, and the bytes that the server takes for a key of the last
// round, with about 100 keys in a hash.
func BenchmarkEnter(b *testing.B) {
	for _, batch := range []int{1000, 5000} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			server := testengine.FreshValkey(b)
			o := options(server.Addr)
			o.Buckets = max(1, b.N*batch/100)
			l := open(b, o)
			if err := l.Warm(b.Context(), "bench", retention); err != nil {
				b.Fatal(err)
			}
			empty, done := usedMemory(b, server.Addr), 0
			b.ResetTimer()
			for range b.N {
				q := dedupe.Question{Scope: "bench", Retention: retention, Records: make([]dedupe.Candidate, batch)}
				for i := range q.Records {
					id := strconv.Itoa(done + i)
					q.Records[i] = dedupe.Candidate{
						ID: id, Owner: dedupe.Owner{Source: "bench", Sequence: id}, Fingerprint: id, Arrival: epoch,
					}
				}
				answers, err := l.Enter(b.Context(), q)
				if err != nil || answers[0].Found != dedupe.Put || answers[batch-1].Found != dedupe.Put {
					b.Fatalf("%+v, %v", answers[0], err)
				}
				done += batch
			}
			b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "keys/s")
			b.ReportMetric(float64(usedMemory(b, server.Addr)-empty)/float64(done), "B/key")
		})
	}
}

func usedMemory(b *testing.B, address string) int {
	text, err := admin(b, address, "INFO", "memory").ToString()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("no used_memory")
	return 0
}
