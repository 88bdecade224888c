package deadletter

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// DocumentFormat is the version of Document. Later ones may add members to it;
// whatever changes their meaning is another.
const DocumentFormat = 1

// Document is what an object holds: a record as one JSON document, on one line.
type Document struct {
	Format       int      `json:"format"`
	Owner        string   `json:"owner"`
	Position     Position `json:"position"`
	Reason       string   `json:"reason"`
	PartitionKey string   `json:"partition_key"`
	// RawPartitionKey is there instead if the partition key is not UTF-8.
	RawPartitionKey []byte `json:"partition_key_base64,omitempty"`
	// ExplicitHashKey is a user record's own; it has its raw form as well.
	ExplicitHashKey    string    `json:"explicit_hash_key,omitempty"`
	RawExplicitHashKey []byte    `json:"explicit_hash_key_base64,omitempty"`
	Arrival            time.Time `json:"arrival"`
	Data               []byte    `json:"data"` // base64, the whole payload
}

// Position is where the record was; dedupe.Position says what the parts are.
type Position struct {
	Account  string `json:"account"`
	Region   string `json:"region"`
	Stream   string `json:"stream"`
	Shard    string `json:"shard"`
	Sequence string `json:"sequence"`
	Sub      *int   `json:"sub_sequence,omitempty"` // only inside a KPL aggregate
}

// Encode writes a record as a document.
func Encode(f dedupe.DeadLetter) ([]byte, error) {
	d := Document{
		Format: DocumentFormat, Owner: f.Owner, Position: position(f.Position), Reason: f.Reason,
		Arrival: f.Arrival.UTC(), Data: f.Data,
	}
	d.PartitionKey, d.RawPartitionKey = textOrRaw(f.PartitionKey)
	d.ExplicitHashKey, d.RawExplicitHashKey = textOrRaw(f.ExplicitHashKey)
	if d.Data == nil {
		d.Data = []byte{} // nil would be null, which means that it is missing
	}
	content, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("failure store: document of %s: %w", f.Owner, err)
	}
	return append(content, '\n'), nil
}

// Decode reads a document back into the record that it was made of. It refuses
// what is damaged, incomplete or of another format.
func Decode(content []byte) (dedupe.DeadLetter, error) {
	var d Document
	if err := json.Unmarshal(content, &d); err != nil {
		return dedupe.DeadLetter{}, fmt.Errorf("failure store: not a document: %w", err)
	}
	switch {
	case d.Format != DocumentFormat:
		return dedupe.DeadLetter{}, fmt.Errorf("failure store: document of format %d; this program reads %d", d.Format, DocumentFormat)
	case d.Owner == "" || d.Data == nil:
		return dedupe.DeadLetter{}, fmt.Errorf("failure store: document without owner or data")
	}
	f := dedupe.DeadLetter{
		Owner: d.Owner, Position: d.Position.position(), Reason: d.Reason,
		PartitionKey: d.PartitionKey + string(d.RawPartitionKey), ExplicitHashKey: d.ExplicitHashKey + string(d.RawExplicitHashKey),
		Arrival: d.Arrival, Data: d.Data,
	}
	return f, nil
}

// textOrRaw returns a text as such, or as bytes if JSON would damage it.
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
