package stack

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
)

const dashboardType = "AWS::CloudWatch::Dashboard"

// A widget is one of a dashboard's.
type widget struct {
	Type       string
	Properties struct {
		Title    string
		Alarms   []string
		Metrics  [][]any
		Markdown string
	}
}

// widgetsOf returns the widgets of the dashboard of a template. References have stand-ins.
func widgetsOf(t *testing.T, tpl template) []widget {
	t.Helper()
	for _, d := range tpl.resources(dashboardType) {
		var body struct{ Widgets []widget }
		must(t, json.Unmarshal([]byte(rendered(d.properties()["DashboardBody"])), &body))
		return body.Widgets
	}
	t.Fatal("there is no dashboard")
	return nil
}

// documentedMetric is a row of the tables of docs/operations.md.
var documentedMetric = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\| (?:Count|Milliseconds) \\|")

// TestDashboardShowsEverything checks that the dashboard of both jobs has every alarm of the stack and every metric
// that docs/operations.md lists, and no more metrics than a free one.
func TestDashboardShowsEverything(t *testing.T) {
	t.Parallel()
	tpl := readGolden(t, "customer-key")
	var alarms []string
	shown, count := "", 0
	for _, w := range widgetsOf(t, tpl) {
		alarms = append(alarms, w.Properties.Alarms...)
		for _, m := range w.Properties.Metrics {
			encoded, err := json.Marshal(m)
			must(t, err)
			shown += string(encoded) + "\n"
			count++
		}
	}
	for id := range tpl.resources(alarmType) {
		if !slices.Contains(alarms, attribute(id)) {
			t.Errorf("%s is not shown", id)
		}
	}
	if want := len(tpl.resources(alarmType)); len(alarms) != want {
		t.Errorf("%d alarms are shown, want %d", len(alarms), want)
	}
	documented := documentedMetric.FindAllStringSubmatch(readText(t, "/docs/operations.md"), -1)
	if len(documented) != 17 {
		t.Errorf("docs/operations.md lists %d metrics", len(documented))
	}
	for _, m := range documented {
		if !strings.Contains(shown, `"`+m[1]+`"`) && !strings.Contains(shown, `MetricName=\"`+m[1]+`\"`) {
			t.Errorf("%s is not shown", m[1])
		}
	}
	if count-1 != 48 { // the search finds the campaigns
		t.Errorf("it has %d metrics; docs/costs.md says 48", count-1)
	}
}

// TestDashboardWithoutMetrics checks that no graph is empty for ever.
func TestDashboardWithoutMetrics(t *testing.T) {
	t.Parallel()
	for _, w := range widgetsOf(t, readGolden(t, "every-setting")) {
		for _, m := range w.Properties.Metrics {
			if name, _ := m[0].(string); strings.HasPrefix(name, "oncebox/") {
				t.Errorf("%s shows %v, which no function writes", w.Properties.Title, m)
			}
		}
	}
}

func TestDashboardOfNothingIsRefused(t *testing.T) {
	stack := awscdk.NewStack(newApp(t, nil), jsii.String("theirs"), nil)
	if _, err := infra.NewDashboard(stack, "Board", infra.DashboardProps{}); err == nil ||
		!strings.Contains(err.Error(), "dashboard Board shows nothing; set Claims or Records") {
		t.Errorf("got %v", err)
	}
}
