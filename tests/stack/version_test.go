package stack

import (
	"debug/elf"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/oncebox/oncebox/infra"
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

// TestARecordStaysTheSameUnderACanary: a change of what a record is would make another alias with the name of the one that
// exists, which Lambda refuses. Other changes keep the alias, and so does a stack that is made again.
func TestARecordStaysTheSameUnderACanary(t *testing.T) {
	const canary = "claims=none; canary=15m"
	first := canaryAlias(t, canary)
	for _, same := range []string{
		canary, "claims=none; canary=30m", canary + "; format=json; ids=first-keeps; contexts-path=contexts",
		canary + "; log-level=debug; batch-size=10; window=3d; horizon=20d; natural=off; acks=off; sink=kinesis:others",
	} {
		if got := canaryAlias(t, same); got != first {
			t.Errorf("%s: another alias, %s", same, got)
		}
	}
	for _, other := range []string{
		"scope=orders", "dedupe-table=theirs", "id-path=event.id", "fingerprint-path=print", "volatile=sent_at",
		"contexts-path=notes", "ids=derived", "id-path=; format=snowplow", "id-path=; format=raw; raw-id=partition-key",
		"source-records=lines", "source-aggregation=off", "ledger=valkey://cache.example:6379",
		"source=" + theirStream + "; source-retention=168h", // the default of the scope is its name
	} {
		if got := canaryAlias(t, canary+"; "+other); got == first {
			t.Errorf("%s: the alias is the same", other)
		}
	}
	if got := canaryAlias(t, canary+"; id-path=; format=raw"); got == canaryAlias(t, canary+"; id-path=; format=raw; raw-id=partition-key") {
		t.Errorf("the id of raw records: the alias is the same")
	}
	if got := canaryAlias(t, "claims=none"); got != "" {
		t.Errorf("without a canary there is the alias %s", got)
	}
}

// canaryAlias returns the logical id of the alias of the dedupe function with the name canary, or "".
func canaryAlias(t *testing.T, settings string) string {
	t.Helper()
	stack, err := infra.NewStack(newApp(t, contextOf(t, values(settings))))
	must(t, err)
	for _, c := range *stack.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if alias, ok := c.(awslambda.CfnAlias); ok && *alias.Name() == "canary" {
			return *stack.GetLogicalId(alias)
		}
	}
	return ""
}
