package stack

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/records/cost"
)

// TestSharedTableHasOneAlarm checks that two constructs with one table add one alarm. The topic gets its messages
// once, even if only the second construct has a topic.
func TestSharedTableHasOneAlarm(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		table, err := infra.NewTable(stack, "Table", infra.TableProps{})
		must(t, err)
		topic := infra.AlarmProps{Topic: awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String(theirTopic))}
		for i, alarms := range []infra.AlarmProps{{}, topic, topic} {
			_, err := infra.NewClaimAPI(stack, fmt.Sprint("Claims", i), infra.ClaimAPIProps{
				Auth: infra.AuthIAM, DedupeTable: table, RateLimit: 300,
				Function: functionProps(t), SweepFunction: sweepProps(t), Alarms: alarms,
			})
			must(t, err)
		}
	})
	shared := 0
	for id, a := range tpl.resources(alarmType) {
		if !strings.HasPrefix(id, "ThrottledKeys") || strings.Contains(rendered(a.properties()["Metrics"]), "BankTable") {
			continue
		}
		shared++
		if actions := a.properties()["AlarmActions"]; !reflect.DeepEqual(actions, []any{theirTopic}) {
			t.Errorf("%s tells %v", id, actions)
		}
	}
	if shared != 1 {
		t.Errorf("the shared table has %d alarms", shared)
	}
}

