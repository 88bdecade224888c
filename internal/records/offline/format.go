package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// Format is the format of a job's records. JSON returns one. A Format is safe for concurrent use.
type Format interface {
	dedupe.Format
	// Settings returns the format and all its options that change a result, as text. The text is part of a run's
	// identity, so a later version must return the same text for the same options. Two formats never return the same
	// text.
	Settings() string
	// Extension is the usual extension of a file of such lines.
	Extension() string
	// HasTimes reports whether the records have their own times.
	HasTimes() bool
	// Digest returns the function by which the differences of two records are found. It returns nil if records name
	// their fingerprints, because they are not compared then.
	Digest() func(record []byte) format.Digest
	// IsOther reports whether a text of format.LooksLike about the first line shows that the input has another
	// format, even if its lines are broken.
	IsOther(looksLike string) bool
	// Members names the members of a record, for an error about a path that leads to no value. It may return nil.
	Members(record []byte) []string
}

// jsonLines is the format of lines that are JSON objects.
type jsonLines struct {
	*format.JSON
	options format.Options
}

// JSON returns the format of lines that are JSON objects. Its error is a *format.OptionError.
func JSON(o format.Options) (Format, error) {
	f, err := format.NewJSON(o)
	if err != nil {
		return nil, err
	}
	return jsonLines{f, o}, nil
}

// Settings implements Format. Its text is quoted ASCII, which is the same in every version of Go.
func (f jsonLines) Settings() string {
	o := f.options
	return fmt.Sprintf("%+q %+q %+q %+q %+q %+q",
		o.IDPath, o.FingerprintPath, o.OwnerPath, o.ContextsPath, o.TimePath, slices.Sorted(slices.Values(o.Volatile)))
}

func (jsonLines) Extension() string { return ".ndjson" }

func (f jsonLines) HasTimes() bool { return f.options.TimePath != "" }

func (f jsonLines) Digest() func([]byte) format.Digest {
	if f.options.FingerprintPath != "" {
		return nil
	}
	return f.JSON.Digest
}

func (jsonLines) IsOther(looksLike string) bool {
	switch looksLike {
	case "", object, objectBegins, "a JSON object with a syntax error",
		"a JSON string", "a JSON literal", "a JSON number", "plain text", "an empty record",
		"binary data, or text that is not UTF-8":
		return false
	}
	return true
}

// Members returns the members of the record, and of the member that should contain the id. Of other members it returns
// those that have the name at the end of a path.
func (f jsonLines) Members(record []byte) []string {
	names := format.MemberNames(record)
	var values map[string]json.RawMessage
	if json.Unmarshal(record, &values) != nil {
		return names
	}
	o := f.options
	parent, _, nested := strings.Cut(o.IDPath, ".")
	var ends []string
	for _, path := range []string{o.IDPath, o.OwnerPath, o.TimePath, o.FingerprintPath} {
		ends = append(ends, lastPart(path))
	}
	for _, name := range slices.Clone(names) {
		for _, inner := range format.MemberNames(values[name]) {
			if nested && name == parent || slices.Contains(ends, inner) {
				names = append(names, name+"."+inner)
			}
		}
	}
	return names
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
