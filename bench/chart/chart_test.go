// Package chart draws what a claim costs while a bank is handed out, and writes the numbers beside it: `make chart`.
// The banks are simulated, so the numbers are the same every time. It is a test, since the simulation needs one.
package chart

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/oncebox/oncebox/bench/simulated"
)

const workers = 32

var target = flag.String("target", "", "draw the whole chart into this file, with .svg and .csv")

// TestDraw draws the chart for `make chart`. Otherwise it draws that of a small bank, to see that it can.
func TestDraw(t *testing.T) {
	if *target != "" {
		draw(t, *target, 1_000, 10_000, 100_000, 1_000_000)
		return
	}
	small := filepath.Join(t.TempDir(), "chart")
	draw(t, small, 1_000)
	for _, file := range []string{small + ".svg", small + ".csv"} {
		if content, err := os.ReadFile(file); err != nil || len(content) == 0 {
			t.Errorf("%s: %d bytes, %v", file, len(content), err)
		}
	}
}

func draw(t *testing.T, target string, banks ...int) {
	t.Helper()
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Requests a claim while a bank is handed out, %d workers (simulated)", workers)
	p.X.Label.Text = "handed out, %"
	p.Y.Label.Text = "requests a claim"
	p.Y.Min = 1
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, costs{}
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = true, true
	rows := [][]string{{"items", "from %", "to %", "requests a claim"}}
	for i, items := range banks {
		stretches := play(t, items)
		var points plotter.XYs
		for _, s := range stretches {
			points = append(points, plotter.XY{X: float64(s.from), Y: s.cost}, plotter.XY{X: float64(s.to), Y: s.cost})
			rows = append(rows, []string{
				strconv.Itoa(items), strconv.Itoa(s.from), strconv.Itoa(s.to), fmt.Sprintf("%.3f", s.cost),
			})
		}
		line, err := plotter.NewLine(points)
		must(t, err)
		line.Color, line.Width = plotutil.Color(i), vg.Points(1.5)
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("bank of %d", items), line)
	}
	must(t, p.Save(9*vg.Inch, 5*vg.Inch, target+".svg"))
	must(t, write(target+".csv", rows))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stretch is a part of the handing out, in percent, and what a claim cost in it.
type stretch struct {
	from, to int
	cost     float64
}

// play hands out banks of one size, many of a small one since they differ.
func play(t *testing.T, items int) []stretch {
	t.Helper()
	stretches := stretches()
	times := min(1_000_000/items, 20)
	for seed := range uint64(times) {
		at, before := 0, 0
		synctest.Test(t, func(t *testing.T) {
			model := simulated.Model{Seed: seed, Items: items, Shards: 16, Latency: simulated.InRegion}
			_, err := simulated.Play(model, simulated.Customers(items), workers, func(n int, s *simulated.Store) {
				if n == items/100*stretches[at].to {
					requests := s.Cost().Requests
					stretches[at].cost += float64(requests - before)
					at, before = at+1, requests
				}
			})
			must(t, err)
		})
	}
	for i, s := range stretches {
		stretches[i].cost /= float64(items / 100 * (s.to - s.from) * times)
	}
	return stretches
}

// stretches are of five percent each, and of one at the end, where claims get dear.
func stretches() (all []stretch) {
	for from, to := 0, 5; to <= 100; from, to = to, to+1 {
		if from < 90 {
			to = from + 5
		}
		all = append(all, stretch{from: from, to: to})
	}
	return all
}

// costs are the marks of the axis of requests.
type costs struct{}

// Ticks implements plot.Ticker.
func (costs) Ticks(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for _, at := range []float64{1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16} {
		if at >= least && at <= most {
			ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprint(at)})
		}
	}
	return ticks
}

func write(path string, rows [][]string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return file.Close()
}
