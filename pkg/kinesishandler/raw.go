package kinesishandler

import (
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// jsonVariables are the variables of the format of JSON records.
var jsonVariables = []string{varIDPath, varFingerprintPath, varVolatile, varContextsPath}

// raw reads the settings of ONCEBOX_FORMAT=raw.
func (p parser) raw() dedupe.Format {
	for _, name := range jsonVariables {
		if p.Text(name) != "" {
			p.Wrong(name, "is not a setting of "+varFormat+"=raw", "leave it empty")
		}
	}
	switch p.Text(varRawID) {
	case "", "content":
		if p.Text(varIDs) == "derived" {
			p.Wrong(varIDs, "is derived, but a record whose id is the hash of its content cannot have another id", "first-keeps")
		}
	case "partition-key":
		if p.Text(varSourceRecords) != "" && p.Text(varSourceRecords) != "one" {
			p.Wrong(varRawID, "is partition-key, but all records of a payload have the same one", "content")
		}
		return format.Raw{PartitionKey: true}
	default:
		p.Wrong(varRawID, "is not a known id", "content or partition-key")
	}
	return format.Raw{}
}
