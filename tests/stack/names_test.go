package stack

import (
	"maps"
	"slices"
	"testing"
)

// TestNamesOfWhatKeepsData: CloudFormation knows a resource by this name. Under
// another one it makes another resource, an empty one: bank, claims and entries
// would be forgotten, though the old tables stay. So a change of these names is not
// a refactoring; it needs a migration.
func TestNamesOfWhatKeepsData(t *testing.T) {
	want := map[string]string{
		"ClaimsBankTable521EF770":      tableType,
		"DedupeTableBA3ED9BF":          tableType,
		"RecordsSource5459A2ED":        streamType,
		"RecordsDestination579047A1":   streamType,
		"RecordsFailureBucket49B349C2": bucketType,
		"RecordsBellQueue33C0C3AE":     queueType,
		"ClaimsAPI5BA16AE3":            apiType, // it is in the URL that clients know
		"ClaimsAccessLogsDF400F75":     logGroupType,
		"ClaimsFunctionLogs6D297AAD":   logGroupType,
		"RecordsFunctionLogs7A7CB784":  logGroupType,
		"RecordsMappingC285398D":       mappingType, // another one starts at the oldest record
		"ClaimsFunction99A26075":       functionType,
		"RecordsFunction821ACDDD":      functionType, // checkpoints belong to its name
	}
	kinds := slices.Compact(slices.Sorted(maps.Values(want)))
	for name, tc := range map[string]struct {
		values map[string]any
		has    func(id string) bool
	}{
		"as committed": {nil, func(string) bool { return true }},
		"all changed": {with(with(everySetting, "auth", "open", "parallelization", "2", "aggregation", "off", "key-arn", theirKey),
			"log-retention-days", "7", "alarm-topic-arn", theirTopic, "architecture", "x86_64"), func(string) bool { return true }},
		"claims":  {values("jobs", "claims"), func(id string) bool { return id[0] != 'R' }},
		"records": {values("jobs", "records"), func(id string) bool { return id[0] != 'C' }},
	} {
		got, wanted := map[string]string{}, map[string]string{}
		tpl := synth(t, tc.values)
		for _, kind := range kinds {
			for id := range tpl.resources(kind) {
				got[id] = kind
			}
		}
		for id, kind := range want {
			if tc.has(id) {
				wanted[id] = kind
			}
		}
		if !maps.Equal(got, wanted) {
			t.Errorf("%s: got %v\nwant %v", name, got, wanted)
		}
	}
}
