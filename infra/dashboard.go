package infra

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// DashboardProps select the contents of a dashboard.
type DashboardProps struct {
	Claims  []*ClaimAPI
	Records []*RecordDedupe
}

// NewDashboard makes a CloudWatch dashboard. It shows the states of all alarms, and for each job its work, its times,
// its failures and its tables. CloudWatch charges for a dashboard, except for the first three of an account with at
// most 50 metrics each (docs/costs.md). With the setting Metrics off it has no graphs of the functions' own
// metrics. It returns an error if there is nothing to show.
func NewDashboard(scope constructs.Construct, id string, p DashboardProps) (awscloudwatch.Dashboard, error) {
	if len(p.Claims)+len(p.Records) == 0 {
		return nil, errors.New("dashboard " + id + " shows nothing; set Claims or Records")
	}
	board := awscloudwatch.NewDashboard(scope, &id, nil)
	board.AddWidgets(alarmStates(p))
	b := dashboard{board, map[string]bool{}}
	for _, c := range p.Claims {
		c.addTo(b)
	}
	for _, r := range p.Records {
		r.addTo(b)
	}
	return board, nil
}

// A dashboard remembers the tables that it shows, because constructs may share one.
type dashboard struct {
	awscloudwatch.Dashboard
	shown map[string]bool // the tables and indexes shown so far, by the addresses of tables in the construct tree
}

// These are the widths of widgets, in columns of a dashboard.
const (
	wholeWidth = 24
	third      = wholeWidth / 3
)

// alarmStates shows each alarm once, by the path of its construct.
func alarmStates(p DashboardProps) awscloudwatch.IWidget {
	all := map[string]interfacesawscloudwatch.IAlarmRef{}
	collect := func(alarms map[string]awscloudwatch.Alarm) {
		for _, a := range alarms {
			all[*a.Node().Path()] = a
		}
	}
	for _, c := range p.Claims {
		collect(c.Alarms)
	}
	for _, r := range p.Records {
		collect(r.Alarms)
	}
	var alarms []interfacesawscloudwatch.IAlarmRef
	for _, path := range slices.Sorted(maps.Keys(all)) {
		alarms = append(alarms, all[path])
	}
	return awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
		Title: jsii.String("Alarms"), Width: jsii.Number(wholeWidth), Height: jsii.Number(4), Alarms: &alarms,
	})
}

func (c *ClaimAPI) addTo(board dashboard) {
	board.AddWidgets(heading("Claims: " + *c.Construct.Node().Path()))
	board.AddWidgets(
		graph("Requests", c.apiMetric("Count", "Sum"), c.apiMetric("4xx", "Sum"), c.apiMetric("5xx", "Sum")),
		graph("Time of requests, ms", c.apiMetric("Latency", "p99"), c.apiMetric("IntegrationLatency", "p99")),
		functionGraph("Claim function", c.Function),
	)
	if c.metrics {
		board.AddWidgets(
			graph("Answers", c.Metric(Claims, nil), c.Metric(Repeats, nil), c.Metric(SoldOut, nil)),
			graph("Transactions that were tried again", c.Metric(LostRaces, nil), c.Metric(Conflicts, nil),
				c.Metric(ClaimThrottles, nil)),
			graph("Time in the function, ms", c.Metric(ClaimLatency, over("p99"))),
		)
	}
	last := append(board.tableGraphs(c.BankTable, c.DedupeTable), board.dueGraph(c.DedupeTable)...)
	if c.metrics && c.Sweep != nil {
		last = append(last, graph("Free items", c.freeItems()))
	}
	board.AddWidgets(last...)
}

// freeItems finds the free items of each campaign with a search, because only the functions know the campaigns.
func (c *ClaimAPI) freeItems() awscloudwatch.IMetric {
	const search = `SEARCH('{"%s",Campaign} MetricName="%s"', 'Average', %d)`
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String(fmt.Sprintf(search, *metricsNamespace(c.Sweep), FreeItems, int(alarmPeriod.Seconds()))),
		Label:      jsii.String(""), UsingMetrics: &metrics{}, Period: seconds(alarmPeriod),
	})
}

