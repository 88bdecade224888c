package objectsink

import (
	"fmt"
	"strconv"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// metadataFormat is the version of the metadata. A Sink refuses other versions.
const metadataFormat = "1"

// The members of an object's metadata.
const (
	metaFormat  = "oncebox-format"
	metaWriter  = "oncebox-writer"
	metaFirst   = "oncebox-first"
	metaLast    = "oncebox-last"
	metaEnd     = "oncebox-end"
	metaLate    = "oncebox-late"
	metaRecords = "oncebox-records"
	metaBytes   = "oncebox-bytes"
)

// Object has the metadata of an object in a chain.
type Object struct {
	Name   string `json:"name"`   // the position after which it begins
	Writer string `json:"writer"` // a random text of the put that made it
	// First and Last are the sequence numbers of the first and the last Kinesis record that it has handled. All
	// records between them are delivered, dropped or dead-lettered, by this object or an earlier one.
	First string `json:"first"`
	Last  string `json:"last"`
	End   string `json:"end"`            // the name of the next object
	Late  string `json:"late,omitempty"` // the name of the last late object before it: see isLate
	// Records and Bytes are the number and the size of its records, uncompressed.
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`

	name, end position
}

// isLate reports whether the object has handled records that are not after its name. Other objects have handled only
// records between their names and their ends.
func (o *Object) isLate() bool { return dedupe.CompareSequence(o.First, o.name.sequence) <= 0 }

// lastLate returns the Late of the next object.
func (o *Object) lastLate() string {
	if o.Name != "" && o.isLate() {
		return o.Name
	}
	return o.Late
}

// handled reports whether the object has handled a record.
func (o *Object) handled(sequence string) bool { return o.reaches(sequence, sequence) }

// reaches reports whether the object has handled any record from first to last.
func (o *Object) reaches(first, last string) bool {
	return dedupe.CompareSequence(o.First, last) <= 0 && dedupe.CompareSequence(first, o.Last) <= 0
}

func (o *Object) metadata() map[string]string {
	m := map[string]string{
		metaFormat: metadataFormat, metaWriter: o.Writer,
		metaRecords: strconv.Itoa(o.Records), metaBytes: strconv.FormatInt(o.Bytes, 10),
	}
	for member, value := range map[string]string{metaFirst: o.First, metaLast: o.Last, metaEnd: o.End, metaLate: o.Late} {
		if value != "" {
			m[member] = value
		}
	}
	return m
}

// objectOf reads the metadata of the object with a name. After an error about positions, the other fields are set
// too.
func objectOf(name string, m map[string]string) (*Object, error) {
	if format := m[metaFormat]; format != metadataFormat {
		return nil, fmt.Errorf("its metadata has %s %q; this program reads %q", metaFormat, format, metadataFormat)
	}
	o := &Object{
		Name: name, Writer: m[metaWriter], First: m[metaFirst], Last: m[metaLast], End: m[metaEnd], Late: m[metaLate],
	}
	var err error
	if o.Records, err = strconv.Atoi(m[metaRecords]); err != nil {
		return nil, fmt.Errorf("its metadata has %s %q", metaRecords, m[metaRecords])
	}
	if o.Bytes, err = strconv.ParseInt(m[metaBytes], 10, 64); err != nil {
		return nil, fmt.Errorf("its metadata has %s %q", metaBytes, m[metaBytes])
	}
	return o, o.parse()
}

// parse checks the positions.
func (o *Object) parse() (err error) {
	if o.name, err = parsePosition(o.Name); err != nil {
		return err
	}
	if o.end, err = parsePosition(o.End); err != nil {
		return err
	}
	if !dedupe.IsSequence(o.First) || !dedupe.IsSequence(o.Last) || dedupe.CompareSequence(o.First, o.Last) > 0 ||
		o.name.after(o.Last) != o.end {
		return fmt.Errorf("its metadata contradicts itself: records %.130q to %.130q, end %.150q", o.First, o.Last, o.End)
	}
	if o.Late != "" {
		_, err = parsePosition(o.Late)
	}
	return err
}
