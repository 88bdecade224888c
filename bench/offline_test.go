package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

const (
	offlineRecords = 500_000
	offlineEach    = 5 // of so many records one is a copy of an earlier one
	offlineBytes   = 380
	offlineRounds  = 7 // more would take an hour

	maxMemorySeconds = 2.5
	maxSQLiteSeconds = 5
	maxOfDuckDB      = 1.5  // times
	maxOfTable       = 1    // times
	maxOfLoop        = 0.35 // times
	maxPeakGrowth    = 1.1  // times, with four times the records
	maxWritten       = 10   // bytes for each byte of the input
	maxGrown         = 1.1  // times, with a ledger of grownRecords

	grownRecords = 3_000_000 // 2,400,000 ids
	smallRecords = 100_000
)

// These are the peers. They keep the first record of each id, and neither rename nor resume.
const (
	sqliteLoop = `
import json, sqlite3, sys
records, out, ledger = sys.argv[1:]
db = sqlite3.connect(ledger)
db.execute("CREATE TABLE seen (id TEXT PRIMARY KEY)")
with open(records) as lines, open(out, "w") as unique:
    for n, line in enumerate(lines, 1):
        if db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (json.loads(line)["event_id"],)).rowcount:
            unique.write(line)
        if n % 1000 == 0:
            db.commit()
db.commit()
`
	duckDB = `
import duckdb, sys
records, out = sys.argv[1:3]
duckdb.sql(f"COPY (SELECT DISTINCT ON (event_id) * FROM read_ndjson('{records}')) TO '{out}' (FORMAT json)")
`
	duckDBTable = `
import duckdb, sys
records, out, ledger = sys.argv[1:]
db = duckdb.connect(ledger)
db.sql("CREATE TABLE seen (id UUID PRIMARY KEY)")
db.sql("BEGIN")
db.sql(f"CREATE TEMP VIEW fresh AS FROM read_ndjson('{records}') WHERE event_id NOT IN (FROM seen)")
db.sql("CREATE TEMP TABLE new AS SELECT DISTINCT ON (event_id) * FROM fresh")
db.sql(f"COPY new TO '{out}' (FORMAT json)")
db.sql("INSERT INTO seen SELECT event_id FROM new")
db.sql("COMMIT")
`
	awk = `awk '!seen[$0]++' "$1" >"$2"`
)

// offlineRun holds what a program's run took.
type offlineRun struct {
	time    time.Duration
	cpu     time.Duration // of all processors
	peak    float64       // MB of memory
	written float64       // MB to the disk, as the system counts them
}

// BenchmarkOffline measures `oncebox dedupe` as a process, from its start to its end, and the usual alternatives. All
// read the same file, and keep the same number of records.
func BenchmarkOffline(b *testing.B) {
	folder := b.TempDir()
	program := filepath.Join(folder, "oncebox")
	if out, err := exec.Command("go", "build", "-C", "..", "-trimpath", "-o", program, "./cmd/oncebox").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	input := writeRecords(b, offlineRecords, 0)
	inMemory := []string{program, "dedupe", input, "--id-path", "event_id", "--ledger", ":memory:", "--out", "OUT"}
	inSQLite := []string{program, "dedupe", input, "--id-path", "event_id", "--ledger", "LEDGER", "--out", "OUT"}
	python := duckDBPython()

	grown := filepath.Join(folder, "grown.db")
	runDedupe(b, program, grownRecords, writeRecords(b, grownRecords, 0), grown)

	var memory, sqlite, ofDuckDB, ofTable, ofLoop, ofLoopCPU, awkPeaks, ofEmpty, ofEmptyCPU pairs
	var written float64
	rounds := 0
	for b.Loop() {
		if rounds++; rounds > offlineRounds {
			continue
		}
		m, s := runOffline(b, offlineRecords, inMemory...), runOffline(b, offlineRecords, inSQLite...)
		memory.add(m.time, time.Second)
		sqlite.add(s.time, time.Second)
		written = s.written * 1e6 / (offlineRecords * offlineBytes)
		loop := runOffline(b, offlineRecords, "python3", "-c", sqliteLoop, input, "OUT", "LEDGER")
		ofLoop.add(s.time, loop.time)
		ofLoopCPU.add(s.cpu, loop.cpu)
		small := writeRecords(b, smallRecords, uint64(grownRecords+rounds*smallRecords))
		large := runDedupe(b, program, smallRecords, small, grown)
		empty := runDedupe(b, program, smallRecords, small, "LEDGER")
		ofEmpty.add(large.time, empty.time)
		ofEmptyCPU.add(large.cpu, empty.cpu)
		awkPeaks.add(m.time, runOffline(b, offlineRecords, "sh", "-c", awk, "sh", input, "OUT").time)
		if python != "" {
			ofDuckDB.add(m.time, runOffline(b, offlineRecords, python, "-c", duckDB, input, "OUT").time)
			ofTable.add(s.time, runOffline(b, offlineRecords, python, "-c", duckDBTable, input, "OUT", "LEDGER").time)
		}
	}
	memory.report("offline, :memory: in seconds", maxMemorySeconds)
	if python != "" {
		ofDuckDB.report("offline, :memory: against DuckDB", maxOfDuckDB)
		ofTable.report("offline, SQLite ledger against DuckDB with a table of ids", maxOfTable)
	} else {
		note("offline, :memory: against DuckDB", 0, 0, "not run: scripts/install-tools could not install duckdb")
	}
	awkPeaks.report("offline, :memory: against awk by whole lines", 0)
	sqlite.report("offline, SQLite ledger in seconds", maxSQLiteSeconds)
	ofLoop.report("offline, SQLite ledger against a loop in Python", maxOfLoop)
	ofLoopCPU.report("offline, SQLite ledger against that loop, time of the processors", 0)
	note("offline, SQLite ledger: bytes written for each byte of the input", written, maxWritten, "")
	ofEmpty.report("offline, 100,000 records: a ledger of 2,400,000 ids against an empty one", maxGrown)
	ofEmptyCPU.report("offline, the same, time of the processors", 0)
	notePeaks(b, input, inMemory, inSQLite)
	b.ReportMetric(0, "ns/op")
}

