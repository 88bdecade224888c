package sqlitestore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// The variables that make the test binary another process of the store.
const (
	roleVariable = "SQLITESTORE_TEST_ROLE"
	pathVariable = "SQLITESTORE_TEST_PATH"
	nameVariable = "SQLITESTORE_TEST_NAME"
)

// roles are what another process can do. It says "ready" on standard output
// before, and a line with its result after it.
var roles = map[string]func(ctx context.Context, s *Store) (result any, err error){
	"claim everything": claimEverything,
	"hold the turn":    holdTurn,
	"come and go":      comeAndGo,
}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(role func(context.Context, *Store) (any, error)) error {
	ctx := context.Background()
	// A machine that is short of processors is not what these tests are about.
	s, err := Open(ctx, os.Getenv(pathVariable), WithBusyTimeout(time.Minute))
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	result, err := role(ctx, s)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// ready tells the test that this process has come to the point, and waits for
// the word to go on.
func ready() {
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// process is another process of a store.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts another process and waits until it is ready.
func start(t *testing.T, role, path, name string) *process {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	p := &process{Cmd: exec.Command(self)}
	p.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path, nameVariable+"="+name)
	p.Stderr = os.Stderr
	p.in, err = p.StdinPipe()
	check(t, err)
	out, err := p.StdoutPipe()
	check(t, err)
	p.out = bufio.NewReader(out)
	check(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill() // it has ended, unless the test failed
		_ = p.Wait()
	})
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%s: %q, %v", name, line, err)
	}
	return p
}

// proceed lets a ready process go on.
func (p *process) proceed(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(p.in, "go\n")
	check(t, err)
}

// result reads the process's result and waits for its end.
func (p *process) result(t *testing.T, into any) {
	t.Helper()
	check(t, json.NewDecoder(p.out).Decode(into))
	check(t, p.Wait())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newStore makes a store with a campaign "c" of one shard and n items.
func newStore(t *testing.T, n int, options ...Option) (*Store, itembank.Campaign) {
	t.Helper()
	ctx := t.Context()
	s, err := Create(ctx, filepath.Join(t.TempDir(), "codes.db"), options...)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	bank := itembank.New(s)
	c, _, err := bank.CreateCampaign(ctx, "c", itembank.Settings{Shards: 1})
	check(t, err)
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("item-%06d", i)
	}
	if n > 0 {
		_, err = bank.Load(ctx, "c", itembank.Items(items...), nil)
		check(t, err)
	}
	return s, c
}

// free returns up to limit free items of the store that newStore made.
func free(t *testing.T, s *Store, limit int) []itembank.FreeItem {
	t.Helper()
	page, err := s.FreeItems(t.Context(), itembank.Shard{Campaign: "c", Generation: 1}, itembank.Range{}, limit)
	check(t, err)
	return page.Items
}

// annsClaim is ann's claim to the item.
func annsClaim(item itembank.FreeItem) itembank.Claim {
	return itembank.Claim{
		ID: "id of ann", Campaign: "c", Scope: "c", Claimant: "ann",
		Item: item.Value, ItemHash: item.Hash, ClaimedAt: time.UnixMilli(1000).UTC(),
	}
}
