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

// alarms are what is watched, by the section of docs/operations.md, with names and
// dimensions as AWS documents them: Lambda Developer Guide, "Types of metrics for
// Lambda functions"; DynamoDB Developer Guide, "DynamoDB metrics and dimensions" and
// "CloudWatch throttling metrics"; API Gateway Developer Guide, "Working with metrics
// for HTTP APIs"; SQS Developer Guide, "Available CloudWatch metrics for Amazon SQS".
var alarms = map[string][]string{
	"claim-server-errors":           {"Sum of 5xx, AWS/ApiGateway, ApiId=API: 1"},
	"claim-function-errors":         {"Sum of Errors, AWS/Lambda, FunctionName=claim function: 1"},
	"claim-function-throttles":      {"Sum of Throttles, AWS/Lambda, FunctionName=claim function: 1"},
	"iterator-age":                  {"Maximum of IteratorAge, AWS/Lambda, FunctionName=dedupe function: 600000"},
	"stream-not-read":               {"SampleCount of PolledEventCount, AWS/Lambda, EventSourceMappingUUID=mapping: 1, below it or silent 3 times"},
	"records-kept":                  {"Maximum of ApproximateNumberOfMessagesVisible, AWS/SQS, QueueName=notifier queue: 1"},
	"batches-given-up":              {"Sum of OnFailureDestinationDeliveredEventCount, AWS/Lambda, EventSourceMappingUUID=mapping: 1"},
	"destination-delivery-failures": {"Sum of DestinationDeliveryFailures, AWS/Lambda, FunctionName=dedupe function: 1"},
	"records-lost":                  {"Sum of DroppedEventCount, AWS/Lambda, EventSourceMappingUUID=mapping: 1"},
	"dedupe-function-errors":        {"Sum of Errors, AWS/Lambda, FunctionName=dedupe function: 1"},
	"dedupe-function-throttles":     {"Sum of Throttles, AWS/Lambda, FunctionName=dedupe function: 1"},
	"throttled-keys":                {throttledKeys + "bank table: 1", throttledKeys + "dedupe table: 1"},
}

const throttledKeys = "Sum of FILL(ReadThrottleEvents, 0) + FILL(WriteThrottleEvents, 0) + " +
	"FILL(ReadKeyRangeThroughputThrottleEvents, 0) + FILL(WriteKeyRangeThroughputThrottleEvents, 0), AWS/DynamoDB, TableName="

// claimSections have no alarm where there are only records; the bank table's one is
// missing there too.
var claimSections = []string{"claim-server-errors", "claim-function-errors", "claim-function-throttles"}

// wantedAlarms are those of one job, or of both.
func wantedAlarms(jobs string) (want []string) {
	for section, all := range alarms {
		of := "records"
		if slices.Contains(claimSections, section) {
			of = "claims"
		}
		if section != "throttled-keys" && jobs != "" && jobs != of {
			continue
		}
		for _, a := range all {
			if jobs != "records" || !strings.HasSuffix(a, "bank table: 1") {
				want = append(want, section+": "+a)
			}
		}
	}
	slices.Sort(want)
	return want
}

func TestAlarms(t *testing.T) {
	for name, c := range map[string]struct {
		context map[string]any
		jobs    string
		topic   string
	}{
		"both jobs": {},
		"claims":    {context: map[string]any{"jobs": "claims"}, jobs: "claims"},
		"records":   {context: map[string]any{"jobs": "records"}, jobs: "records"},
		"a topic":   {context: map[string]any{"alarm-topic-arn": theirTopic}, topic: theirTopic},
	} {
		t.Run(name, func(t *testing.T) {
			for _, wrong := range wrongAlarms(synth(t, c.context), wantedAlarms(c.jobs), c.topic) {
				t.Error(wrong)
			}
		})
	}
}

