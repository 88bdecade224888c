package claims

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestExportGoesOn stops an export at each call of the store in turn. A page may be written and not yet counted then.
// The same command continues, and each claim is in the file once.
func TestExportGoesOn(t *testing.T) {
	t.Parallel()
	const claims = 2500 // three pages of the store
	for _, format := range []string{formatCSV, formatNDJSON} {
		w := newFixture(t, memstore.NewItems(), itembank.Settings{})
		codes := make([]string, claims)
		for i := range codes {
			codes[i] = fmt.Sprint("code-", i)
		}
		if _, err := w.bank.Load(t.Context(), w.name, itembank.Items(codes...), nil); err != nil {
			t.Fatal(err)
		}
		for i := range claims {
			if _, err := w.bank.Claim(t.Context(), w.name, fmt.Sprint("claimant-", i)); err != nil {
				t.Fatal(err)
			}
		}
		elsewhere := itembank.NewOperator(memstore.NewItems()) // as in another region
		if _, _, err := elsewhere.CreateCampaign(t.Context(), w.name, itembank.Settings{}); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		export := claimsExport{Campaign: w.name, Format: format, Out: out}
		cut := errors.New("cut")
		for pages := 1; ; pages++ {
			lists := 0
			w.store.Before = func(method string) error {
				if method == "ListClaims" {
					if lists++; lists == 2 {
						return cut
					}
				}
				return nil
			}
			err := export.export(t.Context(), w.app(), w.bank)
			w.store.Before = nil
			if err == nil {
				if pages != 3 {
					t.Errorf("%s: want 3 runs, got %d", format, pages)
				}
				break
			}
			if !errors.Is(err, cut) {
				t.Fatal(err)
			}
			if exit := cli.ExitCode(t.Context(), err); exit != cli.ExitFailed {
				t.Errorf("want exit %d, got %d", cli.ExitFailed, exit)
			}
			torn, err := os.OpenFile(partOf(out), os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = torn.WriteString("a page that nobody coun")
			}
			if err = errors.Join(err, torn.Close()); err != nil {
				t.Fatal(err)
			}
			other := export
			if other.Format = formatCSV; format == formatCSV {
				other.Format = formatNDJSON
			}
			var usage *cli.UsageError
			if err := other.export(t.Context(), w.app(), w.bank); !errors.As(err, &usage) || !strings.Contains(err.Error(), "another export") {
				t.Errorf("another format: got %v", err)
			}
			if err := export.export(t.Context(), w.app(), elsewhere); !errors.As(err, &usage) || !strings.Contains(err.Error(), "another export") {
				t.Errorf("another campaign of that name: got %v", err)
			}
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		got := exportedClaimants(t, format, text)
		different := slices.Compact(slices.Sorted(slices.Values(got)))
		if len(got) != claims || len(different) != claims {
			t.Errorf("%s: want %d claims, got %d of %d claimants", format, claims, len(got), len(different))
		}
	}
}

// exportedClaimants reads the claimants of an export.
func exportedClaimants(t *testing.T, format string, text []byte) (claimants []string) {
	t.Helper()
	if format == formatCSV {
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || len(rows) == 0 || rows[0][1] != "claimant" {
			t.Fatalf("unexpected CSV %q, %v", rows, err)
		}
		for _, r := range rows[1:] {
			claimants = append(claimants, r[1])
		}
		return claimants
	}
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var c claimJSON
		if err := lines.Decode(&c); err != nil {
			t.Fatal(err)
		}
		claimants = append(claimants, c.Claimant)
	}
	return claimants
}

// TestExportKeepsOtherFiles starts two exports into one file at the same time: one is refused. A file that does not
// belong to an export is not changed.
func TestExportKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	w := newFixture(t, memstore.NewItems(), itembank.Settings{})
	out := filepath.Join(t.TempDir(), "out")
	export := claimsExport{Campaign: w.name, Format: formatNDJSON, Out: out}
	refused := func(want string) {
		t.Helper()
		var usage *cli.UsageError
		if err := export.export(t.Context(), w.app(), w.bank); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	const mine = "a file of somebody else"
	for _, path := range []string{partOf(out), out + ".lock"} {
		if err := os.WriteFile(path, []byte(mine), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("needs " + path + " for itself")
		text, err := os.ReadFile(path)
		if err = errors.Join(err, os.Remove(path)); err != nil || string(text) != mine {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
	}
	lists := 0
	w.store.Before = func(method string) error {
		if method != "ListClaims" {
			return nil
		}
		if lists++; lists == 1 {
			refused("another process is writing to it")
			return errors.New("cut")
		}
		return nil
	}
	if err := export.export(t.Context(), w.app(), w.bank); err == nil || err.Error() != "cut" {
		t.Errorf("got %v", err)
	}
	if err := export.export(t.Context(), w.app(), w.bank); err != nil { // continues although there is no claim yet
		t.Error(err)
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
