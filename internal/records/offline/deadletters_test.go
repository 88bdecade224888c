package offline

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestDeadLettersAgain reads the dead letters of a run after a fix. Each record is delivered once, or is a dead letter
// again with its whole content.
func TestDeadLettersAgain(t *testing.T) {
	t.Parallel()
	const other, fixed = `{"ID":"2","fp":"x"}`, `{"id":"1","fp":"y","contexts":{}}`
	b := newBench(t, rec("1", "x")+other+"\n"+fixed+"\nbroken\n"+strings.Repeat("z", 300)+"\n")
	b.job.maxLine = 256
	b.wantTally(b.run().Tally, dedupe.Tally{In: 5, New: 1, Synthetic: 0, DeadLettered: 4, Out: 1})
	letters := b.read("dead")
	if strings.Count(letters, `"entered":true`) != 1 {
		t.Fatalf("only the record without a new id has an entry: %s", letters)
	}
	again := func(out string, want dedupe.Tally) {
		b.job.Inputs = texts(letters + "{}\n")
		b.job.Inputs[0].Records = DeadLetters
		b.job.PoisonLimit.Off = true
		b.job.Out, b.job.DeadLetters = b.path(out), b.path(out+".dead")
		setFormat(&b.job, func(o *format.Options) { o.IDPath = "ID" })
		r, err := b.job.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.wantTally(r.Tally, want)
	}
	again("rest", dedupe.Tally{In: 5, New: 1, DeadLettered: 4, Out: 1})
	if got := b.read("rest"); got != other+"\n" {
		t.Errorf("got %s", got)
	}
	b.write("dead", b.read("rest.dead"))
	got := map[string]string{}
	for _, l := range b.deadLetters() {
		got[string(l.Data)] = l.Reason
	}
	if len(got) != 4 || got[fixed] != "the contexts are not an array" || got["broken"] != "not valid JSON" ||
		got[strings.Repeat("z", 300)] == "" || got["{}"] != "not a dead letter of oncebox dedupe" {
		t.Errorf("dead letters %q", got)
	}
	again("third", dedupe.Tally{In: 5, Natural: 1, DeadLettered: 4})
}
