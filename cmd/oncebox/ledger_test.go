package main

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// TestLedgerImport: records of the past are duplicates after an import, on each store.
func TestLedgerImport(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		ledgerImport(s)
	})
}

// TestFilesByStatements counts the requests of an import, and of a run over files that knows the imported ids: 25 entries
// share one, and the rows of 50 taken keys another. A put of its own for each would be 50 or 75 more.
func TestFilesByStatements(t *testing.T) {
	proxy := faultproxy.New(t, testengine.Dynoxide(t), func(int, string) faultproxy.Fault { return faultproxy.None })
	s := newShell(t)
	s.env = append(localEngine(proxy.URL), "ONCEBOX_BANK_TABLE=bank-"+rand.Text(), "ONCEBOX_DEDUPE_TABLE=dedupe-"+rand.Text())
	s.run(exitDone, "init")
	lines := func(n int) (text string) {
		for id := range n {
			text += fmt.Sprintf(`{"id":"%d"}`+"\n", id)
		}
		return text
	}
	s.file("past", lines(50))
	s.file("all", lines(75))
	for _, c := range []struct {
		args              []string
		says              string
		statements, reads int
	}{
		{[]string{"ledger", "import", "past"}, "entered 50 ", 2, 0},
		{[]string{"dedupe", "all", "--out", "out"}, "new 25 + retry 0 + natural 50", 3, 1},
	} {
		before := len(proxy.Operations())
		s.run(exitDone, append(c.args, "--id-path", "id")...).saying(t, c.says)
		requests := map[string]int{}
		for _, operation := range proxy.Operations()[before:] {
			requests[operation]++
		}
		const ofTheRun = 10 // saves and beats, whose number does not depend on the records
		if requests["BatchExecuteStatement"] != c.statements || requests["BatchGetItem"] != c.reads || requests["PutItem"] > ofTheRun {
			t.Errorf("%v: %v", c.args, requests)
		}
	}
}

// TestOtherSettings: fingerprints of an import and of a run that were made with different settings are never equal. Each
// order says so, and so does a dry run.
func TestOtherSettings(t *testing.T) {
	s := newShell(t)
	s.file("past", `{"id":"A","n":1,"at":1}`+"\n"+`{"id":"B","n":1,"at":1}`+"\n")
	s.file("in", `{"id":"A","n":1,"at":2}`+"\n"+`{"id":"B","n":1,"at":2}`+"\n")
	const says = `the ledger has the id A from `
	imported := []string{"ledger", "import", "past", "--id-path", "id", "--ledger"}
	deduped := []string{"dedupe", "in", "--id-path", "id", "--volatile", "at", "--ledger"}
	s.run(exitDone, append(imported, "import-first")...)
	s.run(exitLook, append(deduped, "import-first", "--dry-run")...).saying(t, "synthetic 2 ", says+"import/")
	s.run(exitLook, append(deduped, "import-first", "--output", "json")...).saying(t, `"other_settings":{"id":"A","owner":"import/`)
	s.run(exitDone, append(deduped, "run-first")...)
	s.run(exitLook, append(imported, "run-first")...).saying(t, "entered 2 ", says+"run/", "Give the same paths and --volatile")

	// An entry that a stopped run has not saved is void: no record is compared with it.
	s.brokenPipe("dedupe", "past", "--id-path", "id", "--ledger", "void")
	s.file("two", `{"id":"A","n":1,"at":2}`+"\n"+`{"id":"A","n":2,"at":2}`+"\n")
	s.run(exitDone, "dedupe", "two", "--id-path", "id", "--volatile", "at", "--ledger", "void", "--dry-run").saying(t, "synthetic 1 ")

	// With the same settings these are other records.
	s.run(exitDone, append(imported, "same", "--volatile", "at")...)
	s.file("others", `{"id":"A","n":2,"at":2}`+"\n")
	s.run(exitDone, "dedupe", "others", "--id-path", "id", "--volatile", "at", "--ledger", "same").saying(t, "synthetic 1 ")
}

// TestImportThatEntersNothing: a wrong column is not a success.
func TestImportThatEntersNothing(t *testing.T) {
	s := newShell(t)
	type row struct {
		ID string `parquet:"id"`
		FP string `parquet:"fp"`
	}
	must(t, parquet.WriteFile(filepath.Join(s.dir, "past.parquet"), []row{{"A", "x"}}))
	args := []string{"ledger", "import", "past.parquet", "--format", "parquet", "--ledger", "seen.db", "--fingerprint-path", "fp"}
	s.run(exitUsage, append(args, "--id-path", "event_id")...).saying(t, "past.parquet: ", "there is no column event_id; there are id, fp")
	s.run(exitDone, append(args, "--id-path", "id")...).saying(t, "entered 1 ")
	if runs := s.runs(); len(runs) != 1 {
		t.Errorf("the wrong column has begun an import: %+v", runs)
	}
}

