package kinesishandler

import (
	"errors"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/dynamosink"
)

const (
	attributeForm = "NAME=PATH, or a NAME that is the path, too"
	keyForm       = "the partition key of the table, and its sort key after a comma if it has one, each as " + attributeForm
	deleteForm    = "PATH=VALUE, as in op=delete"
)

func (p parser) tableName(name, allowed string) SinkSetting {
	named := dynamosink.Table{Name: name, Key: []dynamosink.Attribute{{Name: standIn, Path: standIn}}}
	if named.Validate() != nil {
		p.Wrong(varSink, "does not name a DynamoDB table",
			allowed+", where TABLE is 3 to 255 of a-z, A-Z, 0-9, _, . and -")
	}
	return SinkSetting{Table: name}
}

// table reads how records become items of the table.
func (p parser) table(o Options) dynamosink.Table {
	p.checkItems(o)
	t := dynamosink.Table{Name: o.Sink.Table}
	if p.Text(varSinkKey) == "" {
		p.Wrong(varSinkKey, "is missing", keyForm)
		t.Key = []dynamosink.Attribute{{Name: standIn, Path: standIn}}
	}
	for _, text := range p.List(varSinkKey) {
		t.Key = append(t.Key, p.attribute(varSinkKey, text, keyForm))
	}
	if len(t.Key) > 2 {
		p.Wrong(varSinkKey, "has more than two attributes", keyForm)
		t.Key = t.Key[:2]
	}
	if text := p.Text(varSinkVersion); text != "" {
		t.Version = p.attribute(varSinkVersion, text, attributeForm)
	}
	if text := p.Text(varSinkDelete); text != "" {
		t.DeletePath, t.DeleteValue, _ = strings.Cut(text, "=")
		p.checkDelete(t)
	}
	columns := dynamosink.Table{Name: standIn, Key: t.Key, Version: t.Version}
	if columns.Validate() != nil {
		p.Wrong(varSinkKey, "and "+varSinkVersion+" name an attribute twice", "attributes that differ")
	}
	return t
}

// checkDelete refuses a wrong condition for deletes.
func (p parser) checkDelete(t dynamosink.Table) {
	if t.Version == (dynamosink.Attribute{}) {
		p.Wrong(varSinkDelete, "needs "+varSinkVersion+": without a version, an item that comes late would bring back what "+
			"was deleted", "set "+varSinkVersion+" too")
		return
	}
	t.Name, t.Key = "tab", []dynamosink.Attribute{{Name: standIn, Path: standIn}}
	if t.Validate() != nil {
		p.Wrong(varSinkDelete, "is not the sign of a delete", deleteForm)
	}
}

func (p parser) attribute(variable, text, form string) dynamosink.Attribute {
	a, err := dynamosink.ParseAttribute(text)
	if err != nil {
		p.Wrong(variable, "is not an attribute with the path of its value", form)
		return dynamosink.Attribute{Name: standIn + variable, Path: standIn}
	}
	return a
}

// checkItems refuses settings that do not fit items.
func (p parser) checkItems(o Options) {
	const once = "is off, but an item is written once, with an entry of its own"
	if o.PassNatural {
		p.Wrong(varNatural, once, "on")
	}
	if o.PassSynthetic {
		p.Wrong(varSynthetic, once, "on")
	}
	if kind := p.Text(varFormat); kind != "" && kind != "json" {
		p.Wrong(varFormat, "is not json, and items are made of JSON objects", "json")
	}
}

var errOtherStore = errors.New(varSink + " is a DynamoDB table, but the ledger is not in DynamoDB: an item and the entry " +
	"of its record are written in one transaction; choose dynamodb: as the store")

// openTable makes a sink for a table. The entries of its records are in the store.
func openTable(store Store, o Options) (dedupe.TxSink, error) {
	entries, ok := store.(dynamosink.Store)
	if !ok {
		return nil, errOtherStore
	}
	return dynamosink.New(entries, o.SinkTable)
}
