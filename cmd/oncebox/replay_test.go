package main

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// TestReplayFromStore: the store is an older copy of another one. Since the copy ann's code was burned, bob and cid
// claimed, dan was forgotten, and operators loaded and withdrew.
func TestReplayFromStore(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "claim", "spring", "ann")
	s.run(exitDone, "claim", "spring", "dan")
	s.file("new.db", s.read("oncebox.db"))
	release := func(claimant string) {
		var claim struct {
			ClaimID string `json:"claim_id"`
		}
		s.json(&claim, "claim", "spring", claimant)
		s.run(exitDone, "release", "spring", claimant, "--claim-id", claim.ClaimID)
	}
	release("ann")
	s.run(exitDone, "forget", "spring", "dan", "--yes")
	s.run(exitDone, "load", "spring", s.file("more.txt", "B-1\n"))
	bobs := s.run(exitDone, "claim", "spring", "bob").stdout
	s.run(exitDone, "load", "spring", s.file("last.txt", "C-1\nC-2\n"))
	s.run(exitDone, "withdraw", "spring", s.file("withdrawn.txt", "C-1\n"), "--yes")
	s.run(exitDone, "campaign", "set", "spring", "--page-size", "7")

	fresh := []string{"--store", "sqlite:new.db"}
	in := func(code int, args ...string) result { return s.run(code, append(slices.Clone(fresh), args...)...) }
	in(exitDone, "campaign", "close", "spring", "--restored")
	in(exitUsage, "replay", "spring", "--from", "sqlite:oncebox.db").saying(t, "--from sqlite:oncebox.db: spring is open there",
		"`oncebox --store sqlite:oncebox.db campaign close spring --moved` closes it.")
	s.run(exitDone, "campaign", "close", "spring")
	in(exitLook, "replay", "spring", "--from", "sqlite:oncebox.db", "--dry-run").saying(t, "the mark restored stays: close all campaigns")
	s.run(exitDone, "campaign", "close", "spring", "--moved")
	in(exitDone, "replay", "spring", "--from", "sqlite:oncebox.db", "--dry-run").saying(t,
		"would have replayed 1, already 0, of other campaigns 0, refused 0 of 1 line; nothing was changed\n",
		"closed 2 claims that the other store no longer has, ended 0 items\n",
		"operators: 1 withdrawal of items in the other store only, 0 taken over\n",
		"operators: 2 loads of items in the other store only, 1 taken over\n",
		"operators: other settings in the other store, not taken over: page-size\n",
		"the mark restored would be cleared\n")
	in(exitDone, "replay", "spring", "--from", "sqlite:oncebox.db", "--dry-run", "--take", "loads,withdrawals").saying(t,
		"operators: 2 loads of items in the other store only, 2 taken over\n", "1 withdrawal of items in the other store only, 1 taken over")
	if bobs == "" {
		t.Error("bob got no item")
	}
	in(exitUsage, "replay", "spring", "--from", "sqlite:new.db").saying(t, "spring is marked as restored there", "and not the copy")
	s.run(exitUsage, "replay", "spring", "--from", "sqlite:new.db").saying(t, "spring is not marked as restored", "campaign close spring --restored")
	for says, args := range map[string][]string{
		"name a file of claims, or a store with --from":                    {"replay", "spring"},
		"name a file of claims, or a store":                                {"replay", "spring", "x", "--from", "sqlite:oncebox.db"},
		"--take is for --from":                                             {"replay", "spring", "x", "--take", "loads"},
		`--from "other.db": must be sqlite:PATH or dynamodb:BANK,DEDUPE`:   {"replay", "spring", "--from", "other.db"},
		`--from "dynamodb:": must name both tables`:                        {"replay", "spring", "--from", "dynamodb:"},
		"Use --from dynamodb:BANK,DEDUPE, with the table of items and the": {"replay", "spring", "--from", "dynamodb:old-dedupe"},
		"--from sqlite:none.db: there is no such file":                     {"replay", "spring", "--from", "sqlite:none.db"},
	} {
		in(exitUsage, args...).saying(t, says)
	}
}

