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
)

// TestSharedTableHasOneAlarm checks that two constructs with one table add one alarm, which tells the topic once, also
// if only the second construct has a topic.
func TestSharedTableHasOneAlarm(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		table, err := infra.NewTable(stack, "Table", infra.TableProps{})
		must(t, err)
		topic := infra.AlarmProps{Topic: awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String(theirTopic))}
		for i, alarms := range []infra.AlarmProps{{}, topic, topic} {
			_, err := infra.NewClaimAPI(stack, fmt.Sprint("Claims", i), infra.ClaimAPIProps{
				Auth: infra.AuthIAM(), DedupeTable: table, Function: functionProps(t), Sweep: sweepProps(t), Alarms: alarms,
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

func functionProps(t *testing.T) infra.FunctionProps {
	t.Helper()
	return infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
}

func sweepProps(t *testing.T) infra.SweepProps {
	t.Helper()
	return infra.SweepProps{Code: standIn(t, elf.EM_AARCH64)}
}

// runbookLink is how a description ends: with the section that says what to do.
var runbookLink = regexp.MustCompile(
	`^[A-Z][^.]*\. https://github\.com/oncebox/oncebox/blob/main/docs/operations\.md#([a-z-]+)$`)

// TestRunbook checks that docs/operations.md has a section for every alarm and no other, that each section has all its
// parts and names the alarm's metrics, and that the links of the page lead to headings.
func TestRunbook(t *testing.T) {
	t.Parallel()
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
		for _, part := range []string{"Means", "At risk", "Look", "Do", "Over"} {
			if !strings.Contains(body, "\n**"+part+".** ") {
				t.Errorf("section %s has no part %q", name, part)
			}
		}
	}
	linked := map[string]bool{}
	alarms := readGolden(t, "default").resources(alarmType)
	maps.Copy(alarms, readGolden(t, "log").resources(alarmType))
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

// metricsOf returns the names of the metrics that an alarm looks at.
func metricsOf(alarm resource) (names []string) {
	names = append(names, textAt(alarm, "Properties.MetricName"))
	for _, m := range list(at(alarm, "Properties.Metrics")) {
		names = append(names, textAt(m, "MetricStat.Metric.MetricName"))
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
