package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// Format is what a job needs of the format of its records. JSON makes one. It is safe for concurrent use.
type Format interface {
	dedupe.Format
	// Settings names the format and all options of it that change a result. They are part of what identifies a run, so
	// a later version must say the same of the same options. Those of no two formats are equal.
	Settings() string
	// HasTimes reports whether the records have times of their own.
	HasTimes() bool
	// Digest makes what the differences of two records are found by. It is nil if records are not compared: they name
	// their fingerprints.
	Digest() func(record []byte) format.Digest
	// IsOther reports whether a text of format.LooksLike, about the first line, says that the input has another format,
	// however broken the lines may be.
	IsOther(looksLike string) bool
	// Members names what a record has, for an error about a path that leads to nothing. It may return nil.
	Members(record []byte) []string
}

// jsonLines is the format of lines that are JSON objects.
type jsonLines struct {
	*format.JSON
	options format.Options
}

// JSON returns the format of lines that are JSON objects. The error is a *format.OptionError.
func JSON(o format.Options) (Format, error) {
	f, err := format.NewJSON(o)
	if err != nil {
		return nil, err
	}
	return jsonLines{f, o}, nil
}

// Settings are quoted ASCII, which is the same in every version of Go.
func (f jsonLines) Settings() string {
	o := f.options
	return fmt.Sprintf("%+q %+q %+q %+q %+q %+q",
		o.IDPath, o.FingerprintPath, o.OwnerPath, o.ContextsPath, o.TimePath, slices.Sorted(slices.Values(o.Volatile)))
}

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

// Members are those of the record, and those of the member in which the id should be.
func (f jsonLines) Members(record []byte) []string {
	names := format.MemberNames(record)
	parent, _, nested := strings.Cut(f.options.IDPath, ".")
	var values map[string]json.RawMessage
	if !nested || json.Unmarshal(record, &values) != nil {
		return names
	}
	for _, name := range format.MemberNames(values[parent]) {
		names = append(names, parent+"."+name)
	}
	return names
}
