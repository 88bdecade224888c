package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

const scope = "orders"

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// row is a record in both formats.
type row struct {
	Event struct {
		ID string `parquet:"id"`
	} `parquet:"event"`
	Fingerprint *string   `parquet:"fp,optional"`
	At          time.Time `parquet:"at,timestamp(microsecond)"`
}

func rowOf(id, fingerprint string, at time.Time) row {
	r := row{Fingerprint: &fingerprint, At: at}
	r.Event.ID = id
	return r
}

// rows returns n rows. They include a copy, two records of one id, and a record without an id.
func rows(n int) (all []row) {
	for i := range n {
		all = append(all, rowOf(fmt.Sprint(i%(n*3/4)), fmt.Sprint("f", i/(n*3/4)*(i%2)), now.Add(-time.Duration(i)*time.Minute)))
	}
	return append(all, rowOf("", "f", now))
}

func jsonOf(all []row) string {
	var text strings.Builder
	for _, r := range all {
		fmt.Fprintf(&text, `{"event":{"id":%q},"fp":%q,"at":%q}`+"\n", r.Event.ID, *r.Fingerprint, r.At.Format(time.RFC3339Nano))
	}
	return text.String()
}

func input(name, content string) []offline.Input {
	return []offline.Input{{Name: name, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inJSON(t *testing.T, all []row) history.Source {
	t.Helper()
	f, err := format.NewJSON(format.Options{IDPath: "event.id", FingerprintPath: "fp", TimePath: "at"})
	must(t, err)
	return history.Lines(input("a", jsonOf(all)), f)
}

func inParquet(t *testing.T, all []row) history.Source {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.PageBufferSize(100))
	for part := range slices.Chunk(all, 7) {
		_, err := w.Write(part)
		must(t, err)
		must(t, w.Flush()) // ends a row group
	}
	must(t, w.Close())
	return history.Parquet(input("a", b.String()), history.Columns{ID: "event.id", Fingerprint: "fp", Time: "at"})
}

func newImport(source history.Source, store history.Store) *history.Import {
	return &history.Import{
		Source: source, Store: store, Scope: scope, Retention: dedupe.Retention{ForGood: true},
		Now: func() time.Time { return now },
	}
}

func run(t *testing.T, i *history.Import) history.Report {
	t.Helper()
	r, err := i.Run(t.Context())
	must(t, err)
	if r.Read != r.Entered+r.Known+r.Late+r.TooOld+r.Bad {
		t.Errorf("the report does not add up: %+v", r)
	}
	return r
}

// TestImport checks an import in both formats. Afterwards a record of the past is a duplicate, and a record with
// another fingerprint or id is not. Another import of the same records enters nothing.
func TestImport(t *testing.T) {
	t.Parallel()
	all := rows(40)
	for name, source := range map[string]history.Source{"json": inJSON(t, all), "parquet": inParquet(t, all)} {
		store := memstore.NewRecords()
		got := run(t, newImport(source, store))
		if got.Read != 41 || got.Entered != 35 || got.Known != 5 || got.Bad != 1 || !strings.HasPrefix(got.FirstBad, "a:41: the id is ") {
			t.Errorf("%s: got %+v", name, got)
		}
		decider := dedupe.Decider{Ledger: store, Scope: scope, Retention: dedupe.Retention{ForGood: true}}
		for i, r := range all[:40] {
			for fingerprint, want := range map[string]dedupe.Outcome{*r.Fingerprint: dedupe.Natural, "other": dedupe.Synthetic} {
				d := decider.Decide(t.Context(), []dedupe.Candidate{{
					ID: r.Event.ID, Fingerprint: fingerprint, Version: "v", Arrival: now,
					Owner: dedupe.Owner{Source: "stream", Sequence: fmt.Sprint(i, fingerprint), Sub: dedupe.Plain},
				}})[0]
				if d.Outcome != want && (i < 30 || d.Outcome != dedupe.Natural) { // a repeated id
					t.Errorf("%s: %s %s: want %v, got %+v", name, r.Event.ID, fingerprint, want, d)
				}
			}
		}
		entries := len(store.Entries())
		if again := run(t, newImport(source, store)); !again.Finished || again.Entered != got.Entered {
			t.Errorf("%s: again: %+v", name, again)
		}
		reversed := slices.Clone(all)
		slices.Reverse(reversed)
		if again := run(t, newImport(inJSON(t, reversed), store)); again.Entered != 0 || again.Known != 40 || len(store.Entries()) != entries {
			t.Errorf("%s: other files: %+v", name, again)
		}
	}
}

// TestKilled kills an import at each call of the store, before or after its effect, and starts it again. The
// entries must equal those of an import that was never killed, and all must be counted.
func TestKilled(t *testing.T) {
	t.Parallel()
	all := rows(40)
	reference := memstore.NewRecords()
	run(t, newImport(inJSON(t, all), reference))
	for n := 1; ; n++ {
		killed := false
		for _, after := range []bool{false, true} {
			store := memstore.NewRecords()
			calls := 0
			mortal := newImport(inJSON(t, all), dedupefault.HookStore(store, func(ctx context.Context, c *dedupefault.Call) error {
				calls++
				if calls < n {
					return c.Do(ctx)
				}
				if calls == n && after {
					return errors.Join(errKilled, c.Do(ctx))
				}
				return errKilled
			}))
			tick := now
			mortal.Batch, mortal.Now = 7, func() time.Time { tick = tick.Add(time.Second); return tick }
			_, err := mortal.Run(t.Context())
			killed = errors.Is(err, errKilled)
			again := newImport(inJSON(t, all), store)
			again.Batch = 9
			got := run(t, again)
			if got.Read != 41 || len(store.Entries()) != len(reference.Entries()) {
				t.Fatalf("killed at %d: %+v, and %d entries, not %d", n, got, len(store.Entries()), len(reference.Entries()))
			}
		}
		if !killed {
			if n < 10 {
				t.Errorf("only %d calls", n)
			}
			return
		}
	}
}

var errKilled = errors.New("killed")

// TestRetention checks that entries count from the times of their records, or from the beginning of the import. If
// the engine deletes by the clock, records whose entries would be purged already are left out.
func TestRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	all := []row{rowOf("new", "f", now.Add(-day)), rowOf("old", "f", now.Add(-17*day))}
	for horizon, tooOld := range map[time.Duration]int64{0: 0, 14 * day: 1} {
		store := memstore.NewRecords()
		i := newImport(inJSON(t, all), store)
		i.Retention = dedupe.Retention{Window: 2 * day, Horizon: horizon}
		if got := run(t, i); got.TooOld != tooOld || got.Entered != 2-tooOld {
			t.Errorf("%v: %+v", horizon, got)
		}
		found, err := store.Find(t.Context(), scope, []dedupe.Key{format.KeyOf("new")})
		must(t, err)
		if want := now.Add(day + horizon).Unix(); found[0].PurgeAt != want {
			t.Errorf("%v: purged at %d, want %d", horizon, found[0].PurgeAt, want)
		}
	}
}

// TestWait checks that Wait is called before each batch, with the number of its records.
func TestWait(t *testing.T) {
	t.Parallel()
	var waits []int
	i := newImport(inJSON(t, rows(40)), memstore.NewRecords())
	i.Batch, i.Wait = 15, func(_ context.Context, n int) error { waits = append(waits, n); return nil }
	run(t, i)
	if !slices.Equal(waits, []int{15, 15, 10}) {
		t.Errorf("waited for %v", waits)
	}
}

// TestParquetRefused tests columns that cannot be read, and files that are not Parquet files.
func TestParquetRefused(t *testing.T) {
	t.Parallel()
	type odd struct {
		ID   string   `parquet:"id"`
		List []string `parquet:"list,list"`
		Real float64  `parquet:"real"`
	}
	path := filepath.Join(t.TempDir(), "odd.parquet")
	must(t, parquet.WriteFile(path, []odd{{"a", []string{"b"}, 1}}))
	content, err := os.ReadFile(path)
	must(t, err)
	for column, says := range map[string]string{
		"none": "there is no column none; there are id, list.list.element, real", "list.list.element": "several values",
		"real": "is of the type DOUBLE",
	} {
		i := newImport(history.Parquet(input("odd", string(content)), history.Columns{ID: "id", Fingerprint: column}), memstore.NewRecords())
		if _, err := i.Run(t.Context()); !errors.Is(err, history.ErrNoColumn) || !strings.Contains(err.Error(), "odd: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", column, err)
		}
	}
	i := newImport(history.Parquet(input("text", "hello, this is text"), history.Columns{ID: "id", Fingerprint: "id"}), memstore.NewRecords())
	if _, err := i.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "text: this is not a Parquet file") {
		t.Errorf("got %v", err)
	}
}
