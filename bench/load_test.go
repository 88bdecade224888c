package bench

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	_ "modernc.org/sqlite" // the driver of the bare loop, as of the project

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

const (
	fileLoad   = 5_000 // rows of a round
	tableLoad  = 1_000
	longLoad   = 100_000 // rows, once
	largeLoad  = 1_000_000
	knownLoad  = 20_000
	loadID     = "0123456789abcdef0123456789abcdef#000001"
	perRequest = engine.MaxAddItems
)

// Goals of loads.
const (
	maxLoadTime   = 1.25 // times the bare loop
	maxRequests   = 1.1 / perRequest
	maxWriteUnits = 4.01 // a row: two rows at two units each in a transaction, and a share of the counts

	maxKnownWriteUnits = 0.01 // a known row: its share of the counts
	maxKnownReadUnits  = 1.01 // a known row is looked up
	maxLoadMemory      = 1.25 // the memory for a million rows, as a multiple of that for 100,000
)

// BenchmarkLoad measures loads, and compares them with a bare loop of the same transactions by driver or SDK. It also
// measures a load of a million rows in its own process.
func BenchmarkLoad(b *testing.B) {
	var file, cpu, table pairs
	for b.Loop() {
		took, used := loadFile(b)
		floorTook, floorUsed := bareFile(b)
		file.add(took, floorTook)
		cpu.add(used, floorUsed)
		table.add(onTable(b, (*shop).load), onTable(b, (*shop).bareLoad))
	}
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
	file.report(fmt.Sprintf("time of a load of %d rows, SQLite", fileLoad), maxLoadTime)
	cpu.report(fmt.Sprintf("processor time of a load of %d rows, SQLite", fileLoad), 0)
	table.report(fmt.Sprintf("time of a load of %d rows, dynoxide", tableLoad), maxLoadTime)
	longLoads(b)
	largeLoads(b)
}

func rowsOf(n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("SAVE-%07d-ABCD", i)
	}
	return items
}

