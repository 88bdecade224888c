package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// onStores runs a test of the command line on both stores. On DynamoDB it repeats what it shows on SQLite: the stores
// themselves have a conformance suite.
func onStores(t *testing.T, test func(*shell)) {
	t.Run("sqlite", func(t *testing.T) { test(newShell(t)) })
	t.Run("dynamodb", func(t *testing.T) {
		testengine.CheckOnly(t)
		s, _, _ := onTables(t)
		test(s)
	})
}

// jsonWith runs oncebox with JSON output and checks the exit code.
func (s *shell) jsonWith(code int, into any, args ...string) {
	s.Helper()
	r := s.run(code, append([]string{"--output", "json"}, args...)...)
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		s.Fatalf("oncebox %s: output is not JSON: %v\n%s", strings.Join(args, " "), err, r.stdout)
	}
}

// counts checks that the campaign has these counts and no inconsistency.
func (s *shell) counts(want itembank.Counts) {
	s.Helper()
	var report itembank.ReconcileReport
	if s.json(&report, "reconcile", "spring"); report.Counts != want {
		s.Errorf("want %+v, got %+v", want, report.Counts)
	}
}

func TestLives(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		create := []string{"campaign", "create", "spring", "--item-life", "90m", "--claim-life", "24h", "--on-end", "return"}
		s.run(exitDone, create...)
		s.run(exitDone, create...).saying(s.T, "exists already")
		s.run(exitDone, "campaign", "create", "usual")
		s.run(exitDone, "campaign", "show", "spring").saying(s.T, "item life   1h30m\n", "claim life  1d\n", "on end      return\n")
		s.run(exitDone, "campaign", "show", "usual").saying(s.T, "item life   forever\n", "claim life  forever\n", "on end      burn\n")
		s.run(exitDone, "campaign", "list").saying(s.T, "ITEM LIFE  CLAIM LIFE  HOLD  ON END", "1h30m      1d          -     return", "-          -           -     burn")
		var list []campaignJSON
		s.json(&list, "campaign", "list")
		if len(list) != 2 || list[0].ItemLife != "1h30m" || list[0].ClaimLife != "1d" || list[0].OnEnd != itembank.Return ||
			list[1].ItemLife != "" || list[1].ClaimLife != "" || list[1].OnEnd != itembank.Burn {
			s.Errorf("unexpected %+v", list)
		}
		s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
		var claim struct {
			ClaimedAt time.Time `json:"claimed_at"`
			EndsAt    time.Time `json:"ends_at"`
		}
		if s.json(&claim, "claim", "spring", "ann"); claim.EndsAt.Sub(claim.ClaimedAt) != 24*time.Hour {
			s.Errorf("unexpected %+v", claim)
		}
	})
}

func TestRelease(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--on-end", "return")
		codes := s.file("codes.txt", "A-1\n")
		s.run(exitDone, "load", "spring", codes)
		claim := func() (id string) {
			var c struct {
				ClaimID string `json:"claim_id"`
			}
			s.json(&c, "claim", "spring", "ann")
			return c.ClaimID
		}
		first := claim()
		s.run(exitUsage, "release", "spring", "ann")
		s.run(exitDone, "release", "spring", "ann", "--claim-id", "another").saying(s.T, "nothing to release: ann has no claim another in spring; it may have been released before")
		s.counts(itembank.Counts{Loaded: 1, Claimed: 1})

		s.run(exitDone, "release", "spring", "ann", "--claim-id", first).saying(s.T, "released; the item is in the bank again")
		s.counts(itembank.Counts{Loaded: 1, Free: 1})
		s.run(exitNo, "release", "spring", "ann", "--yes").saying(s.T, "no such claim")

		// The first release, repeated, does not release the second claim.
		second := claim()
		var r releaseJSON
		s.json(&r, "release", "spring", "ann", "--claim-id", first)
		if want := (releaseJSON{Campaign: "spring", Claimant: "ann", ClaimID: first, Outcome: "already"}); !reflect.DeepEqual(r, want) {
			s.Errorf("want %+v, got %+v", want, r)
		}
		if again := claim(); again != second {
			s.Errorf("claim %s is gone, ann has %s", second, again)
		}
		s.json(&r, "release", "spring", "ann", "--yes")
		if want := (releaseJSON{Campaign: "spring", Claimant: "ann", ClaimID: second, Item: "A-1", Outcome: "returned"}); !reflect.DeepEqual(r, want) {
			s.Errorf("want %+v, got %+v", want, r)
		}

		s.run(exitDone, "campaign", "create", "codes")
		s.run(exitDone, "load", "codes", codes)
		s.run(exitDone, "claim", "codes", "ann")
		r1 := s.run(exitDone, "release", "codes", "ann", "--yes")
		r1.saying(s.T, "ann holds in codes:", "item      A-1", "ends      never", "the item is burned")
		if strings.Contains(r1.stdout, "A-1") {
			s.Errorf("the claim belongs to stderr: %s", r1.stdout)
		}
		s.run(exitNo, "claim", "codes", "bob").saying(s.T, "sold out")
		s.run(exitDone, "load", "codes", codes).saying(s.T, "added 0, known 1")
		s.run(exitDone, "status", "codes").saying(s.T, "free     0", "claimed  0", "ended    1")
	})
}

