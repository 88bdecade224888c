package snowplowmanifest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/internal/records/snowplowmanifest"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// An original is an event, however often it was sent. Two originals may share an id.
type original struct{ id, fingerprint string }

// warehouse counts the ids under which an original was loaded.
type warehouse map[original]map[string]bool

func (w warehouse) load(o original, id string) {
	if w[o] == nil {
		w[o] = map[string]bool{}
	}
	w[o][id] = true
}

// batchJob is a stand-in for Snowplow's (ShredJob.scala and Deduplication.scala): it keeps the first event of an id and
// a fingerprint that is not in its manifest. Then it renames the events that share an id within the batch.
type batchJob struct {
	seen      map[original]time.Time
	warehouse warehouse
}

func (j *batchJob) run(batch []original, etlTime time.Time) {
	var kept []original
	members := map[string]int{}
	for _, o := range batch {
		if _, known := j.seen[o]; !known {
			j.seen[o] = etlTime
			kept = append(kept, o)
			members[o.id]++
		}
	}
	for _, o := range kept {
		id := o.id
		if members[id] > 1 {
			id = uuid.NewString()
		}
		j.warehouse.load(o, id)
	}
}

func (j *batchJob) rows() (rows []snowplowmanifest.Row) {
	for o, at := range j.seen {
		rows = append(rows, snowplowmanifest.Row{EventID: o.id, Fingerprint: o.fingerprint, ETLTime: at})
	}
	return rows
}

// TestSwitch runs the batch job on the first events of a stream. Its manifest is imported before and after its last
// batches. Then the function processes the stream from its beginning, with repeated chunks. Each original must be in
// the warehouse under one id, as if one system had processed all events.
func TestSwitch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stream := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) original {
			return original{
				uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, rapid.IntRange(0, 4).Draw(t, "id"))).String(),
				rapid.SampledFrom([]string{"fp1", "fp2", "fp3"}).Draw(t, "fingerprint"),
			}
		}), 1, 30).Draw(t, "stream")
		end := rapid.IntRange(0, len(stream)).Draw(t, "end of the batch job")
		loaded := warehouse{}
		job := batchJob{map[original]time.Time{}, loaded}
		store := memstore.NewRecords()
		decider := &dedupe.Decider{Ledger: store, Scope: scope, Retention: retention}
		for from := 0; from < end; {
			to := from + rapid.IntRange(1, end-from).Draw(t, "batch")
			job.run(stream[from:to], batchTime.Add(time.Duration(from)*time.Minute))
			if from = to; from == end || rapid.Bool().Draw(t, "import") {
				importAll(t, store, job.rows())
			}
		}
		runFunction(t, decider, stream, loaded)
		for _, o := range stream {
			if len(loaded[o]) != 1 {
				t.Fatalf("%v is loaded under %d ids; the batch job ended at %d of %v", o, len(loaded[o]), end, stream)
			}
		}
		ids := map[string]original{}
		for o, under := range loaded {
			for id := range under {
				// The batch job itself finds no synthetic duplicates across batches.
				if other, taken := ids[id]; taken && (job.seen[o].IsZero() || job.seen[other].IsZero()) {
					t.Fatalf("%v and %v have one id", o, other)
				}
				ids[id] = o
			}
		}
	})
}

func importAll(t *rapid.T, store history.Store, rows []snowplowmanifest.Row) {
	report, err := importOf(rowsOf(rows, nil), store).Run(t.Context())
	if err != nil || report.Late != 0 || report.Entered+report.Known != int64(len(rows)) {
		t.Fatalf("%d rows: %+v, %v", len(rows), report, err)
	}
}

// runFunction delivers a stream to the function in chunks, some of them again from a record on.
func runFunction(t *rapid.T, decider *dedupe.Decider, stream []original, loaded warehouse) {
	for from := 0; from < len(stream); {
		to := from + rapid.IntRange(1, len(stream)-from).Draw(t, "chunk")
		var candidates []dedupe.Candidate
		for i := from; i < to; i++ {
			candidates = append(candidates, event(i+1, stream[i].id, stream[i].fingerprint))
		}
		for i, d := range decider.Decide(t.Context(), candidates) {
			switch d.Outcome {
			case dedupe.New, dedupe.Retry, dedupe.Synthetic:
				loaded.load(stream[from+i], d.ID)
			case dedupe.Natural:
			default:
				t.Fatalf("%+v", d)
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "again") > 0 {
			from = to
		}
	}
}
