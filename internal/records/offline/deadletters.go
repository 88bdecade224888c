package offline

import (
	"encoding/json"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// letter is a line of a dead-letter file.
type letter struct {
	File    string `json:"file,omitempty"`
	Line    int64  `json:"line,omitempty"`
	Reason  string `json:"reason"`
	Entered bool   `json:"entered,omitempty"` // the ledger has an entry of the record, and would take it for a copy
	Data    []byte `json:"data,omitempty"`    // the record
}

var errNoLetter = &dedupe.PoisonError{Reason: "not a dead letter of oncebox dedupe"}

// longestLetter returns the longest line that may be read, if records may have this length. Letters hold base64.
func longestLetter(inputs []Input, longest int) int {
	const others = 64 << 10 // more than the other members need
	if slices.ContainsFunc(inputs, func(in Input) bool { return in.Records == DeadLetters }) {
		return longest/3*4 + others
	}
	return longest
}

// open replaces a letter by the record in it. It returns the old reason of a record with an entry: in this run it would
// be a copy of itself, and be dropped.
func (r *record) open(longest int) *dedupe.PoisonError {
	var l letter
	if json.Unmarshal(r.text, &l) != nil || l.Reason == "" || l.Data == nil {
		return errNoLetter
	}
	r.text, r.entered = l.Data, l.Entered
	switch {
	case l.Entered:
		return &dedupe.PoisonError{Reason: l.Reason}
	case len(l.Data) > longest:
		return errTooLong
	}
	return nil
}