func (r *RecordDedupe) addTo(board dashboard) {
	board.AddWidgets(heading("Records: " + *r.Construct.Node().Path()))
	board.AddWidgets(append(r.Source.kind.graphs(r), functionGraph("Dedupe function", r.Function))...)
	if r.metrics {
		board.AddWidgets(
			graph("Records", r.Metric(RecordsIn, nil), r.Metric(RecordsNew, nil), r.Metric(RecordsFailed, nil)),
			graph("Duplicates", r.Metric(NaturalDuplicates, nil), r.Metric(SyntheticDuplicates, nil)),
			graph("Time of batches, ms", r.Metric(LedgerTime, over("p99")), r.Metric(SinkTime, over("p99")),
				r.Metric(OldestRecordAge, over("Maximum"))),
		)
	}
	last := board.tableGraphs(r.DedupeTable)
	if throttled := r.throttled(); len(throttled) > 0 {
		last = append(last, graph("Throttled by Kinesis", throttled...))
	}
	letters := append(r.Source.kind.givenUp(r),
		metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName", r.NotifyQueue.QueueName()))
	if r.metrics {
		letters = append(letters, r.Metric(DeadLetters, nil))
	}
	board.AddWidgets(append(last, graph("Dead letters", letters...))...)
}

// throttled returns what Kinesis throttles, of the source and of the destination.
func (r *RecordDedupe) throttled() (all []awscloudwatch.IMetric) {
	if source := r.Source.Stream(); source != nil {
		all = append(all, throttledReads(source), throttledWrites(source))
	}
	if r.Destination != nil {
		all = append(all, throttledWrites(r.Destination))
	}
	return all
}

func heading(text string) awscloudwatch.IWidget {
	return awscloudwatch.NewTextWidget(&awscloudwatch.TextWidgetProps{
		Markdown: jsii.String("## " + text), Width: jsii.Number(wholeWidth), Height: jsii.Number(1),
	})
}

func graph(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: &title, Width: jsii.Number(third), Left: &metrics,
	})
}

func functionGraph(title string, function awslambda.Function) awscloudwatch.IWidget {
	count := func(name, statistic string) awscloudwatch.IMetric {
		return metric("AWS/Lambda", name, statistic, "FunctionName", function.FunctionName())
	}
	return graph(title, count("Invocations", "Sum"), count("Errors", "Sum"), count("Throttles", "Sum"),
		count("ConcurrentExecutions", "Maximum"))
}

// tableGraphs returns graphs of the units of tables, and of the requests that DynamoDB throttled. It shows each table
// once.
func (d dashboard) tableGraphs(tables ...awsdynamodb.ITableV2) (all []awscloudwatch.IWidget) {
	for _, table := range tables {
		if d.isNew(*table.Node().Addr()) {
			all = append(all, tableGraph(table))
		}
	}
	return all
}

// dueGraph returns the graph of the throttled requests to the index of claims that end. It shows each index once.
func (d dashboard) dueGraph(table awsdynamodb.ITableV2) []awscloudwatch.IWidget {
	if !d.isNew(*table.Node().Addr() + dueIndex) {
		return nil
	}
	of := dueDimensions(table)
	return []awscloudwatch.IWidget{graph("Index of claims that end, table "+*table.Node().Id(),
		metricOf("AWS/DynamoDB", "ReadThrottleEvents", "Sum", of), metricOf("AWS/DynamoDB", "WriteThrottleEvents", "Sum", of))}
}

// isNew reports whether a table or an index is not shown yet, and remembers that it is.
func (d dashboard) isNew(address string) bool {
	known := d.shown[address]
	d.shown[address] = true
	return !known
}

func tableGraph(table awsdynamodb.ITableV2) awscloudwatch.IWidget {
	sum := func(name string) awscloudwatch.IMetric {
		return metric("AWS/DynamoDB", name, "Sum", "TableName", table.TableName())
	}
	return graph("Table "+*table.Node().Id(), sum("ConsumedReadCapacityUnits"), sum("ConsumedWriteCapacityUnits"),
		sum("ReadThrottleEvents"), sum("WriteThrottleEvents"))
}
