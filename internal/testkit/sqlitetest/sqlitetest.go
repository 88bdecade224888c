// Package sqlitetest holds code that the tests of the SQLite engines share: other processes of a store, and programs
// that do not know turns.
package sqlitetest

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver of Foreign
)

// These variables make the test binary another process of the store.
const (
	roleVariable = "SQLITETEST_ROLE"
	pathVariable = "SQLITETEST_PATH"
	nameVariable = "SQLITETEST_NAME"
)

// Role is the work of another process on the store at a path. It calls Ready once. Its result is encoded as JSON for
// Process.Result.
type Role func(ctx context.Context, path, name string) (result any, err error)

// Main is a package's TestMain. It runs the tests, or the role in a process that Start has made. The tests are a
// *testing.M, or what runs it.
func Main(m interface{ Run() int }, roles map[string]Role) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	result, err := role(context.Background(), os.Getenv(pathVariable), os.Getenv(nameVariable))
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Ready tells the test that this process is ready, and waits until Proceed is called.
func Ready() {
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// Process is another process of a store.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts another process in a role and waits until it is ready. At the end of the test it kills the process,
// unless it has ended.
func Start(t *testing.T, role, path, name string) *Process {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	p := &Process{cmd: exec.Command(self)} //nolint:noctx // the cleanup ends it
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path, nameVariable+"="+name)
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	check(t, err)
	out, err := p.cmd.StdoutPipe()
	check(t, err)
	p.out = bufio.NewReader(out)
	check(t, p.cmd.Start())
	t.Cleanup(func() { p.Kill() })
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%s: %q, %v", name, line, err)
	}
	return p
}

// Line returns the next line that the process prints, without its end. It returns false if the process has ended.
func (p *Process) Line() (string, bool) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err == nil
}

// Stop kills the process, if it has not ended, while another goroutine reads what it prints.
func (p *Process) Stop() { _ = p.cmd.Process.Kill() }

// Kill kills the process, if it has not ended. It returns what the process has printed and nobody has read.
func (p *Process) Kill() (rest string) {
	p.Stop()
	printed, _ := io.ReadAll(p.out)
	_ = p.cmd.Wait()
	return string(printed)
}

// Proceed lets a ready process go on.
func (p *Process) Proceed(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.in, "go\n")
	check(t, err)
}

// Result reads the process's result and waits for its end.
func (p *Process) Result(t *testing.T, into any) {
	t.Helper()
	check(t, json.NewDecoder(p.out).Decode(into))
	check(t, p.cmd.Wait())
}

// Foreign opens the file as a program does that does not know turns. Its busy timeout is 0.
func Foreign(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	check(t, err)
	conn, err := db.Conn(t.Context())
	check(t, err)
	t.Cleanup(func() { _ = conn.Close(); check(t, db.Close()) })
	return conn
}

// Run runs a statement of a foreign program.
func Run(t *testing.T, conn *sql.Conn, query string) {
	t.Helper()
	_, err := conn.ExecContext(context.Background(), query)
	check(t, err)
}

// constantRows matches a step through rows of the query itself. A query may call such rows "numbers".
var constantRows = regexp.MustCompile(`CONSTANT ROW|VALUES CLAUSE|SCAN numbers`)

// CheckUsesKeys checks that no query scans a whole table. Each query has its number of arguments.
func CheckUsesKeys(t *testing.T, path string, queries map[string]int) {
	t.Helper()
	conn := Foreign(t, path)
	for query, arguments := range queries {
		rows, err := conn.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query, make([]any, arguments)...)
		check(t, err)
		for rows.Next() {
			var id, parent, unused int
			var step string
			check(t, rows.Scan(&id, &parent, &unused, &step))
			if strings.Contains(step, "SCAN") && !constantRows.MatchString(step) {
				t.Errorf("%s: %s", query, step)
			}
		}
		check(t, errors.Join(rows.Err(), rows.Close()))
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
