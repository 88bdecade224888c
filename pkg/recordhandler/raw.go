package recordhandler

import (
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// raw reads the settings of ONCEBOX_FORMAT=raw.
func (p parser) raw() dedupe.Format {
	s := p.s
	p.refusePaths("is not a setting of " + p.Variable(&s.Format) + "=raw")
	if s.Volatile != nil {
		p.Refuse(&s.Volatile, "is not a setting of "+p.Variable(&s.Format)+"=raw", "leave it empty")
	}
	if s.RawID == "partition-key" {
		if p.Word(&s.SourceRecords) != "one" {
			p.Refuse(&s.RawID, "is partition-key, but all records of a payload have the same one", "content")
		}
		return format.Raw{PartitionKey: true}
	}
	if s.IDs == "derived" {
		p.Refuse(&s.IDs, "is derived, but a record whose id is the hash of its content cannot have another id", "first-keeps")
	}
	return format.Raw{}
}

// refusePaths refuses paths in JSON for records of another format.
func (p parser) refusePaths(what string) {
	for _, path := range []*string{&p.s.IDPath, &p.s.FingerprintPath, &p.s.ContextsPath} {
		if *path != "" {
			p.Refuse(path, what, "leave it empty")
		}
	}
}