// alarmCases holds, for each alarm, the metrics that it reads. Each alarm must stay off in a new stack, in an unused
// stack, and during short trouble. It must go off in lasting trouble. Before the first request a stack has no values
// at all.
var alarmCases = map[string]alarmCase{
	"claim-server-errors": {
		passing: []period{{"Count": 100, "5xx": 0}, {"Count": 100, "5xx": 3}, {"Count": 100, "5xx": 0}},
		trouble: []period{{"Count": 10, "5xx": 1}, {"Count": 10, "5xx": 0}, {"Count": 1000, "5xx": 10}},
	},
	"claim-client-errors": {
		passing: []period{{"Count": 10, "ClientErrors": 10}, {"Count": 49, "ClientErrors": 49}, {"Count": 900, "ClientErrors": 900}},
		trouble: []period{{"Count": 60, "ClientErrors": 50}, {"Count": 60, "ClientErrors": 50}, {"Count": 900, "ClientErrors": 450}},
	},
	"claim-rate-limit": {
		passing: []period{{"Count": 9000}, {"Count": 9000, "RateLimited": 8000}, {"Count": 9000, "RateLimited": 8000}},
		trouble: []period{{"Count": 9000, "RateLimited": 450}, {"Count": 900, "RateLimited": 60}, {"Count": 50, "RateLimited": 5}},
	},
	"claim-latency": {
		passing: []period{{"Latency": 9000}, {"Latency": 9000}, {"Latency": 4999}},
		trouble: []period{{"Latency": 5000}, {"Latency": 5000}, {"Latency": 5000}},
	},
	"claim-function-errors":    functionErrors,
	"claim-function-throttles": functionThrottles,
	"sweep-function-errors": {
		idle: sweeping,
		passing: []period{
			sweeping, {"sweep Invocations": 5, "sweep Errors": 5}, sweeping,
		},
		trouble: []period{{"sweep Invocations": 5, "sweep Errors": 1}, {"sweep Invocations": 5, "sweep Errors": 1}},
	},
	"sweep-function-throttles": {
		idle:    sweeping,
		passing: []period{{"sweep Throttles": 5}, sweeping, sweeping},
		trouble: []period{{"sweep Throttles": 5}, {"sweep Throttles": 5}},
	},
	"sweep-not-running": {
		idle:    sweeping,
		passing: []period{{}, {}, {"sweep Invocations": 1}, {}, {}},
		trouble: []period{{}, {}, {}},
	},
	"bank-nearly-empty": {
		idle:    sweeping,
		passing: []period{{"FreeItems": 0}, {"FreeItems": 101}}, trouble: []period{{"FreeItems": 100}},
	},
	"iterator-age": {
		passing: []period{{"IteratorAge": 700_000}, {"IteratorAge": 0}, {}},
		trouble: []period{{"IteratorAge": 600_000}, {}, {"IteratorAge": 600_000}},
	},
	"stream-not-read": {
		idle: period{"PolledEventCount": 300},
		// a mapping that is off reads nothing, and in an empty stream nothing waits
		passing: []period{{"IncomingRecords": 5, "PolledEventCount": 1}, {}},
		trouble: []period{{"IncomingRecords": 1, "ConsumedWriteCapacityUnits": 1}},
	},
	"log-events-not-sent": {
		passing: []period{{"DeliveryErrors": 9}, {}, {}}, trouble: []period{{"DeliveryErrors": 1}, {"DeliveryThrottling": 1}},
	},
	"log-messages-given-up": single("AsyncEventsDropped"),
	"message-age": {
		passing: []period{{"ApproximateAgeOfOldestMessage": 700}, {"ApproximateAgeOfOldestMessage": 0}, {}},
		trouble: []period{{"ApproximateAgeOfOldestMessage": 600}, {}, {"ApproximateAgeOfOldestMessage": 600}},
	},
	"messages-failing": {
		passing: []period{{"RecordsFailed": 10}, {"RecordsFailed": 0}, {}},
		trouble: []period{{"RecordsFailed": 1}, {}, {"RecordsFailed": 1}},
	},
	"messages-given-up": single("ApproximateNumberOfMessagesVisible"),
	"dead-letters": {
		idle:    period{"ApproximateNumberOfMessagesVisible": 0},
		passing: []period{{"DeadLetters": 1}, {"ApproximateNumberOfMessagesVisible": 0}},
		trouble: []period{{"DeadLetters": 1, "ApproximateNumberOfMessagesVisible": 0}}, // no notification was sent
	},
	"batches-given-up":              single("OnFailureDestinationDeliveredEventCount"),
	"destination-delivery-failures": single("DestinationDeliveryFailures"),
	"records-lost":                  single("DroppedEventCount"),
	"records-past-horizon":          single("RecordsPastHorizon"),
	"dedupe-function-errors":        functionErrors,
	"dedupe-function-throttles":     functionThrottles,
	"ledger-memory": {
		passing: []period{{"LedgerMemoryShare": 0.8}, {"LedgerMemoryShare": 0.79}, {"LedgerMemoryShare": 0.79}},
		trouble: []period{{"LedgerMemoryShare": 0.8}, {"LedgerMemoryShare": 0.8}},
	},
	"ledger-full": {
		passing: []period{{"LedgerRefusals": 7}, {}, {}}, trouble: []period{{"LedgerRefusals": 1}, {"LedgerRefusals": 1}},
	},
	"ledger-conflicts": {
		passing: []period{{"LedgerAppends": 900, "LedgerConflicts": 450}, {"LedgerAppends": 899, "LedgerConflicts": 899}},
		trouble: slices.Repeat([]period{{"LedgerAppends": 900, "LedgerConflicts": 450}}, 3),
	},
	"lane-heat": {
		passing: []period{{"LaneUnits": 300 * 700}, {"LaneUnits": 300 * 700}, {"LaneUnits": 300 * 699}},
		trouble: slices.Repeat([]period{{"LaneUnits": 300 * 700}}, 3),
	},
	"claim-canary-errors": {
		passing: []period{
			{"version Invocations": 100, "version Errors": 1}, {"version Invocations": 900, "version VersionServerErrors": 8}, {},
		},
		trouble: []period{{"version Invocations": 5, "version Errors": 1}, {"version VersionServerErrors": 1}},
	},
	"claim-canary-refusals": {
		passing: []period{
			{"version Invocations": 900, "version VersionClientErrors": 89},
			{"version Invocations": 5, "version VersionClientErrors": 5}, {"version VersionClientErrors": 100},
		},
		trouble: []period{
			{"version Invocations": 12, "version VersionClientErrors": 10}, {"version Invocations": 900, "version VersionClientErrors": 90},
		},
	},
	"dedupe-canary-errors": {
		passing: []period{
			{"version Invocations": 100, "version Errors": 1}, {"version Invocations": 900, "version VersionFailures": 8}, {},
		},
		trouble: []period{{"version Invocations": 5, "version Errors": 1}, {"version VersionFailures": 1}},
	},
	"dedupe-canary-dead-letters": single("version VersionDeadLetters"),

	"backup-failed": {
		passing: []period{{"NumberOfCopyJobsFailed": 1}, {}}, trouble: []period{{"NumberOfBackupJobsExpired": 1}},
	},
	"backup-not-running": {
		idle:    period{"NumberOfBackupJobsCompleted": 2},
		passing: append([]period{{"NumberOfBackupJobsCompleted": 1}}, slices.Repeat([]period{{}}, 31)...),
		trouble: slices.Repeat([]period{{}}, 32),
	},
	"export-not-running": {
		idle:    period{"ExecutionsSucceeded": 1},
		passing: []period{{}, {}, {"ExecutionsSucceeded": 1}, {}, {}}, trouble: []period{{}, {}, {}},
	},

	"handler-superseded": single("Superseded"),
	"handler-not-stored": single("NotStored"),
	"throttled-stream": {
		passing: []period{{"ReadProvisionedThroughputExceeded": 900}, {"WriteProvisionedThroughputExceeded": 99}, {}},
		trouble: []period{
			{"ReadProvisionedThroughputExceeded": 50, "WriteProvisionedThroughputExceeded": 50}, {},
			{"WriteProvisionedThroughputExceeded": 100},
		},
	},
	"throttled-index": {
		passing: []period{{"due WriteThrottleEvents": 900}, {"WriteThrottleEvents": 900}, {"due ReadThrottleEvents": 99}},
		trouble: []period{{"due WriteKeyRangeThroughputThrottleEvents": 100}, {}, {"due ReadThrottleEvents": 100}},
	},
	"throttled-keys": {
		passing: []period{{"WriteThrottleEvents": 900}, {"WriteThrottleEvents": 99}, {"ReadThrottleEvents": 99}},
		trouble: []period{{"WriteThrottleEvents": 50, "WriteKeyRangeThroughputThrottleEvents": 50}, {}, {"ReadThrottleEvents": 100}},
	},
}

