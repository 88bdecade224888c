package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestForgetBlocks: a forgotten claimant gets no second item, in any campaign of the scope, until the block is removed.
func TestForgetBlocks(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring")
		s.run(exitDone, "campaign", "create", "autumn", "--scope", "spring")
		s.run(exitDone, "campaign", "create", "hall")
		for _, campaign := range []string{"spring", "autumn", "hall"} {
			s.run(exitDone, "load", campaign, s.file(campaign+".txt", campaign+"-1\n"+campaign+"-2\n"+campaign+"-3\n"))
		}
		s.run(exitDone, "claim", "spring", "ann")
		s.run(exitDone, "claim", "hall", "ann")
		var spring forgetJSON
		s.json(&spring, "forget", "spring", "ann", "--yes")
		if len(spring.Released) != 1 || spring.BlockedSlots != 1 || spring.BlocksStayUntil != nil {
			s.Errorf("unexpected %+v", spring)
		}
		for _, campaign := range []string{"spring", "autumn"} {
			s.run(exitNo, "claim", campaign, "ann").saying(s.T, "not eligible", "oncebox claim unblock "+campaign)
			s.run(exitNo, "claim", "show", campaign, "ann").saying(s.T, "not eligible")
		}
		s.run(exitNo, "audit", "spring", "--claimant", "ann").saying(s.T, "and is blocked in its scope")
		s.run(exitDone, "claim", "show", "hall", "ann")
		s.run(exitDone, "status", "spring").saying(s.T, "claimed  0")
		s.run(exitDone, "reconcile", "spring").saying(s.T, "no inconsistencies")

		s.run(exitUsage, "forget", "spring", "--yes").saying(s.T, "there is no claimant")
		s.run(exitUsage, "forget", "spring", "ann", "--all-scopes", "--yes").saying(s.T, "takes only the claimant")
		var all forgetAllJSON
		s.json(&all, "forget", "ann", "--all-scopes", "--yes")
		if len(all.Scopes) != 2 || all.Scopes[0].Scope != "hall" || len(all.Scopes[0].Released) != 1 || len(all.Scopes[1].Released) != 0 {
			s.Errorf("unexpected %+v", all)
		}
		s.run(exitNo, "claim", "hall", "ann").saying(s.T, "not eligible")

		s.run(exitDone, "claim", "unblock", "autumn", "ann").saying(s.T, "unblocked: ann can claim in the scope spring")
		s.run(exitDone, "claim", "unblock", "spring", "ann").saying(s.T, "nothing to do")
		s.run(exitDone, "claim", "spring", "ann")
		s.run(exitDone, "forget", "ann", "--all-scopes", "--no-block", "--yes").saying(s.T, "in the scope hall:\nreleased 0 claims\nin the scope spring:\nreleased 1 claim\n")
		s.run(exitDone, "claim", "hall", "ann")
	})
}

// TestClaimBlock: a block does not end a claim, and says which slot it leaves.
func TestClaimBlock(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	closes := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	s.run(exitDone, "campaign", "create", "tickets", "--per-claimant", "2", "--closes", closes)
	s.run(exitDone, "load", "tickets", s.file("codes.txt", "A-1\nA-2\nA-3\n"))
	s.run(exitDone, "claim", "tickets", "ann", "--slot", "2")
	var r blockJSON
	s.jsonWith(exitLook, &r, "claim", "block", "tickets", "ann")
	if r.Slots != 2 || r.Changed != 1 || len(r.Held) != 1 || r.Held[0].Slot != 2 || r.BlocksStayUntil == nil {
		t.Errorf("unexpected %+v", r)
	}
	s.run(exitLook, "claim", "block", "tickets", "ann").saying(t, "slot 2 is NOT blocked", "oncebox forget", "deletes it after")
	s.run(exitDone, "claim", "tickets", "ann", "--slot", "2")
	s.run(exitDone, "audit", "tickets", "--claimant", "ann").saying(t, "ann holds an item", "ann is blocked in the other slots")
	s.run(exitNo, "claim", "tickets", "ann").saying(t, "not eligible")
	s.run(exitDone, "release", "tickets", "ann", "--slot", "2", "--yes")
	s.run(exitDone, "claim", "block", "tickets", "ann").saying(t, "blocked: ann cannot claim")
	s.run(exitNo, "claim", "tickets", "ann", "--slot", "2").saying(t, "not eligible")
	s.run(exitNo, "claim", "block", "nobody", "ann").saying(t, "no such campaign")

	s.sql(`UPDATE campaign SET closes_at = closes_at - 40 * 86400000`)
	s.sql(`UPDATE claim SET claimed_at = claimed_at - 40 * 86400000`)
	s.run(exitDone, "sweep", "tickets").saying(t, "blocks deleted 2")
	s.run(exitDone, "sweep", "tickets").saying(t, "withdrawn 0\n")
}

