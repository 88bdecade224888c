package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestLedgerImport: records of the past are duplicates after an import, on each store.
func TestLedgerImport(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		ledgerImport(s)
	})
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