func TestWithdraw(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--on-end", "return")
		s.run(exitDone, "load", "spring", s.file("codes.txt", lines(200)))
		s.run(exitDone, "withdraw", "spring", s.file("two.txt", "CODE-000000\nCODE-000001\n")).saying(s.T, "withdrawn 2, already 0, held 0, unknown 0")
		held := strings.TrimSpace(s.run(exitDone, "claim", "spring", "ann").stdout)

		var r itembank.WithdrawReport
		some := s.file("some.csv", "id,code\n1,CODE-000000\n2,"+held+"\n3,never\n")
		s.jsonWith(exitLook, &r, "withdraw", "spring", some, "--column", "code")
		if want := (itembank.WithdrawReport{Already: 1, Held: 1, Unknown: 1}); r != want {
			s.Errorf("want %+v, got %+v", want, r)
		}
		s.run(exitLook, "withdraw", "spring", some, "--column", "code").saying(s.T, "withdrawn 0, already 1, held 1, unknown 1", "1 item held by claimants until their claims end, 1 item never loaded")
		s.counts(itembank.Counts{Loaded: 200, Free: 197, Claimed: 1, Ended: 2})

		free := strings.Replace("CODE-000002\nCODE-000003\n", held, "CODE-000004", 1)
		s.want(exitDone, s.runWith(free, "withdraw", "spring", "-"))
		s.run(exitDone, "load", "spring", "codes.txt").saying(s.T, "added 0, known 200")
		s.run(exitDone, "withdraw", "spring", "--all", "--yes").saying(s.T, "withdrawn ")
		s.run(exitDone, "withdraw", "spring", "--all", "--yes").saying(s.T, "withdrawn 0, already 0")
		s.run(exitNo, "claim", "spring", "bob").saying(s.T, "sold out")
		if again := strings.TrimSpace(s.run(exitDone, "claim", "spring", "ann").stdout); again != held {
			s.Errorf("ann had %s, and has %s", held, again)
		}
		s.counts(itembank.Counts{Loaded: 200, Claimed: 1, Ended: 199})
	})
}

func TestSweep(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--item-life", "1s")
		s.run(exitDone, "load", "spring", s.file("codes.txt", lines(60)))
		var sum itembank.SweepReport
		for range 100 { // until the second is over
			var r itembank.SweepReport
			s.json(&r, "sweep", "spring")
			sum.Expired += r.Expired
			if r.Returned > 0 {
				s.Errorf("unexpected %+v", r)
			}
			if sum.Expired == 60 {
				break
			}
			time.Sleep(100 * time.Millisecond) // the command has no clock that a test can set
		}
		s.run(exitDone, "sweep", "spring").saying(s.T, "returned 0, expired 0, withdrawn 0\n")
		s.counts(itembank.Counts{Loaded: 60, Ended: 60})
	})
}

func TestDryRun(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring")
		first, second := s.file("1.txt", "A-1\nA-2\n"), s.file("2.csv", "code\nA-2\nA-3\nA-3\n")
		s.run(exitDone, "load", "spring", first)
		s.run(exitDone, "claim", "spring", "ann")
		var said struct {
			DryRun bool `json:"dry_run"`
			itembank.LoadReport
		}
		s.json(&said, "load", "spring", second, "--column", "code", "--dry-run")
		s.want(exitDone, s.runWith("A-2\nA-3\n", "load", "spring", "-", "--dry-run")).saying(s.T, "would add 1, known 1, repeated 0 of 2 lines; nothing was changed")
		s.counts(itembank.Counts{Loaded: 2, Free: 1, Claimed: 1})
		var done itembank.LoadReport
		s.json(&done, "load", "spring", second, "--column", "code")
		if want := (itembank.Tally{Rows: 3, Added: 1, Known: 1, Repeated: 1}); !said.DryRun || said.LoadReport != done || done.Tally != want {
			s.Errorf("the dry run said %+v, the load did %+v", said, done)
		}
	})
}

