package redrive_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// TestFromReader checks that letters from files are redriven once, because their markers are in the store.
func TestFromReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	batch := []dedupe.Record{record(1, "a", "x", false), record(2, "b", "x", false)}
	_, message := w.giveUp(batch...)
	document, err := deadletter.Encode(letter(3, "c"))
	must(t, err)
	received, err := json.Marshal(map[string]any{"Messages": []any{map[string]any{"Body": string(message)}}})
	must(t, err)
	archive := deadletter.NewArchive(newMemory())
	inStream := func(context.Context, *deadletter.GivenUp) ([]dedupe.Record, error) { return batch, nil }
	for i, want := range []string{"done:2 refused:1", "already-done:2 refused:1"} {
		text := string(document) + string(received) + "{}\n"
		j := w.job()
		j.Items, j.Markers = redrive.FromReader(archive, "", "", "f", strings.NewReader(text)), archive
		j.Concurrency, j.Records = i*2, inStream
		counts := map[redrive.Status]int{}
		must(t, j.Run(t.Context(), func(r redrive.Report) error {
			counts[r.Status]++
			return nil
		}))
		var got []string
		for status, n := range counts {
			got = append(got, fmt.Sprint(status, ":", n))
		}
		if joined(got) != want || i > 0 && w.ids() != "a:1 b:1 c:1" {
			t.Errorf("%s, delivered %s", joined(got), w.ids())
		}
	}
	j := w.job()
	j.Items = redrive.FromReader(archive, "", "", "f.json", strings.NewReader("{} {"))
	if _, err := w.run(j); err == nil || !strings.Contains(err.Error(), "f.json: object 2 is not JSON") {
		t.Errorf("damaged: %v", err)
	}
}

// TestNamed checks that Named yields the letters with some names. A letter that does not exist is refused.
func TestNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	w.put(letter(1, "a"))
	w.put(letter(2, "b"))
	archive := deadletter.NewArchive(w)
	l := letter(2, "b")
	name := "poison/" + scope + "/" + deadletter.Name(l.Scope, l.Owner, l.Data)
	for range 2 {
		j := w.job()
		j.Items = redrive.Named(archive, []string{name, name + "x"})
		reports, err := w.run(j)
		must(t, err)
		if len(reports) != 2 || reports[name+"x"].Status != redrive.Refused || w.ids() != "b:1" {
			t.Errorf("%v", reports)
		}
	}
}
