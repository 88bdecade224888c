package cost

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

var update = flag.Bool("update", false, "write the tables of docs/costs.md and docs/ledgers.md")

// TestPage checks that the tables of docs/costs.md and docs/ledgers.md hold the results of `oncebox cost`, and its
// inputs.
func TestPage(t *testing.T) {
	t.Parallel()
	for page, tables := range map[string]map[string]string{
		"../../../docs/ledgers.md": {"choice": choices(), "sizes": sizes()},
		"../../../docs/costs.md":   {"counts": counts(), "lines": lines(), "bills": bills(), "prices": prices()},
	} {
		checkPage(t, page, tables)
	}
}

// checkPage compares the tables of a page by their names.
func checkPage(t *testing.T, page string, tables map[string]string) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, table := range tables {
		begin := fmt.Sprintf("<!-- go test ./internal/records/cost -run TestPage -update writes the %s from here -->\n", name)
		before, rest, begins := strings.Cut(text, begin)
		_, after, ends := strings.Cut(rest, "<!-- to here -->\n")
		if !begins || !ends {
			t.Fatalf("%s has no place for the %s", page, name)
		}
		text = before + begin + "\n" + table + "\n<!-- to here -->\n" + after
	}
	if text == string(raw) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: run the command that it names", page)
	}
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// counts returns the table of requests and units.
func counts() string {
	var out strings.Builder
	out.WriteString("| | requests | write units | read units | USD a million |\n|---|---|---|---|---|\n")
	for _, c := range Counts {
		usd := fmt.Sprintf("%.3f", 1e6*c.USD())
		if strings.Trim(usd, "0.") == "" && c.USD() > 0 {
			usd = fmt.Sprintf("%.4f", 1e6*c.USD())
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", c.Name, c.Requests, c.Write, c.Read, usd)
	}
	return out.String()
}

// lines returns the table of log lines.
func lines() string {
	var out strings.Builder
	out.WriteString("| line | bytes | USD a million |\n|---|---|---|\n")
	for _, l := range LogLines {
		fmt.Fprintf(&out, "| %s | %d | %.3f |\n", l.Name, l.Bytes, l.USD())
	}
	return out.String()
}

// billedStacks lists the stacks of docs/costs.md, by the heads of their columns.
var billedStacks = []struct {
	name  string
	stack Stack
}{
	{"10,000 claims a day", Stack{ClaimsPerDay: 10_000, RecordBytes: kB, SystemLogLevel: "info"}},
	{"a million", Stack{ClaimsPerDay: 1e6, RecordBytes: kB, SystemLogLevel: "info"}},
	{"a million, `warn`", Stack{ClaimsPerDay: 1e6, RecordBytes: kB, SystemLogLevel: "warn"}},
	{"10 records/s", recordStack(10, 10)},
	{"1,000 records/s", recordStack(1000, 1000)},
}

// recordStack returns a stack for records with the default window, horizon and ledger.
func recordStack(rate float64, batch int) Stack {
	l := loadOf(rate, 48*time.Hour, batch)
	return Stack{Records: &l, Ledger: Keys, RecordBytes: kB, SystemLogLevel: "info"}
}

// bills returns the table of the monthly costs of stacks. It adds up the items of a service.
func bills() string {
	var out strings.Builder
	services, columns := []string{}, make([]map[string]float64, len(billedStacks))
	out.WriteString("| USD a month |")
	for i, b := range billedStacks {
		fmt.Fprintf(&out, " %s |", b.name)
		columns[i] = map[string]float64{}
		for _, item := range b.stack.Month().Items {
			if !slices.Contains(services, item.Service) {
				services = append(services, item.Service)
			}
			columns[i][item.Service] += item.USD
			columns[i]["together"] += item.USD
		}
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(billedStacks)) + "\n")
	for _, service := range append(services, "together") {
		fmt.Fprintf(&out, "| %s |", service)
		for _, column := range columns {
			fmt.Fprintf(&out, " %.2f |", column[service])
		}
		out.WriteString("\n")
	}
	return out.String()
}

// prices returns the table of prices and their sources.
func prices() string {
	var out strings.Builder
	out.WriteString("| | USD | | source |\n|---|---|---|---|\n")
	for _, p := range Prices {
		fmt.Fprintf(&out, "| %s | %s | %s | %s; %s |\n", p.Name, usd(p.USD), p.Note, p.Source, p.AsOf)
	}
	return strings.ReplaceAll(out.String(), "|  |", "| |")
}

