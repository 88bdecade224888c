package offline

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestDifferences checks that records that share an id and differ in one or two members are counted by these members,
// under every policy. Copies, records that differ in more members, and records with other ids are not counted.
func TestDifferences(t *testing.T) {
	t.Parallel()
	input := `{"id":"1","n":1,"m":{"at":1},"x":1}
{"id":"1","m":{"at":1},"n":1.0,"x":1}
{"id":"1","n":1,"m":{"at":2},"x":1}
{"id":"1","n":1,"m":{"at":3},"x":1}
{"id":"1","n":2,"m":{"at":3},"x":1}
{"id":"1","n":2,"m":{"at":3},"x":2}
{"id":"2","n":2,"m":{"at":1},"x":1}
`
	want := []Difference{{[]string{`m.at`}, 2}, {[]string{"m.at", "n"}, 1}}
	for _, policy := range []IDs{FirstKeeps, Derived, RenameAll} {
		b := newBench(t, input)
		b.job.Format, b.job.IDs, b.job.BatchSize = inJSON(format.Options{IDPath: "id"}), policy, 2
		if r := b.run(); !reflect.DeepEqual(r.Differences, want) || r.ComparedIDs != 0 {
			t.Errorf("%s: want %v, got %+v", policy, want, r)
		}
	}
	for name, change := range map[string]func(*Job){
		"volatile":    func(j *Job) { setFormat(j, func(o *format.Options) { o.Volatile = []string{"m", "n", "x"} }) },
		"fingerprint": func(j *Job) { setFormat(j, func(o *format.Options) { o.FingerprintPath = "x" }) },
	} {
		b := newBench(t, input)
		b.job.Format = inJSON(format.Options{IDPath: "id"})
		change(&b.job)
		if r := b.run(); r.Differences != nil {
			t.Errorf("%s: want nothing, got %+v", name, r.Differences)
		}
	}
}

// TestDifferencesAreBounded: the first ids are compared, and the report says how many.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	for at := range 2 {
		for id := range mostCompared + 1 {
			fmt.Fprintf(&input, `{"id":%d,"at":%d}`+"\n", id, at)
		}
	}
	b := newBench(t, input.String())
	b.job.Format = inJSON(format.Options{IDPath: "id"})
	r := b.run()
	if want := []Difference{{[]string{"at"}, mostCompared}}; !reflect.DeepEqual(r.Differences, want) || r.ComparedIDs != mostCompared {
		t.Errorf("want %v, got %v of %d", want, r.Differences, r.ComparedIDs)
	}
	b.wantTally(r.Tally, dedupe.Tally{In: 2 * (mostCompared + 1), New: mostCompared + 1, Synthetic: mostCompared + 1, Out: 2 * (mostCompared + 1)})
}
