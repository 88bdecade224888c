// Package bench measures the project as multiples of a floor or a peer in the same
// run: `make bench`. Each benchmark is one subject. Its rounds take floor and
// measured in turn, so that a machine that slows down slows both; a figure is the
// median of the rounds' ratios.
//
// A goal that is not met fails nothing: these machines are shared. What was
// measured, and when, is written down in docs/benchmarks.md.
package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// figure is a result, as a multiple of its floor.
type figure struct {
	name     string
	measured float64
	goal     float64 // at most this; 0: a figure without a goal
	detail   string
}

// figures are the results of the benchmarks of this run.
var figures []figure

func TestMain(m *testing.M) {
	code := testengine.Main(m)
	if code == 0 && len(figures) > 0 {
		fmt.Println()
		printFigures(os.Stdout, figures)
	}
	os.Exit(code)
}

func printFigures(out io.Writer, figures []figure) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmeasured\tgoal\t\tmedians")
	for _, f := range figures {
		goal, verdict := "none", ""
		if f.goal > 0 {
			goal, verdict = fmt.Sprintf("%.3f", f.goal), "met"
			if f.measured > f.goal {
				verdict = "not met"
			}
		}
		fmt.Fprintf(w, "%s\t%.3f\t%s\t%s\t%s\n", f.name, f.measured, goal, verdict, f.detail)
	}
	_ = w.Flush()
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printFigures(&out, []figure{{"at", 2, 2, "-"}, {"above", 2.1, 2, "-"}, {"free", 9, 0, "-"}})
	for i, want := range []string{"figure measured goal medians", "at 2.000 2.000 met -", "above 2.100 2.000 not met -", "free 9.000 none -"} {
		if line := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[i]), " "); line != want {
			t.Errorf("line %d: got %q, want %q", i, line, want)
		}
	}
}

// pairs holds the times of rounds, each beside the time of its floor.
type pairs struct{ measured, floor []time.Duration }

func (p *pairs) add(measured, floor time.Duration) {
	p.measured, p.floor = append(p.measured, measured), append(p.floor, floor)
}

// report notes the median of the rounds' ratios.
func (p *pairs) report(name string, goal float64) {
	ratios := p.ratios()
	detail := fmt.Sprintf("%.2f ms against %.2f ms, %d rounds", milliseconds(median(p.measured)), milliseconds(median(p.floor)), len(ratios))
	figures = append(figures, figure{name, median(ratios), goal, detail})
}

func (p *pairs) ratios() []float64 {
	ratios := make([]float64, len(p.measured))
	for i := range ratios {
		ratios[i] = float64(p.measured[i]) / float64(p.floor[i])
	}
	return ratios
}

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
