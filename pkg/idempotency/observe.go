package idempotency

import (
	"context"
	"errors"
	"log/slog"

	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/internal/aws/traceid"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Report says what happened in one call, for metrics and logs. It has nothing of the key, the payload or the result.
type Report struct {
	Ran          bool // the call ran the function; it may have failed
	Replayed     bool // the call got what a record says: a result, or that it is final or not stored
	Waited       bool // for another call with the key
	OtherPayload bool // the call was refused, because the key belongs to another payload
	TookOver     bool // the call ran the function after the lease of another execution had ended: that one may have crashed
	Superseded   bool // another execution took the key over while the function ran
	LeaseLost    bool // the context of the function ended, because its lease was over or another execution had the key
	NotStored    bool // the result of the function could not be stored, and later calls do not get it
}

// WithObserver has a function called at the end of each call of Do, in the call's goroutine. It gets the context of the
// call. A call whose key is invalid is not reported.
func WithObserver(observe func(context.Context, Report)) Option {
	return func(r *Runner) { r.observer = observe }
}

// observe reports a call that has ended. What the function itself returned is not looked at: it may come from another
// key.
func (r *Runner) observe(ctx context.Context, c *call, outcome Outcome[Result], err error) {
	if r.observer == nil {
		return
	}
	c.report.Replayed, c.report.NotStored = outcome.Replayed, outcome.NotStored
	c.report.OtherPayload = !c.report.Ran && errors.Is(err, ErrOtherPayload)
	c.report.TookOver = c.report.TookOver && c.report.Ran
	r.observer(ctx, c.report)
}

// abandoned reports whether the execution of a row that does not count has neither completed nor released it.
func abandoned(row engine.Record) bool {
	return row.Status == engine.InProgress && row.LeaseEnd.UnixMilli() > 0
}

// reportNames are the names of the fields of a Report, as metrics and as members of a line.
var reportNames = []struct{ metric, member string }{
	{"Ran", "ran"}, {"Replayed", "replayed"}, {"Waited", "waited"}, {"OtherPayload", "other_payload"},
	{"TookOver", "took_over"}, {"Superseded", "superseded"}, {"LeaseLost", "lease_lost"}, {"NotStored", "not_stored"},
}

// LogTo returns a function for WithObserver that writes a line for each call, with the message "idempotent call" and a
// member for each field of the Report that is true. The level is warn if the call took over, was superseded, lost its
// lease or could not store its result, and info otherwise. In a Lambda function the line has the id of X-Ray's trace, as
// trace_id.
//
// metrics is the CloudWatch namespace of metrics in the lines, one for each field of a Report. "" means no metrics. In a
// Lambda function the metrics have the dimension FunctionName, so that the stages of an account do not add up. With metrics
// the log must write JSON objects, and CloudWatch Logs must get them unchanged, as from a Lambda function.
func LogTo(log *slog.Logger, metrics string) func(context.Context, Report) {
	var all []emf.Metric
	for _, name := range reportNames {
		all = append(all, emf.Metric{Name: name.metric, Unit: emf.Count})
	}
	var sets [][]string
	var dimensions []string
	if function := emf.FunctionName(); function != "" {
		sets, dimensions = [][]string{{"FunctionName"}}, []string{function}
	}
	line, log := emf.New(metrics, all, sets...), traceid.Log(log)
	return func(ctx context.Context, r Report) {
		level := slog.LevelInfo
		if r.TookOver || r.Superseded || r.LeaseLost || r.NotStored {
			level = slog.LevelWarn
		}
		var members []slog.Attr
		values := emf.Values{Dimensions: dimensions}
		for i, happened := range []bool{
			r.Ran, r.Replayed, r.Waited, r.OtherPayload, r.TookOver, r.Superseded, r.LeaseLost, r.NotStored,
		} {
			value := 0.0
			if happened {
				value, members = 1, append(members, slog.Bool(reportNames[i].member, true))
			}
			values.Metrics = append(values.Metrics, value)
		}
		line.Log(ctx, log, level, "idempotent call", members, values)
	}
}
