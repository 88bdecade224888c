package stack

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// This file calculates the state of an alarm as CloudWatch does (CloudWatch User Guide, "Using metric math" and
// "Configuring how CloudWatch alarms treat missing data"), for the expressions that the stack has.

// A period holds the values of metrics in one period of an alarm, by their names as metricKey returns them. A missing
// metric has no value.
type period map[string]float64

// alarms reports whether an alarm that was off goes off after these periods. The last one is the latest.
func alarms(t *testing.T, alarm resource, periods ...period) bool {
	t.Helper()
	return stateAfter(t, alarm, false, periods...)
}

// stateAfter reports whether an alarm is on after these periods, the first of its life, if it was on or off before the
// last one.
func stateAfter(t *testing.T, alarm resource, before bool, periods ...period) bool {
	t.Helper()
	p := alarm.properties()
	of := int(number(p["EvaluationPeriods"]))
	if warmsUp(alarm, len(periods)) {
		return false
	}
	breaching, missing := 0, 0
	for i := range of {
		at := len(periods) - 1 - i
		value, ok := 0.0, false
		if at >= 0 {
			value, ok = valueOf(t, alarm, periods[at])
		}
		switch {
		case !ok:
			missing++
		case p["ComparisonOperator"] == "LessThanOrEqualToThreshold" && value <= number(p["Threshold"]),
			p["ComparisonOperator"] == "GreaterThanOrEqualToThreshold" && value >= number(p["Threshold"]):
			breaching++
		}
	}
	switch missingIs := p["TreatMissingData"]; {
	case missingIs == "breaching":
		breaching += missing
	case missingIs == "ignore" && missing > 0:
		return before
	case missingIs != "ignore" && missingIs != "notBreaching":
		t.Errorf("missing data is %v", missingIs)
	}
	return float64(breaching) >= cmp.Or(number(p["DatapointsToAlarm"]), float64(of))
}

// warmsUp reports whether a new alarm still waits for its first data after a number of periods.
func warmsUp(alarm resource, periods int) bool {
	minutes := number(at(alarm, "Properties.WarmUpConfiguration.WarmUpPeriodDurationInMinutes"))
	return 60*minutes > float64(periods)*number(alarm.properties()["Period"])
}

// metricKey returns the name of a metric. Before the name of a metric of an index, of the sweep or of a version stands
// which it is.
func metricKey(name string, dimensions any) string {
	for _, d := range list(dimensions) {
		switch value := rendered(at(d, "Value")); {
		case textAt(d, "Name") == "GlobalSecondaryIndexName":
			return value + " " + name
		case strings.HasSuffix(textAt(d, "Name"), "Version"):
			return "version " + name
		case textAt(d, "Name") == "FunctionName" && strings.Contains(value, "Sweep"):
			return "sweep " + name
		}
	}
	return name
}

// valueOf returns the value of an alarm's metric or expression in a period, if it has one. FILL has a value here even
// if no metric of the expression has one. CloudWatch may differ: so an alarm must be off in both cases.
func valueOf(t *testing.T, alarm resource, now period) (value float64, ok bool) {
	t.Helper()
	if name := textAt(alarm, "Properties.MetricName"); name != "" {
		value, ok = now[metricKey(name, at(alarm, "Properties.Dimensions"))]
		return value, ok
	}
	ids, expression := map[string]*float64{}, ""
	var seconds float64
	for _, m := range list(at(alarm, "Properties.Metrics")) {
		if e := textAt(m, "Expression"); e != "" {
			expression = e
			continue
		}
		ids[textAt(m, "Id")] = nil
		seconds = number(at(m, "MetricStat.Period"))
		of := at(m, "MetricStat.Metric")
		if v, ok := now[metricKey(textAt(of, "MetricName"), at(of, "Dimensions"))]; ok {
			ids[textAt(m, "Id")] = &v
		}
	}
	parsed, err := parser.ParseExpr(expression) // Go has the same syntax
	must(t, err)
	result := calculate(t, parsed, ids, seconds)
	if result == nil {
		return 0, false
	}
	return *result, true
}

// calculate returns nil for no value.
func calculate(t *testing.T, e ast.Expr, ids map[string]*float64, seconds float64) *float64 {
	t.Helper()
	of := func(e ast.Expr) *float64 { return calculate(t, e, ids, seconds) }
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(e.Value, 64)
		must(t, err)
		return &v
	case *ast.Ident:
		v, ok := ids[e.Name]
		if !ok {
			t.Errorf("there is no metric %s", e.Name)
		}
		return v
	case *ast.ParenExpr:
		return of(e.X)
	case *ast.BinaryExpr:
		return operate(t, e.Op, of(e.X), of(e.Y))
	case *ast.CallExpr:
		switch e.Fun.(*ast.Ident).Name {
		case "PERIOD":
			return &seconds
		case "FILL":
			return cmp.Or(of(e.Args[0]), of(e.Args[1]))
		case "IF":
			condition := of(e.Args[0])
			if condition == nil {
				return nil
			}
			if *condition != 0 {
				return of(e.Args[1])
			}
			return of(e.Args[2])
		}
	}
	t.Errorf("an expression that is not known here: %T", e)
	return nil
}

func operate(t *testing.T, op token.Token, x, y *float64) *float64 {
	t.Helper()
	if x == nil || y == nil {
		return nil
	}
	truth := func(b bool) *float64 {
		if b {
			return new(1.0)
		}
		return new(0.0)
	}
	switch op {
	case token.ADD:
		return new(*x + *y)
	case token.MUL:
		return new(*x * *y)
	case token.QUO:
		if *y == 0 {
			return nil
		}
		return new(*x / *y)
	case token.GTR:
		return truth(*x > *y)
	case token.GEQ:
		return truth(*x >= *y)
	case token.EQL:
		return truth(*x == *y)
	case token.LAND:
		return truth(*x != 0 && *y != 0)
	}
	t.Errorf("an operator that is not known here: %s", op)
	return nil
}
