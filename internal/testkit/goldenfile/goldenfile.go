// Package goldenfile reads and writes the golden templates of tests/stack.
//
// A golden is a file FOLDER/NAME.json with one of these members:
//
//   - "template": the whole template. Such a golden is a base.
//   - "difference": a JSON merge patch (RFC 7386) to the merged templates of "bases". A member of the patch is new or
//     has a new value, null removes a member, and a list is replaced as a whole.
//
// The member "settings" has the content of the settings file that the template is made from.
package goldenfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Path returns the file of a golden.
func Path(folder, name string) string { return filepath.Join(folder, name+".json") }

// Read returns the whole template of a golden.
func Read(folder, name string) (template map[string]any, err error) {
	content, err := os.ReadFile(Path(folder, name))
	if err != nil {
		return nil, err
	}
	var file struct {
		Bases      []string       `json:"bases"`
		Template   map[string]any `json:"template"`
		Difference map[string]any `json:"difference"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", Path(folder, name), err)
	}
	base, err := merged(folder, file.Bases)
	if err != nil {
		return nil, fmt.Errorf("the bases of %s: %w", name, err)
	}
	return patched(patched(base, file.Template), file.Difference), nil
}

// merged returns one template of all bases.
func merged(folder string, bases []string) (map[string]any, error) {
	all := map[string]any{}
	for _, name := range bases {
		base, err := Read(folder, name)
		if err != nil {
			return nil, err
		}
		all = patched(all, base)
	}
	return all, nil
}

// Content returns what the file of a golden has to hold, without settings if settings is nil. It reads the bases
// from their files.
func Content(folder string, bases []string, settings, template map[string]any) ([]byte, error) {
	base, err := merged(folder, bases)
	if err != nil {
		return nil, err
	}
	patch := difference(base, template)
	if !reflect.DeepEqual(patched(base, patch), template) {
		return nil, errors.New("the template has a null, which a merge patch cannot express")
	}
	file := map[string]any{"template": patch}
	if len(bases) > 0 {
		file = map[string]any{"bases": bases, "difference": patch}
	}
	if settings != nil {
		file["settings"] = settings
	}
	return []byte(layout(file, "", lineLength) + "\n"), nil
}

// difference returns the merge patch that turns an object into another one.
func difference(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range from {
		if _, stays := to[name]; !stays {
			patch[name] = nil
		}
	}
	for name, value := range to {
		before, had := from[name]
		old, wasObject := before.(map[string]any)
		object, isObject := value.(map[string]any)
		switch {
		case had && reflect.DeepEqual(before, value):
		case wasObject && isObject:
			patch[name] = difference(old, object)
		default:
			patch[name] = value
		}
	}
	return patch
}

// patched returns a copy of an object to which a merge patch is applied (RFC 7386, section 2).
func patched(object, patch map[string]any) map[string]any {
	changed := map[string]any{}
	maps.Copy(changed, object)
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(changed, name)
		case map[string]any:
			old, _ := object[name].(map[string]any)
			changed[name] = patched(old, v)
		default:
			changed[name] = v
		}
	}
	return changed
}

const lineLength = 120

// layout writes a value as JSON: on one line if that takes no more than room, else with a line for each member. It
// breaks no text.
func layout(value any, indent string, room int) string {
	var heads []string // the names of the members of an object, empty for those of a list
	var members []any
	brackets := "[]"
	switch v := value.(type) {
	case map[string]any:
		brackets = "{}"
		for _, name := range slices.Sorted(maps.Keys(v)) {
			heads, members = append(heads, scalar(name)+": "), append(members, v[name])
		}
	case []any:
		heads, members = make([]string, len(v)), v
	default:
		return scalar(value)
	}
	lines := make([]string, len(members))
	for i, member := range members {
		lines[i] = heads[i] + layout(member, "", math.MaxInt)
	}
	line := brackets[:1] + strings.Join(lines, ", ") + brackets[1:]
	if len(line) <= room || len(members) == 0 {
		return line
	}
	inner := indent + " "
	for i, member := range members {
		head := inner + heads[i]
		lines[i] = head + layout(member, inner, lineLength-len(head+","))
	}
	return brackets[:1] + "\n" + strings.Join(lines, ",\n") + "\n" + indent + brackets[1:]
}

// scalar writes a text, a number, a boolean or null as JSON.
func scalar(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // it was decoded
	}
	return strings.TrimSuffix(out.String(), "\n")
}