type alarmCase struct {
	idle    period   // the values of an unused stack
	passing []period // the last periods, after which the alarm is off
	trouble []period // and those after which it is on
}

// sweeping are the metrics of a sweep that runs every minute.
var sweeping = period{"sweep Invocations": 5, "sweep Errors": 0}

var functionErrors = alarmCase{
	passing: []period{{"Invocations": 900, "Errors": 8}, {"Invocations": 900, "Errors": 8}, {"Invocations": 5, "Errors": 5}},
	trouble: []period{{"Invocations": 900, "Errors": 9}, {}, {"Invocations": 1, "Errors": 1}},
}

var functionThrottles = alarmCase{
	passing: []period{{"Invocations": 900, "Throttles": 900}, {"Invocations": 900, "Throttles": 9}, {"Invocations": 900, "Throttles": 9}},
	trouble: []period{{"Throttles": 1}, {"Invocations": 990, "Throttles": 10}}, // nothing is invoked at all
}

// single is an alarm for which one event is enough.
func single(metric string) alarmCase {
	return alarmCase{passing: []period{{metric: 1}, {}}, trouble: []period{{metric: 1}}}
}

// TestAlarmsAtNight checks every alarm against its case.
func TestAlarmsAtNight(t *testing.T) {
	seen := map[string]bool{}
	for _, tpl := range []template{
		readGolden(t, "default"), readGolden(t, "log"), readGolden(t, "customer-key"), readGolden(t, "from-queue"),
		readGolden(t, "from-table"), readGolden(t, "from-logs"), withHandlerAlarms(t),
	} {
		for id, a := range tpl.resources(alarmType) {
			section := sectionOf(a)
			c, ok := alarmCases[section]
			if !ok {
				t.Errorf("%s has no case", id)
				continue
			}
			seen[section] = true
			if alarms(t, a) || alarms(t, a, period{}, period{}) {
				t.Errorf("%s goes off on a first deployment", id)
			}
			if alarms(t, a, c.idle, c.idle, c.idle) {
				t.Errorf("%s goes off in an unused stack", id)
			}
			if alarms(t, a, c.passing...) {
				t.Errorf("%s goes off in passing trouble", id)
			}
			if !alarms(t, a, c.trouble...) {
				t.Errorf("%s does not go off", id)
			}
		}
	}
	for section := range alarmCases {
		if !seen[section] {
			t.Errorf("there is no alarm for the case %s", section)
		}
	}
}

