package offline

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// These limits apply to the comparison. A digest has up to 5 KB.
const (
	mostCompared    = 10_000 // the largest number of ids whose records are compared
	mostDifferences = 100
)

// Difference is the number of records that share an id with an earlier record of the run, and differ from it in the
// same one or two members. Such members, as the time of sending, often do not belong to the event.
type Difference struct {
	Members []string `json:"members"` // as paths of format.Options
	Records int64    `json:"records"`
}

// differences compares the records of the first ids of a run with the first record of their id.
type differences struct {
	digest  func(record []byte) format.Digest // if it is nil, records are not compared
	first   map[format.Key]firstRecord
	partial bool // the run had more ids than are compared
	counts  map[string]*Difference
}

type firstRecord struct {
	content dedupe.Digest
	digest  format.Digest
}

func newDifferences(f Format) differences {
	return differences{digest: f.Digest(), first: map[format.Key]firstRecord{}, counts: map[string]*Difference{}}
}

// add compares a record with the first record of its id. If they differ in one or two members, it returns these
// members.
func (d *differences) add(rec *record) (differsIn []string) {
	if d.digest == nil {
		return nil
	}
	key := format.KeyOf(rec.fields.ID)
	first, known := d.first[key]
	switch {
	case !known && len(d.first) == mostCompared:
		d.partial = true
	case !known:
		d.first[key] = firstRecord{dedupe.ContentDigest(rec.fields.Fingerprint), d.digest(rec.text)}
	case first.content != dedupe.ContentDigest(rec.fields.Fingerprint):
		differsIn = first.digest.DiffersOnlyIn(d.digest(rec.text))
		d.count(differsIn)
	}
	return differsIn
}

func (d *differences) count(members []string) {
	name := strings.Join(members, "\x00")
	if d.counts[name] == nil {
		if len(members) == 0 || len(d.counts) == mostDifferences {
			return
		}
		d.counts[name] = &Difference{Members: members}
	}
	d.counts[name].Records++
}

// list returns the differences. The most frequent one comes first.
func (d *differences) list() (list []Difference) {
	for _, name := range slices.Sorted(maps.Keys(d.counts)) {
		list = append(list, *d.counts[name])
	}
	slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(b.Records, a.Records) })
	return list
}
