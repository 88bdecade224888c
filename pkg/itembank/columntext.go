package itembank

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Column is a name and a value that a load gives to an item.
type Column struct{ Name, Value string }

// Columns are the columns of an item, in the order of its load, as one comparable value. Each column is its name, a
// tab, its value and a line feed. Names and values have no control characters.
//
// In JSON they are an object.
type Columns string

// NewColumns makes Columns.
func NewColumns(columns ...Column) Columns {
	var all strings.Builder
	for _, c := range columns {
		all.WriteString(c.Name + "\t" + c.Value + "\n")
	}
	return Columns(all.String())
}

// All returns the columns in order.
func (c Columns) All() (all []Column) {
	for line := range strings.Lines(string(c)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, Column{name, value})
	}
	return all
}

// MarshalJSON writes an object with the columns in order.
func (c Columns) MarshalJSON() ([]byte, error) {
	var object bytes.Buffer
	texts := json.NewEncoder(&object)
	texts.SetEscapeHTML(false) // the outer encoder escapes if it is set so
	between := byte('{')
	for _, column := range c.All() {
		object.WriteByte(between)
		if err := texts.Encode(column.Name); err != nil {
			return nil, err
		}
		object.WriteByte(':')
		if err := texts.Encode(column.Value); err != nil {
			return nil, err
		}
		between = ','
	}
	if c == "" {
		object.WriteByte(between)
	}
	object.WriteByte('}')
	return object.Bytes(), nil
}

// UnmarshalJSON reads such an object. It sorts the columns by name, because the members of an object have no order.
func (c *Columns) UnmarshalJSON(object []byte) error {
	var values map[string]string
	if err := json.Unmarshal(object, &values); err != nil {
		return err
	}
	var all []Column
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, Column{name, values[name]})
	}
	*c = NewColumns(all...)
	return nil
}