// TestNights plays nights in which something stops, over all alarms of a stack. No other alarm may go off, and no alarm
// may go out because data is missing.
func TestNights(t *testing.T) {
	t.Parallel()
	quiet := period{"sweep Invocations": 5, "sweep Errors": 0, "FreeItems": 900, "PolledEventCount": 300}
	but := func(changes period, missing ...string) period {
		night := maps.Clone(quiet)
		maps.Copy(night, changes)
		for _, m := range missing {
			delete(night, m)
		}
		return night
	}
	dead := but(nil, "sweep Invocations", "sweep Errors", "FreeItems") // EventBridge invokes nothing, so Lambda counts nothing
	for _, n := range []struct {
		what       string
		before, on []string // the alarms that are on before and after, by their sections
		night      period
	}{
		{"nothing", nil, nil, quiet},
		{"the rule of the sweep is disabled", nil, []string{"sweep-not-running"}, dead},
		{
			"the permission of the rule is lost, and the bank is nearly empty", []string{"bank-nearly-empty"},
			[]string{"bank-nearly-empty", "sweep-not-running"}, dead,
		},
		{
			"the sweep may not count, and the bank is nearly empty", []string{"bank-nearly-empty"},
			[]string{"bank-nearly-empty", "sweep-function-errors"}, but(period{"sweep Errors": 1}, "FreeItems"),
		},
		{"the campaign that was nearly empty is closed", []string{"bank-nearly-empty"}, nil, but(nil, "FreeItems")},
		{"the index is throttled", nil, []string{"throttled-index"}, but(period{"due WriteThrottleEvents": 100})},
		{"the tables are throttled", nil, []string{"throttled-keys"}, but(period{"WriteThrottleEvents": 100})},
		{
			"the streams are throttled", nil, []string{"throttled-stream"},
			but(period{"WriteProvisionedThroughputExceeded": 100}),
		},
	} {
		var on []string
		for _, a := range readGolden(t, "default").resources(alarmType) {
			section := sectionOf(a)
			if stateAfter(t, a, slices.Contains(n.before, section), n.night, n.night, n.night) {
				on = append(on, section)
			}
		}
		slices.Sort(on)
		if on = slices.Compact(on); !slices.Equal(on, n.on) {
			t.Errorf("%s: the alarms %v are on, want %v", n.what, on, n.on)
		}
	}
}

// TestCanarySeesItsVersion plays a version that fails 9 % of the tenth of the calls that it gets. CodeDeploy stops at
// alarms of this version, whose metrics have no part of the old version.
func TestCanarySeesItsVersion(t *testing.T) {
	t.Parallel()
	tpl := readGolden(t, "customer-key")
	all := tpl.resources(alarmType)
	night := period{"Invocations": 10_000, "Errors": 90, "version Invocations": 1000, "version Errors": 90}
	var on []string
	for _, group := range tpl.resources("AWS::CodeDeploy::DeploymentGroup") {
		for _, ref := range list(at(group, "Properties.AlarmConfiguration.Alarms")) {
			a := all[textAt(ref, "Name.Ref")]
			for _, m := range append(list(at(a, "Properties.Metrics")), map[string]any{"MetricStat": object("Metric", a.properties())}) {
				checkVersion(t, tpl, sectionOf(a), list(at(m, "MetricStat.Metric.Dimensions")))
			}
			if alarms(t, a, night, night) {
				on = append(on, sectionOf(a))
			}
		}
	}
	slices.Sort(on)
	if want := []string{"claim-canary-errors", "dedupe-canary-errors"}; !slices.Equal(on, want) {
		t.Errorf("the alarms %v stop the canary, want %v", on, want)
	}
	for id, a := range all {
		if sectionOf(a) == "claim-function-errors" && alarms(t, a, night, night) {
			t.Errorf("%s sees the new version, too", id)
		}
	}
}

