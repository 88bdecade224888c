// Package emf writes metrics into log lines, in the embedded metric format of CloudWatch. CloudWatch Logs reads the
// metrics from a line, so the program needs no request and no permission (CloudWatch User Guide, "Specification:
// Embedded metric format").
package emf

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"
)

// Metric is a metric that log lines may have. Its name becomes a member of the line.
type Metric struct {
	Name string
	Unit Unit
	Zero bool // write a value of 0; otherwise leave it out, because a metric without values costs nothing
}

// Unit is a unit of CloudWatch.
type Unit string

// These are the units of metrics.
const (
	Count        Unit = "Count"
	Milliseconds Unit = "Milliseconds"
)

// Line is one kind of log line with metrics. A nil Line has no metrics. It is safe for concurrent use.
type Line struct {
	namespace string
	sets      [][]string // the sets of dimensions; each metric is counted once for each set
	names     []string   // the names of all dimensions
	metrics   []Metric

	mu         sync.RWMutex
	directives map[uint64]any // by the metrics of a line, one bit each
}

// New returns a kind of line with up to 64 metrics. Each set of dimensions makes one metric. Without sets, New makes
// one metric without dimensions. A function has one namespace. Without a namespace New returns nil.
func New(namespace string, metrics []Metric, sets ...[]string) *Line {
	if namespace == "" {
		return nil
	}
	l := &Line{namespace: namespace, metrics: metrics, directives: map[uint64]any{}}
	if len(sets) == 0 {
		sets = [][]string{nil}
	}
	for _, set := range sets {
		l.sets = append(l.sets, append([]string{}, set...)) // JSON has null for a nil set, and CloudWatch wants a list
		l.names = append(l.names, set...)
	}
	return l
}

// FunctionName returns the name of the Lambda function, or "" outside of Lambda (Lambda Developer Guide, "Defined runtime
// environment variables").
func FunctionName() string { return os.Getenv("AWS_LAMBDA_FUNCTION_NAME") }

// Values are the values of the metrics and of the dimensions of a line, in the order of New. If Metrics is empty, the
// line has no metrics.
type Values struct {
	Metrics    []float64
	Dimensions []string
}

// Log writes a line with its members and its metrics. If the log level excludes the line, Log writes only the
// metrics, because numbers must not depend on the log level. The log must write the members of a line into the root
// of a JSON object, as slog.JSONHandler does.
func (l *Line) Log(
	ctx context.Context, log *slog.Logger, level slog.Level, message string, members []slog.Attr, v Values,
) {
	has := l.present(v)
	if has == 0 {
		log.LogAttrs(ctx, level, message, members...)
		return
	}
	if !log.Enabled(ctx, level) {
		members = nil
	}
	now := time.Now()
	line := slog.NewRecord(now, level, message, 0)
	line.AddAttrs(l.addMetrics(members, v, has, now)...)
	_ = log.Handler().Handle(ctx, line) // as slog.Logger does
}

// present returns the metrics of a line, one bit each.
func (l *Line) present(v Values) (has uint64) {
	for i, value := range v.Metrics {
		if l != nil && (value != 0 || l.metrics[i].Zero) {
			has |= 1 << i
		}
	}
	return has
}

// addMetrics adds the members that CloudWatch reads.
func (l *Line) addMetrics(members []slog.Attr, v Values, has uint64, now time.Time) []slog.Attr {
	for i, value := range v.Metrics {
		if has&(1<<i) != 0 {
			members = append(members, member(l.metrics[i].Name, value))
		}
	}
	for i, name := range l.names {
		members = append(members, slog.String(name, v.Dimensions[i]))
	}
	return append(members, slog.Attr{Key: "_aws", Value: slog.GroupValue(
		slog.Int64("Timestamp", now.UnixMilli()), slog.Any("CloudWatchMetrics", l.directive(has)))})
}

// member writes whole numbers without a fraction, because slog needs less time for these.
func member(name string, value float64) slog.Attr {
	if value == math.Trunc(value) {
		return slog.Int64(name, int64(value))
	}
	return slog.Float64(name, value)
}

// directive returns the value of CloudWatchMetrics for lines with these metrics. It makes each value once.
func (l *Line) directive(has uint64) any {
	l.mu.RLock()
	made, ok := l.directives[has]
	l.mu.RUnlock()
	if ok {
		return made
	}
	made = l.newDirective(has)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.directives[has] = made
	return made
}

func (l *Line) newDirective(has uint64) json.RawMessage {
	type definition struct {
		Name string `json:"Name"`
		Unit Unit   `json:"Unit"`
	}
	type directive struct {
		Namespace  string       `json:"Namespace"`
		Dimensions [][]string   `json:"Dimensions"`
		Metrics    []definition `json:"Metrics"`
	}
	d := directive{Namespace: l.namespace, Dimensions: l.sets}
	for i, m := range l.metrics {
		if has&(1<<i) != 0 {
			d.Metrics = append(d.Metrics, definition{m.Name, m.Unit})
		}
	}
	text, _ := json.Marshal([]directive{d}) // texts cannot fail
	return text
}

// Milli returns a duration in milliseconds, to the microsecond.
func Milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