// usd writes a price with all its digits, at least two after the point.
func usd(price float64) string {
	text := strconv.FormatFloat(price, 'g', 8, 64)
	if whole, decimals, _ := strings.Cut(text, "."); len(decimals) < 2 {
		return whole + "." + (decimals + "00")[:2]
	}
	return text
}

// loadOf returns a load with as many records a second for each shard as 33,000 records a second on 40 shards.
func loadOf(rate float64, window time.Duration, batch int) Load {
	return base.with(func(l *Load) {
		l.Rate, l.Window, l.Batch, l.Shards = rate, window, batch, int(math.Ceil(rate/825))
	})
}

// choices returns the table of loads with the costs of the ledgers.
func choices() string {
	var out strings.Builder
	out.WriteString("| records/s | window | batch | horizon | keys | log | valkey | use |\n|---|---|---|---|---|---|---|---|\n")
	for _, l := range []Load{
		loadOf(10, time.Hour, 10),
		loadOf(100, time.Hour, 100), loadOf(100, 48*time.Hour, 100),
		loadOf(1000, time.Hour, 1000), loadOf(1000, 48*time.Hour, 1000),
		loadOf(5000, time.Hour, 100), loadOf(5000, time.Hour, 1000), loadOf(5000, 6*time.Hour, 1000),
		loadOf(5000, 48*time.Hour, 1000),
		loadOf(33_000, time.Hour, 500), loadOf(33_000, time.Hour, 1000), loadOf(33_000, time.Hour, 2500),
		loadOf(33_000, time.Hour, 5000), loadOf(33_000, 24*time.Hour, 2500),
		loadOf(33_000, time.Hour, 2500).with(func(l *Load) { l.Horizon = 24 * time.Hour }),
	} {
		c := Compare(l)
		log := thousands(c.Log.Total)
		if c.Log.Problem != "" {
			log = "does not fit"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", thousands(l.Rate), c.Window,
			thousands(float64(l.Batch)), c.Horizon, thousands(c.Keys.Total), log,
			thousands(c.Valkey.Total), c.Use)
	}
	return out.String()
}

// sizes returns the table of loads with the sizes of the log ledger.
func sizes() string {
	var out strings.Builder
	out.WriteString("| records/s | window | environments | entries, million | their memory, GiB | memory of the function, MB " +
		"| lanes | a lane's write units/s | a lane's read units/s | batch window | attempts | cold start, s | all at once, s |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range []Load{
		loadOf(1000, time.Hour, 1000), loadOf(1000, 24*time.Hour, 1000), loadOf(1000, 48*time.Hour, 1000),
		loadOf(5000, time.Hour, 2500), loadOf(5000, 6*time.Hour, 2500), loadOf(5000, 10*time.Hour, 2500),
		loadOf(10_000, time.Hour, 2500), loadOf(10_000, 4*time.Hour, 2500),
		loadOf(33_000, 10*time.Minute, 2500), loadOf(33_000, time.Hour, 2500), loadOf(33_000, 90*time.Minute, 5000),
		loadOf(66_000, 10*time.Minute, 5000).with(func(l *Load) { l.Lanes = 16 }),
	} {
		c := Compare(l)
		s := c.LogSizes
		if c.Log.Problem != "" {
			fmt.Fprintf(&out, "| %s | %s | does not fit: %s |\n", thousands(l.Rate), c.Window, c.Log.Problem)
			continue
		}
		fills := time.Duration(math.Ceil(float64(l.Batch)/l.Rate*float64(l.Shards))) * time.Second
		fmt.Fprintf(&out, "| %s | %s | %d | %.1f | %.2f | %s | %d | %s | %s | %s | %.2f | %.0f | %.0f |\n",
			thousands(l.Rate), c.Window, c.Environments, s.Entries/1e6, s.EntryBytes/(1<<30), thousands(float64(c.Log.Memory)),
			l.Lanes, thousands(s.LaneWrites), thousands(s.LaneReads), settings.FormatDuration(fills), s.Attempts, s.ColdSeconds, s.DeploySeconds)
	}
	return out.String()
}

// thousands writes a number below a million without decimals.
func thousands(n float64) string {
	text := strconv.FormatFloat(n, 'f', 0, 64)
	if len(text) > 3 {
		return text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}
