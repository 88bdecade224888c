package deadletter

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// DocumentFormat is the version of Document. It does not change when members are added. It goes up when a meaning
// changes.
const DocumentFormat = 1

// Document is the content of an object: a record as JSON, on one line.
type Document struct {
	Format       int      `json:"format"`
	Owner        string   `json:"owner"`
	Scope        string   `json:"scope"`
	Position     Position `json:"position"`
	Reason       string   `json:"reason"`
	PartitionKey string   `json:"partition_key"`
	// RawPartitionKey is used instead of PartitionKey if that is not UTF-8.
	RawPartitionKey []byte `json:"partition_key_base64,omitempty"`
	// ExplicitHashKey belongs to a user record. It has a raw form too.
	ExplicitHashKey    string    `json:"explicit_hash_key,omitempty"`
	RawExplicitHashKey []byte    `json:"explicit_hash_key_base64,omitempty"`
	Arrival            time.Time `json:"arrival"`
	Data               []byte    `json:"data"` // base64, the whole payload
	// Unaggregated says that sub_sequence is an index in a frame, not in a KPL aggregate.
	Unaggregated bool `json:"unaggregated,omitempty"`
}

// Position is the place of the record in its stream; dedupe.Position explains the fields.
type Position struct {
	Account  string `json:"account"`
	Region   string `json:"region"`
	Stream   string `json:"stream"`
	Shard    string `json:"shard"`
	Sequence string `json:"sequence"`
	Sub      *int   `json:"sub_sequence,omitempty"` // only inside a KPL aggregate or a frame
}

// Encode writes a record as a Document.
func Encode(letter dedupe.DeadLetter) ([]byte, error) {
	d := Document{
		Format: DocumentFormat, Owner: letter.Owner, Scope: letter.Scope, Position: position(letter.Position),
		Reason:  letter.Reason,
		Arrival: letter.Arrival.UTC(), Data: letter.Data, Unaggregated: letter.Unaggregated,
	}
	d.PartitionKey, d.RawPartitionKey = textOrRaw(letter.PartitionKey)
	d.ExplicitHashKey, d.RawExplicitHashKey = textOrRaw(letter.ExplicitHashKey)
	if d.Data == nil {
		d.Data = []byte{} // nil would be encoded as null, which Decode refuses
	}
	content, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("dead-letter store: document of %s: %w", letter.Owner, err)
	}
	return append(content, '\n'), nil
}

// Decode reads the record of a Document. It returns an error for a damaged or incomplete document, and for another
// format.
func Decode(content []byte) (dedupe.DeadLetter, error) {
	var d Document
	if err := json.Unmarshal(content, &d); err != nil {
		return dedupe.DeadLetter{}, fmt.Errorf("dead-letter store: not a document: %w", err)
	}
	switch {
	case d.Format != DocumentFormat:
		return dedupe.DeadLetter{}, fmt.Errorf("dead-letter store: the document has format %d, and this version reads "+
			"format %d; use the version that wrote it", d.Format, DocumentFormat)
	case d.Owner == "" || d.Data == nil:
		return dedupe.DeadLetter{}, errors.New("dead-letter store: the document has no owner or no data")
	}
	return dedupe.DeadLetter{
		Owner: d.Owner, Scope: d.Scope, Position: d.Position.position(), Reason: d.Reason,
		PartitionKey:    d.PartitionKey + string(d.RawPartitionKey),
		ExplicitHashKey: d.ExplicitHashKey + string(d.RawExplicitHashKey),
		Arrival:         d.Arrival, Data: d.Data, Unaggregated: d.Unaggregated,
	}, nil
}

// textOrRaw returns a text, or its bytes if JSON would change it.
func textOrRaw(s string) (text string, raw []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

func position(p dedupe.Position) Position {
	d := Position{
		Account: p.Stream.Account, Region: p.Stream.Region, Stream: p.Stream.Name,
		Shard: p.Shard, Sequence: p.Sequence,
	}
	if p.Sub != dedupe.Plain {
		d.Sub = &p.Sub
	}
	return d
}

func (d Position) position() dedupe.Position {
	p := dedupe.Position{
		Stream: dedupe.Stream{Account: d.Account, Region: d.Region, Name: d.Stream},
		Shard:  d.Shard, Sequence: d.Sequence, Sub: dedupe.Plain,
	}
	if d.Sub != nil {
		p.Sub = *d.Sub
	}
	return p
}