// TestSharedTableTellsTheTopic: once, also where the second construct brings it.
func TestSharedTableTellsTheTopic(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		table, err := infra.NewTable(stack, "Table", infra.TableProps{})
		must(t, err)
		function := infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
		topic := infra.AlarmProps{Topic: awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String(theirTopic))}
		for i, alarms := range []infra.AlarmProps{{}, topic, topic} {
			_, err := infra.NewClaimAPI(stack, fmt.Sprint("Claims", i), infra.ClaimAPIProps{
				Auth: infra.AuthIAM(), DedupeTable: table, Function: function, Alarms: alarms,
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

// TestPlantedFaultsOfAlarmsAreFound takes away each alarm and each of its
// properties, and changes them.
func TestPlantedFaultsOfAlarmsAreFound(t *testing.T) {
	for _, topic := range []string{"", theirTopic} {
		context := map[string]any{}
		if topic != "" {
			context["alarm-topic-arn"] = topic
		}
		plant := func(t *testing.T, what string, change func(template)) {
			t.Helper()
			tpl := synth(t, context)
			change(tpl)
			if len(wrongAlarms(tpl, wantedAlarms(""), topic)) == 0 {
				t.Errorf("topic %q: %s, and nobody noticed", topic, what)
			}
		}
		for id, a := range synth(t, context).resources(alarmType) {
			plant(t, "no "+id, func(tpl template) { delete(tpl["Resources"].(map[string]any), id) })
			plant(t, "twice "+id, func(tpl template) {
				tpl["Resources"].(map[string]any)["Planted"] = map[string]any(tpl.resources(alarmType)[id])
			})
			for key := range a.properties() {
				plant(t, id+" without "+key, func(tpl template) { delete(tpl.resources(alarmType)[id].properties(), key) })
				plant(t, id+" with another "+key, func(tpl template) { tpl.resources(alarmType)[id].properties()[key] = "planted" })
			}
			for key, value := range map[string]any{
				"ActionsEnabled": false, "AlarmActions": []any{"arn:aws:sns:eu-west-1:123456789012:other"}, "DatapointsToAlarm": 2.0,
				"Dimensions": []any{map[string]any{"Name": "FunctionName", "Value": "other"}}, "Statistic": "Average", "Threshold": 2.0,
				"AlarmDescription": a.properties()["AlarmDescription"].(string) + "-other",
			} {
				plant(t, fmt.Sprint(id, " with ", key, " ", value), func(tpl template) { tpl.resources(alarmType)[id].properties()[key] = value })
			}
			for i := range list(a.properties()["Metrics"]) {
				plant(t, fmt.Sprint(id, " without metric ", i), func(tpl template) {
					properties := tpl.resources(alarmType)[id].properties()
					properties["Metrics"] = slices.Delete(list(properties["Metrics"]), i, i+1)
				})
			}
		}
	}
}

// wrongAlarms tells how the alarms of a template differ from those that are wanted.
func wrongAlarms(tpl template, want []string, topic string) (wrong []string) {
	var got []string
	words := watched(tpl)
	for id, a := range tpl.resources(alarmType) {
		got = append(got, alarmInWords(a, words))
		var actions any
		if topic != "" {
			actions = []any{topic}
		}
		for _, key := range []string{"AlarmActions", "OKActions"} {
			if !reflect.DeepEqual(a.properties()[key], actions) {
				wrong = append(wrong, fmt.Sprintf("%s: the %s are %v, want %v", id, key, a.properties()[key], actions))
			}
		}
	}
	slices.Sort(got)
	for _, w := range want {
		if !slices.Contains(got, w) {
			wrong = append(wrong, "missing: "+w)
		}
	}
	for i, g := range got {
		if !slices.Contains(want, g) || i > 0 && g == got[i-1] {
			wrong = append(wrong, "too many: "+g)
		}
	}
	return wrong
}

// watched are the words for what the dimensions of alarms name.
func watched(tpl template) map[string]string {
	words := map[string]string{}
	for id, f := range tpl.resources(functionType) {
		job, _ := describe(tpl, f)
		words["${"+id+"}"] = job + " function"
		variables := at(f, "Properties.Environment.Variables")
		words[rendered(at(variables, "ONCEBOX_BANK_TABLE"))] = "bank table"
		words[rendered(at(variables, "ONCEBOX_DEDUPE_TABLE"))] = "dedupe table"
		words[strings.Replace(rendered(at(variables, "ONCEBOX_NOTIFY_QUEUE_URL")), "}", ".QueueName}", 1)] = "notifier queue"
	}
	for id := range tpl.resources(mappingType) {
		words["${"+id+"}"] = "mapping"
	}
	for id := range tpl.resources(apiType) {
		words["${"+id+"}"] = "API"
	}
	return words
}

// link is the end of a description: to the section that says what to do.
var link = regexp.MustCompile(`^[A-Z][^.]*\. https://github\.com/oncebox/oncebox/blob/main/docs/operations\.md#([a-z-]+)$`)

// usual is what most alarms have alike: they go off at once, and no data is good.
// The alarm on silence waits, and no data is bad.
var (
	usual = map[string]any{
		"ComparisonOperator": "GreaterThanOrEqualToThreshold", "EvaluationPeriods": 1.0, "TreatMissingData": "notBreaching",
	}
	onSilence = map[string]any{
		"ComparisonOperator": "LessThanThreshold", "EvaluationPeriods": 3.0, "TreatMissingData": "breaching",
	}
)

// alarmInWords is an alarm as in the table of alarms, with everything behind it
// that is not as usual.
func alarmInWords(alarm resource, words map[string]string) string {
	left := maps.Clone(alarm.properties())
	take := func(key string) any {
		value := left[key]
		delete(left, key)
		return value
	}
	delete(left, "AlarmActions") // looked at elsewhere
	delete(left, "OKActions")

	section := rendered(take("AlarmDescription"))
	if parts := link.FindStringSubmatch(section); parts != nil {
		section = parts[1]
	}
	metric := ""
	if metrics := list(take("Metrics")); metrics != nil {
		metric = expressionInWords(metrics, words)
	} else {
		metric = metricInWords(rendered(take("MetricName")), left, words)
		delete(left, "Namespace")
		delete(left, "Dimensions")
		delete(left, "Statistic")
		delete(left, "Period")
	}
	text := fmt.Sprintf("%s: %s: %s", section, metric, rendered(take("Threshold")))
	kind := usual
	if left["TreatMissingData"] == "breaching" {
		kind, text = onSilence, text+", below it or silent 3 times"
	}
	for key, value := range kind {
		if reflect.DeepEqual(left[key], value) {
			delete(left, key)
		} else {
			text += fmt.Sprintf(", %s is not %v", key, value)
		}
	}
	if len(left) > 0 {
		text += ", and " + rendered(left)
	}
	return text
}

// metricInWords is a metric over five minutes.
func metricInWords(name string, of map[string]any, words map[string]string) string {
	text := fmt.Sprintf("%s of %s, %s", rendered(of["Statistic"]), name, rendered(of["Namespace"]))
	for _, d := range list(of["Dimensions"]) {
		value := rendered(at(d, "Value"))
		if word, ok := words[value]; ok {
			value = word
		}
		text += fmt.Sprintf(", %s=%s", rendered(at(d, "Name")), value)
	}
	if of["Period"] != 300.0 {
		text += fmt.Sprintf(" in %v s", of["Period"])
	}
	return text
}

// expressionInWords is an expression with the names of its metrics, which have all
// else in common.
func expressionInWords(metrics []any, words map[string]string) (text string) {
	expression, returned := "", 0
	common := map[string]bool{}
	names := map[string]string{}
	for _, m := range metrics {
		if at(m, "ReturnData") != false {
			returned++
		}
		if e := textAt(m, "Expression"); e != "" {
			expression += e
			continue
		}
		of := map[string]any{
			"Statistic": at(m, "MetricStat.Stat"), "Period": at(m, "MetricStat.Period"),
			"Namespace": at(m, "MetricStat.Metric.Namespace"), "Dimensions": at(m, "MetricStat.Metric.Dimensions"),
		}
		common[metricInWords("EXPRESSION", of, words)] = true
		names[textAt(m, "Id")] = textAt(m, "MetricStat.Metric.MetricName")
	}
	if returned != 1 {
		return fmt.Sprintf("%d of the metrics are looked at", returned)
	}
	expression = regexp.MustCompile(`\b[a-z]\w*\b`).ReplaceAllStringFunc(expression, func(id string) string { return names[id] })
	return strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(common)), " and "), "EXPRESSION", expression)
}

// metricName finds the names of metrics in the table of alarms.
var metricName = regexp.MustCompile(`(?:of |FILL\()(5xx|[A-Z][a-z]\w+)`)

// TestRunbook: docs/operations.md has a section for every alarm, and no other, each
// with all its parts and the alarm's metrics; and its links lead to headings.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
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
				t.Errorf("section %s does not say: %s", name, part)
			}
		}
	}
	linked := map[string]bool{}
	for id, a := range synth(t, nil).resources(alarmType) {
		parts := link.FindStringSubmatch(textAt(a, "Properties.AlarmDescription"))
		if parts == nil {
			t.Errorf("%s has no link to the runbook", id)
			continue
		}
		linked[parts[1]] = true
		body, ok := sections[parts[1]]
		if !ok {
			t.Errorf("there is no section %s for %s", parts[1], id)
		}
		for _, metric := range metricName.FindAllStringSubmatch(strings.Join(alarms[parts[1]], " "), -1) {
			if !strings.Contains(body, "`"+metric[1]+"`") {
				t.Errorf("section %s does not name %s", parts[1], metric[1])
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