// TestReplayFromTables uses the two old tables, and two new ones that lack a claim.
func TestReplayFromTables(t *testing.T) {
	s := newShell(t)
	tables := rand.Text()
	s.env = localEngine(testengine.Dynoxide(t))
	in := func(store, what string, args ...string) result {
		return s.run(exitDone, append([]string{"--bank-table", store + "-bank-" + tables, "--dedupe-table", store + "-dedupe-" + tables, what}, args...)...)
	}
	for _, store := range []string{"old", "new"} {
		in(store, "init")
		in(store, "campaign", "create", "spring")
		in(store, "load", "spring", s.file("codes.txt", "A-1\n"))
	}
	in("old", "claim", "spring", "ann")
	in("old", "campaign", "close", "spring", "--moved")
	in("new", "campaign", "close", "spring", "--restored")
	from := func(store string) string {
		return fmt.Sprintf("dynamodb:%s-bank-%s,%s-dedupe-%s", store, tables, store, tables)
	}
	in("new", "replay", "spring", "--dry-run", "--from", from("old")).saying(t, "would have replayed 1, already 0,")
}

// TestMarksOfARestore checks what the marks refuse, what shows them, and how a person clears them.
func TestMarksOfARestore(t *testing.T) {
	for _, test := range []struct{ mark, hint string }{
		{"moved", "Use the new store. If no other store has the campaign: `oncebox campaign close hall --newer-claims-are-lost`."},
		{"restored", "`oncebox replay hall --from ...` replays the old store, and clears the mark."},
	} {
		t.Run(test.mark, func(t *testing.T) { marksOfARestore(t, test.mark, test.hint) })
	}
}

func marksOfARestore(t *testing.T, mark, hint string) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "hall", "--hold", "15m")
	s.run(exitDone, "load", "hall", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "claim", "hall", "ann")
	s.run(exitDone, "campaign", "close", "hall", "--"+mark)
	says := "the campaign is marked as " + mark
	for _, args := range [][]string{
		{"claim", "hall", "ann"}, {"withdraw", "hall", "--all", "--yes"}, {"sweep", "hall"}, {"forget", "hall", "ann", "--yes"},
		{"claim", "block", "hall", "bob"}, {"campaign", "set", "hall", "--by-times"},
	} {
		s.run(exitNo, args...).saying(t, says)
	}
	s.run(exitNo, "campaign", "open", "hall").saying(t, says, hint)
	s.run(exitDone, "campaign", "show", "hall").saying(t, "mark        "+mark)
	s.run(exitDone, "status", "hall").saying(t, "mark     "+mark)
	s.run(exitDone, "campaign", "close", "hall")
	s.run(exitNo, "campaign", "open", "hall").saying(t, says)
	s.run(exitDone, "campaign", "open", "hall", "--newer-claims-are-lost").saying(t, "given up: ", "The newest claim in this store was made at ")
	s.run(exitDone, "claim", "hall", "ann")
	s.run(exitUsage, "campaign", "close", "hall", "--moved", "--restored").saying(t, "can't be used together")
}

// TestOpenUntilReconciled checks that a campaign that was closed for a replay is not opened while it is inconsistent.
func TestOpenUntilReconciled(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "campaign", "close", "spring", "--until-reconciled")
	s.run(exitDone, "campaign", "show", "spring").saying(t, "mode        closed-until-reconciled")
	damaged := s.read("oncebox.db")
	s.sql("DELETE FROM bank WHERE item = 'A-2'")
	s.run(exitNo, "campaign", "open", "spring").saying(t, "spring: the campaign stays closed until reconcile finds no inconsistency: it found 1",
		"`oncebox reconcile spring` shows them.")
	s.run(exitNo, "claim", "spring", "ann")
	s.file("oncebox.db", damaged)
	s.run(exitDone, "campaign", "open", "spring")
	s.run(exitDone, "claim", "spring", "ann")
}
