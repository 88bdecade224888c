package dedupefault

import (
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const (
	holds  = "pkg/dedupe/holds.go"
	leases = "internal/shared/lease/lease.go"
)

// queueMutants break rules of messages of a queue in the source, where no hook reaches them.
var queueMutants = []struct {
	name           string
	file, from, to string
}{
	{"sent-after-the-lease", "pkg/dedupe/tostream.go", "if r.hold.over() {", "if false {"},
	{"own-lease-by-the-early-clock", holds, "!h.server.Late().Before(", "!h.server.Early().Before("},
	{"lease-by-the-own-clock", holds, "lease.End(server.Early(), length)", "lease.End(r.clock.Now(), length)"},
	{"message-in-progress-taken-over", leases, "\treturn Twin\n", "\treturn Free\n"},
	{"done-until-the-lease-is-over", holds, "\t\tends = endless\n", "\t\t_ = endless\n"},
	{"copy-does-not-wait-for-its-original", holds, "u.done = r.hold.marked[u.decision.state.waitsFor]", "u.done = true"},
}

// TestQueueMutants checks that the histories of queues find each of these.
func TestQueueMutants(t *testing.T) {
	testengine.CheckOnly(t)
	var all []mutanttest.Mutant
	for _, m := range queueMutants {
		change := mutanttest.Change{File: m.file, Old: m.from, New: m.to}
		all = append(all, mutanttest.Mutant{Name: m.name, Changes: []mutanttest.Change{change}})
	}
	built := mutanttest.Build(t, "../../..", "internal/testkit/dedupefault", all...)
	const histories = "-test.run=^TestQueues$/^memory$"
	if output, err := search.In(t, built.Intact(), histories, "-seed=0", "-seeds=100"); err != nil {
		t.Fatalf("without a mutant: %v\n%s", err, output)
	}
	for _, m := range queueMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			search.FirstIn(t, built.Of(t, m.name), mostHistories, histories)
		})
	}
}
