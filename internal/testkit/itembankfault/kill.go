package itembankfault

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/gob"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// killed is the scenario of a process that is killed. It moves items in all ways. A second process repeats it. The
// rows that the second process finds depend on when the first was killed.
var killed = Scenario{"killed", func(w *World) {
	w.Create("", itembank.Settings{Shards: 1, Hold: life, MaxHold: 3 * life})
	w.Load("", "item-0", "item-1")
	w.settle()
}, func(w *World) {
	_, _ = w.Claim("", "ann")
	_, _ = w.Claim("", "bob")
	_, _ = w.Claim("", "cid")
	w.Load("", aLoad()...)
	w.clock.Advance(life / 2)
	_ = w.Prolong("", "ann")
	_ = w.Prolong("", "bob")
	_ = w.Confirm("", "bob")
	w.Release("", "ann")
	_, _ = w.Claim("", "ann")
	_, _ = w.Claim("", "cid")
	_ = w.ReleaseHold("", "cid")
	_, _ = w.Claim("", "cid")
	w.clock.Advance(2 * life)
	w.SweepDue("")
	_, _ = w.Claim("", "ann")
	_, _ = w.Claim("", "bob")
	w.Sweep("")
	w.Withdraw("", "item-0", "item-1", "line-1", "line-2")
	_, _ = w.Claim("", "dan")
	w.WithdrawAll("")
	w.Forget("", "dan")
	_, _ = w.Claim("", "dan")
	_, _ = w.Claim("", "ann")
}}

// childVariable is the environment variable that holds the child, encoded.
const childVariable = "ITEMBANKFAULT_CHILD"

// child holds the parameters of a process that will be killed.
type child struct {
	Where    string // the place of the store: a path or an endpoint
	At       int    // the call before which it kills itself
	Name     string
	Campaign engine.Campaign
	State    State
}

const stateMark = "STATE "

// encode writes a child or a State on one line.
func encode(v any) string {
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(v); err != nil {
		panic(err) // cannot happen: plain data always encodes
	}
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

func decode(text string, into any) error {
	return gob.NewDecoder(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text))).Decode(into)
}

// Child is the process that RunKills kills. It runs as a test of the same binary, and is skipped in other runs:
//
//	func TestChild(t *testing.T) { itembankfault.Child(t, open) }
func Child(t *testing.T, open func(t *testing.T, where string) engine.Store) {
	text := os.Getenv(childVariable)
	if text == "" {
		t.Skip("TestKills starts this test as a process of its own")
	}
	c := child{State: newState()}
	if err := decode(text, &c); err != nil {
		t.Fatal(err)
	}
	store := &Store{Store: open(t, c.Where), Plan: func(call int, _ string) Fault {
		if call == c.At {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			panic(fmt.Sprint("still alive: ", err))
		}
		return None
	}}
	w := newWorld(t.Context(), enginetest.Engine{Store: store})
	store.Server = w.clock
	w.resume(c.State)
	w.name, w.campaigns[""] = c.Name, c.Campaign
	w.keep = func(s State) { fmt.Println(stateMark + encode(s)) }
	if err := w.violated(func() { killed.Act(w) }); err != nil {
		t.Fatal(err)
	}
}

// resume continues with the answers that clients got from another process.
func (w *World) resume(s State) {
	w.state, w.killed = s, true
	w.clock.Advance(s.Now.Sub(w.clock.Now()))
}

// randomKills is the number of processes that are killed at a random time, which may be in the middle of a call. If
// the tests play everything, the number is allRandomKills.
const randomKills, allRandomKills = 6, 100

// RunKills kills processes that work on a store: before one in share of their calls (see Share), and at random times.
// Then it continues with the answers that their clients got, and checks the guarantees. The test binary must have a
// TestChild that opens the store by where.
func RunKills(t *testing.T, e enginetest.Engine, where string, share int) {
	share = search.Share(share)
	at, kills := rand.IntN(share), 0
	died, uncut := killOnce(t, e, where, at, -1)
	for ; died; died, uncut = killOnce(t, e, where, at, -1) {
		at += share
		kills++
	}
	if at < 30 {
		t.Errorf("the process made only %d calls", at)
	}
	tries, inTime := randomKills, 0
	if search.All() {
		tries = allRandomKills
	}
	for range tries {
		died, took := killOnce(t, e, where, -1, rand.N(uncut))
		if died {
			inTime++
		} else {
			uncut = min(uncut, took) // the machine may have been busy before
		}
	}
	if inTime == 0 {
		t.Errorf("all %d processes ended before they were killed at random; an uncut one took %v", tries, uncut)
	}
	t.Logf("%d kills before a call, of up to %d; %d at random, in the %v that an uncut process takes", kills, at, inTime, uncut)
}

// killOnce kills one process before a call or after a time. died is false if the process ended before that. took is
// how long its clients acted.
func killOnce(t *testing.T, e enginetest.Engine, where string, at int, after time.Duration) (died bool, took time.Duration) {
	t.Helper()
	w := newWorld(t.Context(), e)
	if err := w.violated(func() { killed.Prepare(w) }); err != nil {
		t.Fatal(err)
	}
	w.state.Now = w.clock.Now()
	c := child{Where: where, At: at, Name: w.name, Campaign: w.campaigns[""], State: w.state}
	state, died, took, err := c.run(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	w.resume(state)
	w.state.Freed = w.clock.Now() // a call of the killed process may still put items
	w.newBank()
	if err := w.violated(func() { killed.Act(w); w.checkRows(true) }); err != nil {
		t.Errorf("killed before call %d, or after %v: %v\n%s", at, after, err, search.Replay(t))
	}
	return died, took
}

// run starts the process. It returns the answers that its clients had got by its end, and how long they acted.
func (c child) run(ctx context.Context, after time.Duration) (state State, died bool, took time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return state, false, 0, err
	}
	run := exec.CommandContext(ctx, self, "-test.run=^TestChild$")
	run.Env = append(os.Environ(), childVariable+"="+encode(c))
	var stderr bytes.Buffer
	run.Stderr = &stderr
	out, err := run.StdoutPipe()
	if err != nil {
		return state, false, 0, err
	}
	if err := run.Start(); err != nil {
		return state, false, 0, err
	}
	first := make([]byte, 1)
	_, _ = out.Read(first) // the first byte comes when its clients begin; none comes if it failed
	began := time.Now()
	if after >= 0 {
		time.AfterFunc(after, func() { _ = run.Process.Kill() })
	}
	said, err := io.ReadAll(out)
	took = time.Since(began)
	_ = run.Wait() // ProcessState says how the process ended
	if err != nil {
		return state, false, 0, err
	}
	died = run.ProcessState.ExitCode() == -1
	if !died && !run.ProcessState.Success() {
		return state, false, 0, fmt.Errorf("the process failed: %s%s%s", first, said, stderr.Bytes())
	}
	state = c.State
	for line := range strings.Lines(string(first) + string(said)) {
		if text, ok := strings.CutPrefix(line, stateMark); ok && strings.HasSuffix(line, "\n") {
			state = newState()
			if err := decode(strings.TrimSpace(text), &state); err != nil {
				return state, died, took, err
			}
		}
	}
	return state, died, took, nil
}