// TestForgetInAllScopesThatFails: the command prints the scopes that are done, and then where it stopped. A repeat does
// the rest.
func TestForgetInAllScopesThatFails(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	for _, campaign := range []string{"autumn", "spring", "winter"} {
		s.run(exitDone, "campaign", "create", campaign)
		s.run(exitDone, "load", campaign, s.file("codes.txt", campaign+"-1\n"))
	}
	s.run(exitDone, "claim", "autumn", "ann")
	s.execute(`CREATE TRIGGER broken BEFORE INSERT ON claim WHEN NEW.scope = 'spring' BEGIN SELECT RAISE(ABORT, 'broken'); END`)
	stopped := s.run(exitFailed, "forget", "ann", "--all-scopes", "--yes")
	stopped.saying(t, "in the scope autumn:\nreleased 1 claim\n", "stopped in the scope spring", "goes on from there")
	if strings.Contains(stopped.stdout, "in the scope winter:") {
		t.Errorf("it did not stop: %s", stopped.stdout)
	}
	var done forgetAllJSON
	s.jsonWith(exitFailed, &done, "forget", "ann", "--all-scopes", "--yes")
	if len(done.Scopes) != 1 || done.Scopes[0].Scope != "autumn" || done.Scopes[0].BlockedSlots != 1 {
		t.Errorf("unexpected %+v", done)
	}
	s.execute(`DROP TRIGGER broken`)
	var all forgetAllJSON
	if s.json(&all, "forget", "ann", "--all-scopes", "--yes"); len(all.Scopes) != 3 {
		t.Errorf("unexpected %+v", all)
	}
}

// TestBlocksAreErased: no file has the text of a block that was deleted by claim unblock or by a sweep.
func TestBlocksAreErased(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	closes := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	s.run(exitDone, "campaign", "create", "spring", "--closes", closes)
	s.serve() // keeps the -wal file
	files := func() string { return s.read("oncebox.db") + s.read("oncebox.db-wal") }
	for name, remove := range map[string]func(claimant string){
		"unblock": func(claimant string) { s.run(exitDone, "claim", "unblock", "spring", claimant) },
		"sweep": func(string) {
			s.sql(`UPDATE campaign SET closes_at = closes_at - 40 * 86400000`)
			s.sql(`UPDATE claim SET claimed_at = claimed_at - 40 * 86400000`)
			s.run(exitDone, "sweep", "spring").saying(t, "blocks deleted 1")
			s.sql(`UPDATE campaign SET closes_at = closes_at + 40 * 86400000`)
		},
	} {
		claimant := "erased-by-" + name
		s.run(exitDone, "claim", "block", "spring", claimant)
		if !strings.Contains(files(), claimant) {
			t.Fatalf("the files never had %s", claimant)
		}
		if remove(claimant); strings.Contains(files(), claimant) {
			t.Errorf("the files have %s", claimant)
		}
	}
}

// TestForgetErasesTheFile: while a server has the file open, neither the file nor its -wal file has the text of deleted
// rows after a forget.
func TestForgetErasesTheFile(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring", "--on-end", "return")
	var codes strings.Builder
	for i := range 200 {
		fmt.Fprintf(&codes, "code-%d\n", i)
	}
	s.run(exitDone, "load", "spring", s.file("codes.txt", codes.String()))
	base := s.serve()
	claim := func(claimant string, want int) {
		s.Helper()
		if r := s.post(base+"/campaigns/spring/claims", fmt.Sprintf(`{"claimant":%q}`, claimant)); r.status != want {
			s.Fatalf("%s: want %d, got %+v", claimant, want, r)
		}
	}
	const ann = "ann-of-the-erased-text"
	for i := range 60 { // the rows of the claims fill several pages, which split
		claim(fmt.Sprintf("a%d-and-more-text-to-fill-the-pages-of-the-table-with-claims", i), http.StatusCreated)
	}
	claim(ann, http.StatusCreated)
	for i := range 60 {
		claim(fmt.Sprintf("b%d-and-more-text-to-fill-the-pages-of-the-table-with-claims", i), http.StatusCreated)
	}
	if !strings.Contains(s.read("oncebox.db")+s.read("oncebox.db-wal"), ann) {
		t.Fatal("the files never had the text")
	}
	s.run(exitDone, "forget", "spring", ann, "--no-block", "--yes")
	for _, name := range []string{"oncebox.db", "oncebox.db-wal"} {
		if strings.Contains(s.read(name), ann) {
			t.Errorf("%s has the text of a deleted row", name)
		}
	}
	claim(ann, http.StatusCreated)
	var claimID string
	for line := range strings.Lines(s.run(exitDone, "claim", "show", "spring", ann).stdout) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "claim id"); found {
			claimID = strings.TrimSpace(id)
		}
	}
	s.run(exitDone, "forget", "spring", ann, "--yes")
	if files := s.read("oncebox.db") + s.read("oncebox.db-wal"); strings.Contains(files, claimID) || !strings.Contains(files, ann) {
		t.Errorf("want the block and nothing of claim %s", claimID)
	}
	claim(ann, http.StatusForbidden)
	claim("bob", http.StatusCreated)
}