// TestReconcileDamage: a row is deleted by hand.
func TestReconcileDamage(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "reconcile", "spring").saying(t, "from 20", "loaded 2, free 2, claimed 0, ended 0", "no inconsistencies")
	s.sql("DELETE FROM bank WHERE item = 'A-2'")
	s.run(exitLook, "reconcile", "spring").saying(t, "inconsistencies 1, repaired 0", "missing  no ", "hash:"+engine.HashItem("A-2").String(), "#000001  2 ", "1 of the inconsistencies are not repaired")
	var r itembank.ReconcileReport
	s.jsonWith(exitLook, &r, "reconcile", "spring")
	if len(r.Inconsistencies) != 1 || r.Inconsistencies[0].Kind != "missing" || r.Inconsistencies[0].Row != 2 || r.Loaded != 2 || r.Free != 1 {
		t.Errorf("unexpected %+v", r)
	}
	s.run(exitDone, "campaign", "close", "spring")
	s.run(exitUsage, "reconcile", "spring", "--repair", "--items", s.file("bad.txt", "A-2\nB\t2\n")).saying(t, "bad.txt", "line 2")

	// Ctrl-C ends the wait before the repair.
	c := s.command(context.Background(), nil, "reconcile", "spring", "--repair", "--items", "codes.txt")
	stderr, w := io.Pipe()
	var said bytes.Buffer
	c.Stderr = io.MultiWriter(w, &said)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(stderr)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "waiting 40 s") {
		t.Errorf("want a word about the wait, got %q, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	s.interrupt(c, &said)
	s.run(exitLook, "reconcile", "spring") // it has changed nothing
}

// interrupt ends a command as Ctrl-C does. stderr is what it has printed.
func (s *shell) interrupt(c *exec.Cmd, stderr *bytes.Buffer) {
	s.Helper()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		s.Fatal(err)
	}
	_ = c.Wait() // the exit code is checked next
	if code := c.ProcessState.ExitCode(); code != exitInterrupted {
		s.Fatalf("%v: want exit %d, got %d: %s", c.Args, exitInterrupted, code, stderr)
	}
}

// sql writes to the file directly, without oncebox.
func (s *shell) sql(statement string) {
	s.Helper()
	if s.execute(statement) == 0 {
		s.Fatalf("%s: no row", statement)
	}
}

// execute executes a statement on the file of the store, and returns the number of changed rows.
func (s *shell) execute(statement string) (rows int64) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "oncebox.db"))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	r, err := db.ExecContext(s.Context(), statement)
	if err != nil {
		s.Fatal(err)
	}
	rows, _ = r.RowsAffected()
	return rows
}

// TestInterruptedOperations: Ctrl-C ends a withdrawal and a sweep with 130, and the same command does the rest.
func TestInterruptedOperations(t *testing.T) {
	testengine.CheckOnly(t)
	const n = interruptedLines / 2
	for _, test := range []struct {
		name     string
		settings []string
		args     []string
		state    engine.ItemState
		first    string // the first of the counts that it prints
	}{
		{"withdraw", nil, []string{"withdraw", "spring", "codes.txt"}, engine.Withdrawn, "withdrawn"},
		{"withdraw all", nil, []string{"withdraw", "spring", "--all", "--yes"}, engine.Withdrawn, "withdrawn"},
		{"sweep", []string{"--item-life", "1s"}, []string{"sweep", "spring"}, engine.Expired, "expired"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newShell(t)
			s.stocked(n, test.settings...)
			c := s.command(context.Background(), nil, test.args...)
			var stderr bytes.Buffer
			c.Stderr = &stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			s.until("SELECT EXISTS (SELECT 1 FROM item WHERE state IS NOT NULL)")
			s.interrupt(c, &stderr)
			var counts itembank.Counts
			s.json(&counts, "status", "spring")
			if counts.Ended == 0 || counts.Ended == n {
				t.Fatalf("it was not cut on its way: %+v", counts)
			}
			if want := regexp.MustCompile(`^oncebox: interrupted \(.*` + test.first + ` \d+.*\)\nThe same command goes on from there.\n$`); !want.MatchString(stderr.String()) {
				t.Errorf("want the counts, got %s", stderr.String())
			}
			s.run(exitDone, test.args...).saying(t, fmt.Sprintf("%s %d", test.first, n-counts.Ended))
			s.counts(itembank.Counts{Loaded: n, Ended: n})
		})
	}
}
