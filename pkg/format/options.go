package format

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// DefaultContextsPath is where the contexts are when Options do not say it.
const DefaultContextsPath = "contexts"

// Options say where a JSON record has what identifies it. A path is in the
// syntax of gjson, of which only names, array indexes and escapes are allowed:
// "id", "event.id", "parts.0.id", `a\.dotted\.name`, `\@timestamp`.
//
// Where several values have a path's names the first in the record is meant,
// and it alone.
type Options struct {
	// IDPath leads to the id: a string, or a number as it is written. Required.
	IDPath string
	// FingerprintPath leads to the fingerprint: a string, or a number as it is
	// written. Without it, and in a record where it is absent, null or empty,
	// the fingerprint is computed.
	FingerprintPath string
	// OwnerPath leads to the owner: a string, or a number as it is written.
	// When it is set every record must have one: records without would share
	// the empty one, and be taken for retries of each other.
	OwnerPath string
	// ContextsPath leads to the array that gets the duplicate context; names
	// only. Default: DefaultContextsPath.
	ContextsPath string
	// TimePath leads to the time: a string as in RFC 3339, or a number, which
	// counts milliseconds since 1970 if it is at least 10^11 (in 1973), and
	// seconds if it is less. When it is set every record must have one.
	TimePath string
	// Volatile lead to members that copies of a record do not share, such as
	// the time of sending. They are left out of a computed fingerprint, as are
	// the id, the owner and the contexts.
	Volatile []string
}

// paths are Options taken apart; a path that is not set is nil.
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

// check refuses paths that contradict each other. Each path needs a value of
// its own, and nothing is inside a text or inside the contexts, where a rename
// moves it. Anything may be inside a volatile member: what is left out can
// still be read and rewritten.
func (p paths) check() error {
	if slices.ContainsFunc(p.contexts, func(part string) bool { return index(part) >= 0 }) {
		return &OptionError{"ContextsPath", "has an array index; only names are allowed, since what is absent has to be made"}
	}
	all := p.all()
	for i, a := range all {
		for j, b := range all {
			if i != j && a.path.inside(b.path) && !a.mayLieIn(b) {
				return &OptionError{a.option, fmt.Sprintf("leads to or into what %s leads to; each needs its own place", b.option)}
			}
		}
	}
	return nil
}

// role is a path and what it is for.
type role struct {
	option   string
	path     path
	volatile bool
	readOnly bool // neither rewritten nor left out, so that it may also be volatile
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

// mayLieIn reports whether a path may lead to or into what another leads to.
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

// versionByPath names what a fingerprint found in the record depends on.
func (p paths) versionByPath() string {
	return version("p1", p.fingerprint)
}

// versionComputed names what a computed fingerprint depends on. The number
// counts canonical forms.
func (p paths) versionComputed() string {
	return version("c1", p.id, p.owner, p.contexts, p.volatile)
}

// version returns a name of settings in 11 characters.
func version(kind string, settings ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+q", settings)) // quoted, in ASCII: the same in every version of Go
	return kind + "-" + hex.EncodeToString(sum[:4])
}
