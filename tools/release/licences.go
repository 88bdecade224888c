package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences, by their SPDX ids, of modules that oncebox may contain. MPL-2.0
// asks for the place of the module's source, which the notices name (MPL-2.0, section 3.2).
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0", "blessing"}

// reviewed are the texts that licensecheck does not know, and those that name licences of
// software which oncebox does not contain. A person has read each of them. The key is the
// start of the SHA-256 of the text: a person who updates a module reads a changed text again.
var reviewed = map[string][]string{
	// aws-lambda-go, LICENSE-SUMMARY: says which of the two other files covers what.
	"01550dc0193ddc31": {},
	// modernc.org/libc, LICENSE-3RD-PARTY.md: Go, musl, go-netdb, nixpkgs and their notices.
	"de2e7c240a45e22c": {"BSD-3-Clause", "MIT"},
	// modernc.org/memory, LICENSE-LOGO: of a picture in the source.
	"ce9c578c2968e316": {},
	// modernc.org/sqlite, LICENSE-3RD-PARTY.md: its section 1 is about what a program contains,
	// MPL-2.0 belongs to a module that no package of it imports.
	"d782121ab8bc21a3": {"BSD-3-Clause", "MIT", "blessing"},
	// modernc.org/sqlite, LICENSE-SQLITE: SQLite is in the public domain.
	"14088888f59c8feb": {"blessing"},
	// Go, crypto/internal/boring: of a library that only GOEXPERIMENT=boringcrypto links.
	"f9a80abe24446ec1": {},
}

// leastCovered is the share of a licence file, in percent, that must be text of known licences.
const leastCovered = 75

// text is a licence or a notice.
type text struct {
	name    string // of its file
	content string
	ids     []string // SPDX ids of the licences in it
}

var (
	licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
	noticeName  = regexp.MustCompile(`(?i)^(notice|patents)`)
)

// findLicences reads the licences and notices of a module in the folders of the packages that
// a program imports, and in all folders above these.
func (m *module) findLicences() error {
	var errs []error
	for _, folder := range slices.Sorted(maps.Keys(m.folders)) {
		files, err := os.ReadDir(folder)
		errs = append(errs, err)
		for _, file := range files {
			licence, notice := licenceName.MatchString(file.Name()), noticeName.MatchString(file.Name())
			if file.IsDir() || !licence && !notice || filepath.Ext(file.Name()) == ".go" {
				continue
			}
			content, err := os.ReadFile(filepath.Join(folder, file.Name()))
			errs = append(errs, err)
			name, err := filepath.Rel(m.dir, filepath.Join(folder, file.Name()))
			errs = append(errs, err)
			t := text{name: filepath.ToSlash(name), content: string(bytes.TrimSpace(content))}
			if notice {
				m.notices = append(m.notices, t)
				continue
			}
			errs = append(errs, t.identify(m.path))
			m.licences = append(m.licences, t)
		}
	}
	if len(m.licences) == 0 {
		errs = append(errs, fmt.Errorf("%s has no licence in %s", m.path, m.dir))
	}
	return errors.Join(errs...)
}

// identify finds the licences in a text. An unknown licence, and one that is not allowed, is an
// error.
func (t *text) identify(of string) error {
	if ids, ok := reviewed[fmt.Sprintf("%x", sha256.Sum256([]byte(t.content)))[:16]]; ok {
		t.ids = ids
		return nil
	}
	found := licensecheck.Scan([]byte(t.content))
	for _, match := range found.Match {
		if !slices.Contains(t.ids, match.ID) {
			t.ids = append(t.ids, match.ID)
		}
	}
	if found.Percent < leastCovered {
		return fmt.Errorf("%s: only %.0f %% of %s is a known licence %v", of, found.Percent, t.name, t.ids)
	}
	var errs []error
	for _, id := range t.ids {
		if !slices.Contains(allowed, id) {
			errs = append(errs, fmt.Errorf("%s: %s has the licence %s, which is not allowed", of, t.name, id))
		}
	}
	return errors.Join(errs...)
}

// ids are the SPDX ids of the licences of a module, sorted.
func (m *module) ids() (ids []string) {
	for _, t := range m.licences {
		ids = append(ids, t.ids...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// notices is the text of THIRD_PARTY_NOTICES.txt: a list of all modules, then each licence and
// notice with the modules that it belongs to.
func (c contents) notices() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "The programs of oncebox contain the following modules, unchanged. The source code of a module is at\n"+
		"https://proxy.golang.org/MODULE/@v/VERSION.zip.\n\n")
	owners, order := map[string][]string{}, []string{}
	for _, m := range c.modules {
		fmt.Fprintf(&out, "%s %s: %s\n", m.path, m.version, strings.Join(m.ids(), ", "))
		for _, t := range slices.Concat(m.licences, m.notices) {
			if owners[t.content] == nil {
				order = append(order, t.content)
			}
			owners[t.content] = append(owners[t.content], m.path+": "+t.name)
		}
	}
	line := strings.Repeat("=", 80)
	for _, content := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s\n", line, strings.Join(owners[content], "\n"), line, content)
	}
	return out.Bytes()
}
