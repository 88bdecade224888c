package stack

import (
	"debug/elf"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// TestAVersionForEachChange checks that a function gets another version whenever its code or its configuration changes,
// and only then: Lambda publishes no second version of the same, and CloudFormation takes that for an error.
func TestAVersionForEachChange(t *testing.T) {
	testengine.CheckOnly(t)
	other := t.TempDir()
	must(t, os.CopyFS(other, os.DirFS(standIn(t, elf.EM_AARCH64))))
	must(t, os.WriteFile(filepath.Join(other, "more"), []byte("other code"), 0o600))

	first := versions(synth(t, nil))
	all := slices.Collect(maps.Keys(first))
	slices.Sort(all)
	for _, c := range []struct {
		what   string
		values map[string]any
		others []string
	}{
		{"nothing", nil, nil},
		{"an alarm", values("alarm-topic=" + theirTopic), nil},
		{"a permission", values("former-keys=" + oldKey), nil},
		{"a variable of all functions", values("log-level=debug"), all},
		{"a variable of one", values("campaign-cache=1s"), []string{"claim"}},
		{"the code of one", map[string]any{"dedupe-code": other}, []string{"dedupe"}},
		{"the memory of one", values("records.memory=2048"), []string{"dedupe"}},
	} {
		var changed []string
		for function, version := range versions(synth(t, c.values)) {
			if version != first[function] {
				changed = append(changed, function)
			}
		}
		slices.Sort(changed)
		if !slices.Equal(changed, c.others) {
			t.Errorf("with another value of %s, these have another version: %v, want %v", c.what, changed, c.others)
		}
	}
}

// versions returns the logical id of the version of each function.
func versions(tpl template) map[string]string {
	ids := map[string]string{}
	for id, version := range tpl.resources(versionType) {
		ids[nameOf(tpl.resources(functionType)[textAt(version, "Properties.FunctionName.Ref")])] = id
	}
	return ids
}
