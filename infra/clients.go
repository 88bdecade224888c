package infra

import (
	"debug/buildinfo"
	"path/filepath"
)

// needsAllClients reports whether the function needs a client that functions/dedupe does not link
// (recordhandler.Clients). functions/dedupe-full links all.
func (p RecordDedupeProps) needsAllClients() bool {
	return p.hasValkey() || p.Sink.scheme() == "firehose"
}

// checkClients refuses the executable of functions/dedupe for a sink or a ledger whose client it does not link. The
// function would refuse to start. Go writes the package of an executable into it.
func (p RecordDedupeProps) checkClients(wrong *problems) {
	if p.Function.zips != nil || !p.needsAllClients() {
		return
	}
	path := filepath.Join(p.Function.Code, bootstrap)
	built, err := buildinfo.ReadFile(path)
	if err == nil && built.Path == "github.com/oncebox/oncebox/functions/dedupe" {
		wrong.add("%s is the function without the clients of Firehose and Valkey, one of which these settings need; build it "+
			"with `make zip`, and set %s to dist/dedupe-full or leave it out", path, wrong.of("Code"))
	}
}
