package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestLedgerExplain checks that the command predicts what dedupe then does with records, on each store.
func TestLedgerExplain(t *testing.T) {
	onStores(t, ledgerExplain)
}

func ledgerExplain(s *shell) {
	const (
		first     = `{"id":"a","v":1,"by":"one","at":"2099-11-20T00:00:00Z"}` + "\n"
		synthetic = `{"id":"a","v":2,"by":"two","at":"2099-11-20T01:00:00Z"}` + "\n"
	)
	s.run(exitDone, "init")
	s.tree(map[string]string{
		"first": first, "synthetic": synthetic, "copy": `{"id":"a","v":2,"by":"three","at":"2099-11-20T01:00:00Z"}`,
		"third": `{"id":"a","v":3,"by":"four","at":"2099-11-20T01:00:00Z"}`, "none": "\n", "text": "x\n",
		"other": `{"id":"b","v":1,"by":"one","at":"2099-11-20T00:00:00Z"}`,
	})
	settings := []string{"--id-path", "id", "--scope", "orders", "--owner-path", "by", "--time-path", "at"}
	explain := func(args ...string) []string {
		return append([]string{"ledger", "explain", "--scope", "orders"}, args...)
	}
	explainRecord := func(file string) []string {
		return append([]string{"ledger", "explain", "--record", file}, settings...)
	}
	dedupe := append([]string{"dedupe", "first", "synthetic", "--window", "48h", "--out", "out"}, settings...)
	s.run(exitDone, dedupe...).saying(s.T, "new 1 ", "synthetic 1 ")

	fingerprintOf := func(content string) string {
		f, err := format.NewJSON(format.Options{IDPath: "id", OwnerPath: "by", TimePath: "at"})
		if err != nil {
			s.Fatal(err)
		}
		fields, err := f.Read(s.Context(), []byte(content))
		if err != nil {
			s.Fatal(err)
		}
		return fields.Fingerprint
	}
	derivedID := format.DerivedID("a", fingerprintOf(synthetic))
	for file, want := range map[string]explainedAnswer{
		"first": {"retry", "a"}, "synthetic": {"retry", derivedID}, "copy": {"natural", ""},
		"third": {"synthetic", format.DerivedID("a", fingerprintOf(s.read("third")))},
	} {
		for range 2 { // nothing is changed
			var got explainedJSON
			s.json(&got, explainRecord(file)...)
			if got.Answer == nil || *got.Answer != want {
				s.Errorf("%s: want %+v, got %+v", file, want, got.Answer)
			}
		}
	}

	var got explainedJSON
	s.json(&got, explainRecord("copy")...)
	if len(got.Entries) != 2 {
		s.Fatalf("got %+v", got.Entries)
	}
	name, derived := got.Entries[0], got.Entries[1]
	if name.ID != "a" || !strings.HasSuffix(name.Owner, "/1/1 one") || *name.SameFingerprint || name.OwnRecord || !name.Counts ||
		name.Arrival.Format("15:04") != "00:00" || name.Version == "" || len(name.Content) != 32 {
		s.Errorf("entry of the id: %+v", name)
	}
	if derived.ID != derivedID || !strings.HasSuffix(derived.Owner, "/2/1 two") || !*derived.SameFingerprint || derived.OwnRecord || !derived.Counts {
		s.Errorf("entry of the derived id: %+v", derived)
	}

	s.run(exitDone, explain("a")...).saying(s.T, "entry of     a\nowner        run/", "/1/1 one\n", "counts       yes, until 2099-1")
	s.run(exitDone, explain("a", "--arrival", "2200-01-01")...).saying(s.T, "counts       no, only until 2099-1")
	s.run(exitDone, explain("a", "--arrival", "2200-01-01", "--fingerprint", "x")...).saying(s.T,
		", not equal to the record's", "answer       new: the record is delivered")
	s.run(exitDone, explain("a", "--fingerprint", fingerprintOf(first))...).saying(s.T,
		", equal to the record's", "answer       natural duplicate: the record is dropped")
	s.run(exitDone, explain("a", "--fingerprint", "x")...).saying(s.T, "synthetic duplicate: the record is delivered as "+format.DerivedID("a", "x"))
	s.run(exitNo, explain("b")...).saying(s.T, "the ledger has no entry of this id in the scope orders")
	s.run(exitNo, explainRecord("other")...).saying(s.T, "answer       new: the record is delivered")
	s.run(exitNo, "ledger", "explain", "a").saying(s.T, "in the scope default")
	for _, bad := range []struct {
		args []string
		says string
	}{
		{explain(), "give an id, or a record with --record FILE"},
		{explain("a", "--record", "first"), "give an id, or a record with --record FILE"},
		{explain("--record", "first"), "--id-path is missing"},
		{explain("--record", "first", "--id-path", "id", "--fingerprint", "x"), "--record and --fingerprint exclude each other"},
		{explain("a", "--ids", "derived"), "--ids derived needs --fingerprint or --record"},
		{explain("a", "--ledger", "missing.db"), "--store sqlite:missing.db: there is no such file"},
		{explainRecord("none"), "--record none: the file has no record"},
		{explainRecord("text"), "--record text: "},
	} {
		s.run(exitUsage, bad.args...).saying(s.T, bad.says)
	}
}

// TestLedgerExplainDerived checks that a record is found under its derived id with --ids derived.
func TestLedgerExplainDerived(t *testing.T) {
	s := newShell(t)
	s.tree(map[string]string{"in": `{"id":"a"}` + "\n"})
	s.run(exitDone, "dedupe", "in", "--id-path", "id", "--ids", "derived", "--ledger", "l.db", "--out", "out")
	args := []string{"ledger", "explain", "--record", "in", "--id-path", "id", "--ledger", "l.db"}
	s.run(exitDone, args...).saying(t, "counts       yes, forever", "answer       new")
	s.run(exitDone, append(args, "--ids", "derived")...).saying(t, "counts       yes, forever", "answer       natural duplicate")
}

// TestLedgerExplainVoid: an entry that its run has not saved does not count.
func TestLedgerExplainVoid(t *testing.T) {
	s := newShell(t)
	store, err := ledgersqlite.Create(t.Context(), filepath.Join(s.dir, "l.db"))
	if err != nil {
		t.Fatal(err)
	}
	run := dedupe.Run{ID: "20261126T120000.000Z-abcdefgh", Digest: "d", OutputID: "o", Rests: true}
	_, putErr := store.PutIfAbsent(t.Context(), []dedupe.Entry{{
		Scope: "default", Key: format.KeyOf("a"),
		Owner: dedupe.Owner{Source: dedupe.RunSource(run.ID, 1), Sequence: "1", Sub: dedupe.Plain},
	}})
	if err := errors.Join(putErr, store.SaveRun(t.Context(), "default", run), store.Close()); err != nil {
		t.Fatal(err)
	}
	s.run(exitDone, "ledger", "explain", "a", "--fingerprint", "x", "--ledger", "l.db").saying(t,
		"counts       no: its run has not saved the record", "answer       new: the record is delivered")
}