// TestLedgerImportManifest: the events of a manifest's export are duplicates in an enriched stream.
func TestLedgerImportManifest(t *testing.T) {
	s := newShell(t)
	const row = `{"Item":{"eventId":{"S":"%s"},"etlTime":{"N":"1795000000"},"fingerprint":{"S":"fp"}}}` + "\n"
	const id = "c6ef3124-b53a-4b13-a233-0088f79dcbcb"
	s.tree(map[string]string{
		"export/a.json.gz": gzipped(t, fmt.Sprintf(row, id)), "other/a.json": `{"Item":{"pk":{"S":"a"}}}` + "\n",
		"in": fmt.Sprintf(`{"id":%q,"fp":"fp"}`+"\n"+`{"id":%[1]q,"fp":"other"}`+"\n", id),
	})
	args := []string{"ledger", "import", "--format", "snowplow-manifest", "--ledger", "l.db"}
	s.run(exitDone, append(args, "export")...).saying(t, "read 1 = entered 1 + known 0 ")
	s.run(exitDone, append(args, "export")...).saying(t, "read 1 = entered 0 + known 1 ")
	s.run(exitFailed, append(args, "other")...).saying(t, "other/a.json: line 1: not a row of Snowplow's events manifest")
	s.run(exitDone, "dedupe", "in", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", "l.db").saying(t, "natural 1 + synthetic 1 ")
}

func ledgerImport(s *shell) {
	var past, later strings.Builder
	for i := range 30 {
		fmt.Fprintf(&past, `{"id":%d,"at":"2026-11-20T00:00:00Z"}`+"\n", i)
		fmt.Fprintf(&later, `{"at":"2026-11-20T00:00:00Z","id":%d}`+"\n", 2*i)
	}
	s.tree(map[string]string{"past/1.gz": gzipped(s.T, past.String()), "past/2": "broken\n", "later": later.String(), "text": strings.Repeat("x\n", 20)})
	args := []string{"ledger", "import", "past", "--id-path", "id", "--scope", "orders"}
	var got importSummary
	r := s.run(exitLook, append([]string{"--output", "json"}, args...)...)
	r.saying(s.T, "1 record could not be entered; the first one is at past/2:1: not valid JSON", `"read":31,"entered":30,"known":0,"late":0,"too_old":0,"bad":1`)
	s.run(exitLook, append(args, "--rate", "1000")...).saying(s.T, "has finished before", "entered 30 ")
	s.run(exitDone, "dedupe", "later", "--id-path", "id", "--scope", "orders", "--out", "out").saying(s.T, "new 15 ", "natural 15 ")
	s.json(&got, "ledger", "import", "later", "--id-path", "id", "--scope", "orders", "--rate", "1000")
	if got.Read != 30 || got.Known != 15 || got.Late != 15 {
		s.Errorf("got %+v", got)
	}
	s.run(exitUsage, "ledger", "import", "text", "--id-path", "id").saying(s.T, "cannot be processed")
	s.run(exitUsage, "ledger", "import", "later", "--id-path", "id", "--format", "parquet").saying(s.T, "needs --id-path and --fingerprint-path")
	s.run(exitUsage, "ledger", "import", "later").saying(s.T, "--id-path is missing")
	s.run(exitUsage, "ledger", "import", "none", "--id-path", "id").saying(s.T, "none")
	s.run(exitUsage, "ledger", "import", "later", "--id-path", "id", "--window", "1ms").saying(s.T, "--window")
	for _, command := range []string{"import later --id-path id", "explain 1", "runs", "stat", "verify"} {
		s.run(exitUsage, append(strings.Fields("ledger "+command), "--scope", "A B")...).saying(s.T, `--scope "A B"`)
	}
	// A function without ONCEBOX_SCOPE has the name of its stream as the scope.
	s.run(exitDone, "ledger", "import", "later", "--id-path", "id", "--scope", "Orders_v1.0").saying(s.T, "entered 30 ")
	s.run(exitDone, "ledger", "explain", "2", "--scope", "Orders_v1.0").saying(s.T, "counts       yes")
	s.run(exitDone, "dedupe", "later", "--id-path", "id", "--scope", "Orders_v1.0", "--out", "none").saying(s.T, "natural 30 ")
}
