package chart

import (
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/oncebox/oncebox/bench/simulated"
	"github.com/oncebox/oncebox/internal/records/cost"
)

var dayTarget = flag.String("day", "", "draw a day of a log ledger into this file, with .svg and .csv")

// TestDrawDay draws a day of a log ledger for `make chart`. Otherwise it draws that of a small stream, to see that it can.
func TestDrawDay(t *testing.T) {
	if *dayTarget != "" {
		drawDay(t, *dayTarget, 33_000, 40)
		return
	}
	small := filepath.Join(t.TempDir(), "day")
	drawDay(t, small, 600, 2)
}

const (
	deployed = 10 * time.Hour
	quarter  = 15 * time.Minute
)

// aDay is a stream whose rate falls to a quarter in the night. All environments begin anew at one time, and each lasts
// two hours in the mean.
func aDay(peak float64, shards int, each func(simulated.LogStretch)) simulated.LogDay {
	return simulated.LogDay{
		Seed: 1, Shards: shards, Lanes: 8, Batch: 2500, Longest: 5 * time.Second, Rest: 200 * time.Millisecond,
		Rate: func(at time.Duration) float64 {
			return peak * (0.625 - 0.375*math.Cos(2*math.Pi*(at.Hours()-3)/24))
		},
		Times: simulated.LogTimesInRegion, Length: 24 * time.Hour, Window: time.Hour, Life: 2 * time.Hour,
		Deploy: deployed, Load: cost.LoadOfOne, LoadAll: cost.LoadOfAll, Stretch: quarter, Each: each,
	}
}

func drawDay(t *testing.T, target string, peak float64, shards int) {
	t.Helper()
	p := plot.New()
	p.Title.Text = fmt.Sprintf("A day of the log ledger, up to %.0f records/s (simulated)", peak)
	p.X.Label.Text, p.Y.Label.Text = "hour", "USD an hour"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, dollars{}
	p.Y.Min, p.Y.Max = 0.01, 100
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left, p.Legend.YOffs, p.Legend.XOffs = true, true, -vg.Points(75), vg.Points(10)
	p.X.Tick.Marker = hours{}
	names := []string{"one row a key: writes", "log: writes", "log: catch-up reads", "log: cold starts"}
	lines := make([]plotter.XYs, len(names))
	rows := [][]string{{
		"from hour", "records/s", "USD an hour with one row a key", "of writes", "of catch-up reads", "of cold starts",
		"attempts an item", "cold starts", "longest cold start, s", "longest wait of a batch, s",
	}}
	var sum [4]float64
	var all simulated.LogStretch
	aDay(peak, shards, func(s simulated.LogStretch) {
		hours := (s.To - s.From).Hours()
		usd := [4]float64{
			float64(s.Records) * cost.WriteUnit, s.Cost.WriteUnits * cost.WriteUnit, s.Cost.ReadUnits * cost.ReadUnit,
			s.ColdReads * cost.ReadUnit,
		}
		row := []string{fmt.Sprint(s.From.Hours()), fmt.Sprintf("%.0f", float64(s.Records)/(s.To-s.From).Seconds())}
		for n := range usd {
			sum[n] += usd[n]
			lines[n] = append(lines[n],
				plotter.XY{X: s.From.Hours(), Y: max(usd[n]/hours, p.Y.Min)}, plotter.XY{X: s.To.Hours(), Y: max(usd[n]/hours, p.Y.Min)})
			row = append(row, fmt.Sprintf("%.2f", usd[n]/hours))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.2f", s.Cost.Attempts()), fmt.Sprint(s.Cold),
			fmt.Sprintf("%.0f", s.Loading.Seconds()), fmt.Sprintf("%.1f", s.Late.Seconds())))
		all.Add(s)
	}).Run()
	for n, name := range names {
		line, err := plotter.NewLine(lines[n])
		must(t, err)
		line.Color, line.Width = plotutil.Color(n), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(name, line)
	}
	must(t, p.Save(9*vg.Inch, 5*vg.Inch, target+".svg"))
	must(t, write(target+".csv", rows))
	t.Logf("%d records: USD %.2f with one row a key; log: %.2f writes, %.2f catch-up reads, %.2f cold starts (%d, the longest %s)",
		all.Records, sum[0], sum[1], sum[2], sum[3], all.Cold, all.Loading)
	t.Logf("%.4f write units and %.4f read units a record, %.3f attempts, %d conflicts, %d reads, %d empty; waited up to %s",
		all.Cost.WriteUnits/float64(all.Records), all.Cost.ReadUnits/float64(all.Records), all.Cost.Attempts(),
		all.Cost.Conflicts, all.Cost.Reads, all.Cost.Empty, all.Late)
	if all.Records == 0 || all.Cold < shards || sum[1]+sum[2]+sum[3] > sum[0] {
		t.Errorf("the day has %+v", all)
	}
}

// hours are the marks of the time of day.
type hours struct{}

// Ticks implements plot.Ticker.
func (hours) Ticks(_, most float64) (ticks []plot.Tick) {
	for at := 0.0; at <= most; at += 3 {
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprint(at)})
	}
	return ticks
}

// dollars are the marks of the axis.
type dollars struct{}

// Ticks implements plot.Ticker.
func (dollars) Ticks(least, most float64) (ticks []plot.Tick) {
	for _, at := range []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100} {
		if at >= least && at <= most {
			ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprint(at)})
		}
	}
	return ticks
}
