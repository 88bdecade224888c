// Package search is what all tests share that search at random, or break each call in turn.
//
//   - Histories plays random histories until one is wrong. A seed decides all of a history. First does so for a mutant,
//     and FirstIn for a mutant of the source.
//   - Smallest makes a history smaller that is wrong, and Kept reads those that a package keeps.
//   - Injections lists every fault of every call of a play, and Some plays one in so many of them (Share).
//
// What a history has, who judges it and what a fault does belongs to each harness.
package search

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
)

var (
	seed   = flag.Int("seed", -1, "the first history of a search, and the only one if -seeds is not given")
	seeds  = flag.Int("seeds", 0, "how many histories a search plays, from any seed on if -seed is not given")
	shrink = flag.Bool("shrink", true, "a search makes the history smaller that it finds")
)

// Anywhere returns a seed at which a search can begin that is different each time.
func Anywhere() int { return rand.IntN(1 << 50) }

// Alone reports whether the flags name one history. Its test logs all that happens.
func Alone() bool { return *seed >= 0 && *seeds <= 1 }

// Histories plays the histories of usual seeds, from first on, or those that the flags name. It fails the test at the
// first history with which something is wrong.
func Histories(t testing.TB, first, usual int, play func(seed int) error) {
	t.Helper()
	switch {
	case *seed >= 0:
		first, usual = *seed, max(*seeds, 1)
	case *seeds > 0:
		first, usual = Anywhere(), *seeds
	}
	for n := range usual {
		if err := play(first + n); err != nil {
			t.Fatalf("seed %d: %v\nreplay: go test -run '^%s$' -seed=%d -v", first+n, err, t.Name(), first+n)
		}
	}
}

// First plays histories from seed 0 on. It returns the first seed with which something is wrong, and what. If most
// histories do not find anything, it fails the test, whose mutant must be found.
func First(t testing.TB, most int, play func(seed int) error) (seed int, wrong string) {
	t.Helper()
	for n := range most {
		if err := play(n); err != nil {
			t.Logf("found by history %d: %s", n+1, FirstLine(err))
			return n, FirstLine(err)
		}
	}
	t.Fatalf("%d histories do not find it", most)
	return 0, ""
}

var violation = regexp.MustCompile(`seed (\d+): (.*)`)

// FirstIn is First for a mutant of the source. bin has the tests, built from it.
func FirstIn(t testing.TB, bin mutanttest.Binary, most int, flags ...string) (seed int) {
	t.Helper()
	output, err := In(t, bin, append(flags, "-seed=0", fmt.Sprint("-seeds=", most))...)
	found := violation.FindStringSubmatch(output)
	if err == nil || found == nil {
		t.Fatalf("%d histories do not find it: %s", most, output)
	}
	seed, err = strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("found by history %d: %s", seed+1, found[2])
	return seed
}

// In runs TestHistories of a test binary with the flags of this test and with more.
func In(t testing.TB, bin mutanttest.Binary, flags ...string) (output string, err error) {
	t.Helper()
	flags = append([]string{"-test.run=^TestHistories$", "-shrink=false", fmt.Sprint("-seeds=", *seeds)}, flags...)
	text, err := bin.Command(t.Context(), flags...).CombinedOutput()
	return string(text), err
}

// FirstLine returns the violation without what happened before it.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Smallest returns a history that is wrong, and from which no part can be left out. parts returns the histories that
// lack one part each. wrong can change something else of a history, such as its seed, until it is wrong.
func Smallest[H any](h H, parts func(H) []H, wrong func(*H) bool) H {
	for found := *shrink; found; {
		found = false
		for _, part := range parts(h) {
			if found = wrong(&part); found {
				h = part
				break
			}
		}
	}
	return h
}

// Keepable returns a history as a file that Kept reads.
func Keepable(h any) string {
	text, err := json.Marshal(h)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("to keep it, after the rule is corrected: testdata/histories/NAME.json:\n%s", text)
}

// Kept reads the histories of a package that once were wrong, or that find a mutant, by name.
func Kept[H any](t testing.TB) map[string]H {
	t.Helper()
	files, err := filepath.Glob("testdata/histories/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no kept histories: %v", err)
	}
	kept := map[string]H{}
	for _, file := range files {
		var h H
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &h)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		kept[strings.TrimSuffix(filepath.Base(file), ".json")] = h
	}
	return kept
}
