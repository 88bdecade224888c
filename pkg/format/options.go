package format

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// DefaultContextsPath is used if Options.ContextsPath is empty.
const DefaultContextsPath = "contexts"

// Options say where a JSON record has the values that identify it. A path has the syntax of gjson, but only with
// names, array indexes and escapes: "id", "event.id", "parts.0.id", `a\.dotted\.name`, `\@timestamp`. If a path leads
// to several values, only the first one in the record counts.
type Options struct {
	// IDPath leads to the id: a string, or a number in its text form. It is required.
	IDPath string
	// FingerprintPath leads to the fingerprint: a string, or a number in its text form. If the option is empty, or a
	// record's fingerprint is absent, null or empty, the fingerprint is computed.
	FingerprintPath string
	// OwnerPath leads to the owner: a string, or a number in its text form. If it is set, every record must have an
	// owner: records without an owner would be retries of each other.
	OwnerPath string
	// ContextsPath leads to the array that gets the duplicate context. It has names only. The default is
	// DefaultContextsPath.
	ContextsPath string
	// TimePath leads to the time: a string of RFC 3339, or a number. A number of at least 10^11 (in 1973) is
	// milliseconds since 1970, a smaller one seconds. If it is set, every record must have a time.
	TimePath string
	// Volatile lead to values that differ between copies of a record, such as the time of sending. A computed
	// fingerprint leaves them out, together with the id, the owner and the contexts.
	Volatile []string
}

// paths are the parsed Options. A path that is not set is nil.
type paths struct {
	id, fingerprint, owner, contexts, time path
	volatile                               []path // in order
}

func (o Options) parse() (p paths, err error) {
	for _, option := range []struct {
		name, text string
		path       *path
	}{
		{"IDPath", o.IDPath, &p.id},
		{"FingerprintPath", o.FingerprintPath, &p.fingerprint},
		{"OwnerPath", o.OwnerPath, &p.owner},
		{"ContextsPath", o.ContextsPath, &p.contexts},
		{"TimePath", o.TimePath, &p.time},
	} {
		if option.text == "" {
			continue
		}
		if *option.path, err = parsePath(option.name, option.text); err != nil {
			return p, err
		}
	}
	for _, text := range o.Volatile {
		volatile, err := parsePath("Volatile", text)
		if err != nil {
			return p, err
		}
		p.volatile = append(p.volatile, volatile)
	}
	slices.SortFunc(p.volatile, slices.Compare)
	return p, nil
}

// check refuses paths that conflict with each other. Each path needs its own value. No path may lead into a string,
// or into the contexts, where a rename moves values. Every path may lead into a volatile value: a value that the
// fingerprint leaves out can still be read and rewritten.
func (p paths) check() error {
	if slices.ContainsFunc(p.contexts, func(part string) bool { return index(part) >= 0 }) {
		return &OptionError{"ContextsPath", "has an array index; only names are allowed, since a rename makes what is absent"}
	}
	all := p.all()
	for i, a := range all {
		for j, b := range all {
			if i != j && a.path.inside(b.path) && !a.mayLieIn(b) {
				return &OptionError{
					a.option, fmt.Sprintf("leads to the value of %s, or into it; each path needs its own value", b.option),
				}
			}
		}
	}
	return nil
}

// role is a path and its use.
type role struct {
	option   string
	path     path
	volatile bool
	readOnly bool // neither rewritten nor left out, so it may also be volatile
}

func (p paths) all() []role {
	roles := []role{
		{option: "IDPath", path: p.id},
		{option: "FingerprintPath", path: p.fingerprint, readOnly: true},
		{option: "OwnerPath", path: p.owner},
		{option: "ContextsPath", path: p.contexts},
		{option: "TimePath", path: p.time, readOnly: true},
	}
	roles = slices.DeleteFunc(roles, func(r role) bool { return r.path == nil })
	for _, volatile := range p.volatile {
		roles = append(roles, role{option: "Volatile", path: volatile, volatile: true})
	}
	return roles
}

// mayLieIn reports whether a path may lead to the value of another path, or into that value.
func (r role) mayLieIn(other role) bool {
	switch {
	case r.volatile == other.volatile:
		return false
	case len(r.path) == len(other.path):
		return r.readOnly || other.readOnly
	default:
		return other.volatile
	}
}

// versionByPath returns the version of a fingerprint that was found in the record.
func (p paths) versionByPath() string {
	return version("p1", p.fingerprint)
}

// versionComputed returns the version of a computed fingerprint. The number in "c1" counts canonical forms.
func (p paths) versionComputed() string {
	return version("c1", p.id, p.owner, p.contexts, p.volatile)
}

// version returns a name for settings, with 11 characters.
func version(kind string, settings ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+q", settings)) // quoted in ASCII, which is the same in every version of Go
	return kind + "-" + hex.EncodeToString(sum[:4])
}