// checkVersion checks that the dimensions of a metric are of the version that an alias gets.
func checkVersion(t *testing.T, tpl template, section string, dimensions []any) {
	t.Helper()
	if dimensions == nil {
		return // an expression
	}
	values := map[string]string{}
	for _, d := range dimensions {
		values[textAt(d, "Name")] = rendered(at(d, "Value"))
	}
	for _, alias := range tpl.resources(aliasType) {
		version := rendered(at(alias, "Properties.FunctionVersion"))
		function := rendered(at(alias, "Properties.FunctionName"))
		if values["Version"] == version || values["ExecutedVersion"] == version && values["FunctionName"] == function &&
			values["Resource"] == function+":"+textAt(alias, "Properties.Name") {
			return
		}
	}
	t.Errorf("%s reads a metric of %v", section, values)
}

// TestRareSweeps checks sweeps that run seldom. A failed sweep sets an alarm off at once, because two failures would
// take two intervals. A missing sweep does after three intervals.
func TestRareSweeps(t *testing.T) {
	t.Parallel()
	for golden, every := range map[string]float64{"jwt": 3600, "every-setting": 24 * 3600} {
		seen := 0
		for id, a := range readGolden(t, golden).resources(alarmType) {
			switch sectionOf(a) {
			case "sweep-function-errors":
				seen++
				if !alarms(t, a, period{"sweep Invocations": 1, "sweep Errors": 1}) {
					t.Errorf("%s waits", id)
				}
			case "sweep-not-running":
				seen++
				if p := number(a.properties()["Period"]); p != every || alarms(t, a, sweeping, period{}, period{}) {
					t.Errorf("%s does not wait for three intervals; its period is %v s", id, p)
				}
			}
		}
		if seen != 2 {
			t.Errorf("%s has %d of two alarms", golden, seen)
		}
	}
}

// TestDeadLettersAreCountedWithoutMetrics checks that the alarm does not depend on the metrics of the function.
func TestDeadLettersAreCountedWithoutMetrics(t *testing.T) {
	t.Parallel()
	tpl := readGolden(t, "every-setting")
	for _, filter := range tpl.resources(filterType) {
		if textAt(filter, transformation+".MetricName") == "DeadLetters" {
			return // TestInvariants checks the rest
		}
	}
	t.Error("nothing counts dead letters")
}

// sectionOf returns the section of the runbook that the description of an alarm links to.
func sectionOf(alarm resource) string {
	_, section, _ := strings.Cut(textAt(alarm, "Properties.AlarmDescription"), "#")
	return section
}

// TestRunbookURL checks that the descriptions lead to the page of the setting.
func TestRunbookURL(t *testing.T) {
	t.Parallel()
	for id, a := range readGolden(t, "every-setting").resources(alarmType) {
		text := textAt(a, "Properties.AlarmDescription")
		if !strings.Contains(text, " https://wiki.example/oncebox#"+sectionOf(a)) || alarmCases[sectionOf(a)].trouble == nil {
			t.Errorf("%s says %s", id, text)
		}
	}
}

func functionProps(t *testing.T) infra.FunctionProps {
	t.Helper()
	return infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
}

func sweepProps(t *testing.T) infra.SweepFunctionProps {
	t.Helper()
	return infra.SweepFunctionProps{Code: standIn(t, elf.EM_AARCH64)}
}

// runbookLink matches the end of a description: the link to the section with advice.
var runbookLink = regexp.MustCompile(
	`^[A-Z][^.]*\. https://github\.com/oncebox/oncebox/blob/main/docs/operations\.md#([a-z-]+)$`)