// emptyFile is a SQLite store with a campaign.
func emptyFile(b *testing.B) (path string, bank *itembank.Operator, remove func()) {
	b.Helper()
	dir := b.TempDir()
	path = filepath.Join(dir, "bank.db")
	store, err := sqlitestore.Create(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	bank = itembank.NewOperator(store)
	if _, _, err := bank.CreateCampaign(b.Context(), "spring", itembank.Settings{}); err != nil {
		b.Fatal(err)
	}
	return path, bank, func() {
		if err := errors.Join(store.Close(), os.RemoveAll(dir)); err != nil {
			b.Fatal(err)
		}
	}
}

func loadFile(b *testing.B) (took, used time.Duration) {
	b.Helper()
	_, bank, remove := emptyFile(b)
	defer remove()
	items := itembank.Items(rowsOf(fileLoad)...)
	return clocked(b, func() error {
		_, err := bank.Load(b.Context(), "spring", items, nil)
		return err
	})
}

// clocked holds the duration of some work: the time by the clock, and the processor time of this process.
func clocked(b *testing.B, do func() error) (took, used time.Duration) {
	b.Helper()
	s := &shop{B: b}
	begun, before := time.Now(), s.processorTime()
	s.must(do())
	return time.Since(begun), s.processorTime() - before
}

// bareFile puts the same rows into the same tables, in transactions as large.
func bareFile(b *testing.B) (took, used time.Duration) {
	b.Helper()
	path, _, remove := emptyFile(b)
	defer remove()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=synchronous(FULL)")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	items := rowsOf(fileLoad)
	return clocked(b, func() error { return bareInserts(b.Context(), db, items) })
}

func bareInserts(ctx context.Context, db *sql.DB, items []string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	item, err := conn.PrepareContext(ctx, `INSERT INTO item (campaign, hash, load_id, row, columns) VALUES ('spring', ?, ?, ?, '') ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	bank, err := conn.PrepareContext(ctx, `INSERT INTO bank (campaign, shard, hash, item) VALUES ('spring', ?, ?, ?)`)
	if err != nil {
		return err
	}
	for i := 0; i < len(items); i += perRequest {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for j, value := range items[i : i+perRequest] {
			h := engine.HashItem(value)
			if _, err := tx.StmtContext(ctx, item).ExecContext(ctx, h[:], loadID, i+j+1); err != nil {
				return err
			}
			if _, err := tx.StmtContext(ctx, bank).ExecContext(ctx, h.ShardOf(16), h[:], value); err != nil {
				return err
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// freshShop makes a campaign on an engine that was not used before.
func freshShop(b *testing.B) (s *shop, stop func()) {
	b.Helper()
	endpoint, stop := testengine.FreshDynoxide(b)
	s = newShop(b, endpoint)
	if _, _, err := itembank.NewOperator(s.store).CreateCampaign(b.Context(), "spring", itembank.Settings{}); err != nil {
		stop()
		b.Fatal(err)
	}
	return s, stop
}

// onTable loads on an engine that has done nothing before.
func onTable(b *testing.B, load func(s *shop, items []string)) time.Duration {
	b.Helper()
	s, stop := freshShop(b)
	defer stop()
	items := rowsOf(tableLoad)
	begun := time.Now()
	load(s, items)
	return time.Since(begun)
}

func (s *shop) load(items []string) {
	s.Helper()
	_, err := itembank.NewOperator(s.store).Load(s.Context(), "spring", itembank.Items(items...), nil)
	s.must(err)
}

// bareLoad puts the rows that the project puts, in the same transactions.
func (s *shop) bareLoad(items []string) {
	s.Helper()
	put := func(row map[string]types.AttributeValue) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{
			TableName: aws.String(s.bank), Item: row, ConditionExpression: aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}}
	}
	for i := 0; i < len(items); i += perRequest {
		var actions []types.TransactWriteItem
		for j, value := range items[i : i+perRequest] {
			h := engine.HashItem(value)
			actions = append(actions, put(map[string]types.AttributeValue{
				"pk": text(fmt.Sprintf("item#spring#%03d", h.ShardOf(256))), "sk": text(h.String()), "load_id": text(loadID),
				"row": &types.AttributeValueMemberN{Value: strconv.Itoa(i + j + 1)},
			}), put(map[string]types.AttributeValue{
				"pk": text(fmt.Sprintf("bank#spring#1#%02d", h.ShardOf(16))), "sk": text(h.String()), "item": text(value),
			}))
		}
		_, err := s.client.TransactWriteItems(s.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
		s.must(err)
	}
}

// longLoads counts the requests to DynamoDB, for new rows and for known rows.
func longLoads(b *testing.B) {
	b.Helper()
	s, stop := freshShop(b)
	defer stop()
	items := rowsOf(longLoad)
	for _, l := range []struct {
		what      string
		items     []string
		maxWrites float64
		maxReads  float64
	}{{"new", items, maxWriteUnits, 0.01}, {"known", items[:knownLoad], maxKnownWriteUnits, maxKnownReadUnits}} {
		before, begun := s.meter.read(), time.Now()
		s.load(l.items)
		took := time.Since(begun)
		row := s.meter.read().minus(before).each(len(l.items))
		name := fmt.Sprintf("a load of %d %s rows, dynoxide: ", len(l.items), l.what)
		note(name+"requests a row", row.requests, maxRequests, fmt.Sprintf("%.4f; %.0f rows a second", row.requests, float64(len(l.items))/took.Seconds()))
		note(name+"write units a row", row.writeUnits, l.maxWrites, "4 in the transactions of new rows, and 1 for counts every 1,000 rows")
		note(name+"read units a row", row.readUnits, l.maxReads, "1 for each row that is looked up: the first 50, and those after known rows")
	}
}

// largeLoads runs loads in separate processes, as on the command line.
func largeLoads(b *testing.B) {
	b.Helper()
	oncebox := filepath.Join(b.TempDir(), "oncebox")
	if out, err := exec.Command("go", "build", "-C", "..", "-o", oncebox, "./cmd/oncebox").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	var peaks []float64
	for _, rows := range []int{perRequest, longLoad, largeLoad} {
		path, _, remove := emptyFile(b)
		codes := filepath.Join(b.TempDir(), rand.Text())
		if err := os.WriteFile(codes, []byte(strings.Join(rowsOf(rows), "\n")), 0o600); err != nil {
			b.Fatal(err)
		}
		took, peak := loadProcess(b, rows, oncebox, "--store", "sqlite:"+path, "--output", "json", "load", "spring", codes)
		peaks = append(peaks, peak)
		if rows > perRequest {
			note(fmt.Sprintf("a load of %d rows, SQLite: rows a second", rows), float64(rows)/took.Seconds(), 0, fmt.Sprintf("%.1f s", took.Seconds()))
		}
		remove()
	}
	note(fmt.Sprintf("peak memory of a load of %d rows, against %d", largeLoad, longLoad), peaks[2]/peaks[1], maxLoadMemory,
		fmt.Sprintf("%.1f MB against %.1f MB; %.1f MB for %d rows", peaks[2], peaks[1], peaks[0], perRequest))
}

// loadProcess runs a load to its end, and returns its peak of resident memory in MB. It reads the peak while the
// process runs: the system's value for an ended process includes the memory of its parent.
func loadProcess(b *testing.B, rows int, command ...string) (took time.Duration, peak float64) {
	b.Helper()
	c := exec.CommandContext(b.Context(), command[0], command[1:]...)
	var out, complaint strings.Builder
	c.Stdout, c.Stderr = &out, &complaint
	begun := time.Now()
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			var report itembank.LoadReport
			if err == nil {
				err = json.Unmarshal([]byte(out.String()), &report)
			}
			if err != nil || report.Added != int64(rows) {
				b.Fatalf("%v: %+v, %v\n%s", command, report, err, complaint.String())
			}
			return time.Since(begun), peak
		case <-time.After(time.Millisecond):
			peak = max(peak, peakMemory(c.Process.Pid))
		}
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the peak memory of a process so far, or 0 if no process has the id.
func peakMemory(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := highWater.FindSubmatch(status)
	if found == nil {
		return 0
	}
	kilobytes, _ := strconv.ParseFloat(string(found[1]), 64) // digits
	return kilobytes / 1024
}