// notePeaks compares the peaks of memory with the peaks for four times as many records.
func notePeaks(b *testing.B, input string, inMemory, inSQLite []string) {
	const more = 4 * offlineRecords
	larger := writeRecords(b, more, 0)
	peaks := func(command []string) (one, four float64) {
		one = runOffline(b, offlineRecords, command...).peak
		with := append([]string(nil), command...)
		for i, arg := range with {
			if arg == input {
				with[i] = larger
			}
		}
		return one, runOffline(b, more, with...).peak
	}
	one, four := peaks(inSQLite)
	note("offline, SQLite ledger: peak of memory with 4 times the records", four/one, maxPeakGrowth,
		fmt.Sprintf("%.0f MB against %.0f MB", four, one))
	one, four = peaks(inMemory)
	ids := float64(3 * offlineRecords * (offlineEach - 1) / offlineEach)
	note("offline, :memory:: bytes of the peak for one more id", (four-one)*1e6/ids, 0,
		fmt.Sprintf("%.0f MB against %.0f MB; TestMemory of internal/records/memledger measures the ledger alone", four, one))
}

// duckDBPython is the Python that has DuckDB, or "".
func duckDBPython() string {
	python, err := filepath.Abs("../.tools/duckdb/bin/python")
	if err != nil || exec.Command(python, "-c", "import duckdb").Run() != nil {
		return ""
	}
	return python
}

// runDedupe runs `oncebox dedupe` with a ledger.
func runDedupe(b *testing.B, program string, records int, input, ledger string) offlineRun {
	b.Helper()
	return runOffline(b, records, program, "dedupe", input, "--id-path", "event_id", "--ledger", ledger, "--out", "OUT")
}

// runOffline runs a command. OUT and LEDGER in it are new files.
func runOffline(b *testing.B, records int, command ...string) offlineRun {
	b.Helper()
	folder := b.TempDir()
	defer func() { _ = os.RemoveAll(folder) }() // the outputs of all rounds together are large
	args := make([]string, len(command))
	for i, arg := range command {
		args[i] = arg
		if arg == "OUT" || arg == "LEDGER" {
			args[i] = filepath.Join(folder, arg)
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begin)
	if err != nil {
		b.Fatalf("%s: %v\n%s", args[0], err, out)
	}
	if got, want := countLines(b, filepath.Join(folder, "OUT")), records/offlineEach*(offlineEach-1); got != want {
		b.Fatalf("%s: %d records, want %d", args[0], got, want)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	peak := float64(usage.Maxrss)
	if runtime.GOOS == "linux" {
		peak *= 1 << 10
	}
	return offlineRun{
		time: took, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), peak: peak / 1e6,
		written: float64(usage.Oublock) * 512 / 1e6,
	}
}

func countLines(b *testing.B, path string) (n int) {
	b.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	part := make([]byte, 1<<20)
	for {
		read, err := file.Read(part)
		n += bytes.Count(part[:read], []byte("\n"))
		if err == io.EOF {
			return n
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// writeRecords writes records with the ids from first on. Each fifth is a copy of an earlier record.
func writeRecords(b *testing.B, records int, first uint64) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "records.ndjson")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(file)
	random := rand.New(rand.NewPCG(1, 2))
	ids := 0
	for i := range records {
		id := ids
		if i%offlineEach == offlineEach-1 {
			id = random.IntN(ids)
		} else {
			ids++
		}
		fmt.Fprintln(w, offlineRecord(first+uint64(id)))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// offlineRecord is the record of an id, of 380 bytes with the end of its line.
func offlineRecord(number uint64) string {
	random := rand.New(rand.NewPCG(number, 3))
	id := func() uuid.UUID {
		var u uuid.UUID
		for i := range u {
			u[i] = byte(random.Uint32())
		}
		u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // version 4
		return u
	}
	text := fmt.Sprintf(`{"event_id":%q,"at":"2026-11-20T12:%02d:%02d.%03dZ","user":{"id":%q,"plan":"pro"},`+
		`"page":{"url":"https://shop.example.com/p/%d","title":"Product %d"},"amount":%.2f,"agent":"`,
		id(), random.IntN(60), random.IntN(60), random.IntN(1000), id(), random.IntN(1e6), random.IntN(1e6),
		1000*random.Float64())
	return fmt.Sprintf("%s%0*d\"}", text, offlineBytes-1-len(text)-2, 0)
}
