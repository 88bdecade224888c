package recordhandler

import (
	"errors"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/dynamosink"
)

// checkItems refuses settings that do not fit the items of a table.
func (p parser) checkItems(o Options) {
	if o.Sink.Table == nil {
		return
	}
	const once = "is off, but an item is written once, with an entry of its own"
	if o.PassNatural {
		p.Refuse(&p.s.Natural, once, "on")
	}
	if o.PassSynthetic {
		p.Refuse(&p.s.Synthetic, once, "on")
	}
	if p.Word(&p.s.Format) != "json" {
		p.Refuse(&p.s.Format, "is not json, and items are made of JSON objects", "json")
	}
}

var errOtherStore = errors.New("ONCEBOX_SINK is a DynamoDB table, but the ledger is not in DynamoDB: an item and the entry " +
	"of its record are written in one transaction; choose dynamodb: as the store")

// openTable makes a sink for a table. The entries of its records are in the store.
func openTable(store Store, t dynamosink.Table) (dedupe.TxSink, error) {
	entries, ok := store.(dynamosink.Store)
	if !ok {
		return nil, errOtherStore
	}
	return dynamosink.New(entries, t)
}