// TestRunbook checks that docs/operations.md has a section for every alarm and no other, that each section has all its
// parts and names the alarm's metrics, and that the links of the page lead to headings.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/operations.md")
	must(t, err)
	_, runbook, found := strings.Cut(string(text), "\n# Alarms\n")
	runbook, _, more := strings.Cut(runbook, "\n# ")
	if !found || !more {
		t.Fatal("docs/operations.md has no part about alarms, with another after it")
	}
	sections := map[string]string{}
	for _, section := range strings.Split(runbook, "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		sections[name] = body
		for _, part := range []string{"Means", "At risk", "Do", "Over"} {
			if !strings.Contains(body, "\n**"+part+".**") {
				t.Errorf("section %s has no part %q", name, part)
			}
		}
	}
	linked := map[string]bool{}
	alarms := readGolden(t, "default").resources(alarmType)
	maps.Copy(alarms, readGolden(t, "log").resources(alarmType))
	maps.Copy(alarms, readGolden(t, "customer-key").resources(alarmType))
	for _, name := range []string{"from-queue", "from-table", "from-logs"} {
		for id, a := range readGolden(t, name).resources(alarmType) {
			alarms[name+" "+id] = a // sources have alarms of the same name
		}
	}
	maps.Copy(alarms, withHandlerAlarms(t).resources(alarmType))
	for id, a := range alarms {
		parts := runbookLink.FindStringSubmatch(textAt(a, "Properties.AlarmDescription"))
		if parts == nil {
			t.Errorf("%s has no link to the runbook", id)
			continue
		}
		linked[parts[1]] = true
		body, ok := sections[parts[1]]
		if !ok {
			t.Errorf("there is no section %s for %s", parts[1], id)
		}
		for _, metric := range metricsOf(a) {
			if !strings.Contains(body, "`"+metric+"`") {
				t.Errorf("section %s does not name %s", parts[1], metric)
			}
		}
	}
	for name := range sections {
		if !linked[name] {
			t.Errorf("section %s is about no alarm", name)
		}
	}
	for _, l := range regexp.MustCompile(`\(#([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		heading := regexp.MustCompile(`(?mi)^#+ ` + strings.ReplaceAll(l[1], "-", "[ -]") + `$`)
		if !heading.Match(text) {
			t.Errorf("docs/operations.md: no heading for the link to #%s", l[1])
		}
	}
}

// metricsOf returns the names of the metrics that an alarm reads.
func metricsOf(alarm resource) (names []string) {
	names = append(names, textAt(alarm, "Properties.MetricName"))
	for _, m := range list(at(alarm, "Properties.Metrics")) {
		names = append(names, textAt(m, "MetricStat.Metric.MetricName"))
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// TestCostsOfAlarms counts the metrics in alarms. `oncebox cost` has the numbers in its bills, and docs/costs.md in a
// table. CloudWatch charges for each metric of an alarm.
func TestCostsOfAlarms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/docs/costs.md")
	must(t, err)
	for _, job := range []struct {
		name, golden string
		billed       int
	}{
		{"claims", "link", cost.ClaimAlarmMetrics},
		{"records", "records", cost.RecordAlarmMetrics},
		{"records with the log ledger", "log", cost.RecordAlarmMetrics + cost.LogAlarmMetrics},
		{
			"both jobs, which share a table", "default",
			cost.ClaimAlarmMetrics + cost.RecordAlarmMetrics - cost.SharedAlarmMetrics,
		},
	} {
		all := readGolden(t, job.golden).resources(alarmType)
		looked := 0
		for _, a := range all {
			looked += len(metricsOf(a))
		}
		if looked != job.billed {
			t.Errorf("%s: alarms have %d metrics, and internal/records/cost has %d", job.name, looked, job.billed)
		}
		row := fmt.Sprintf("\n| %s | %d | %d | %.2f |\n", job.name, len(all), looked, cost.AlarmMetricMonth*float64(looked))
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/costs.md lacks%s", row)
		}
	}
}
