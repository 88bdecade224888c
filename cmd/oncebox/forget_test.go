package main

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

func TestClaimantAs(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "vip", "--scope", "club", "--claimant-as", "email")
		s.run(exitDone, "campaign", "show", "vip").saying(s.T, "claimants   email\n")
		var shown campaignJSON
		if s.json(&shown, "campaign", "show", "vip"); shown.ClaimantAs != itembank.Email {
			s.Errorf("unexpected %+v", shown)
		}
		s.run(exitUsage, "campaign", "create", "guests", "--scope", "club").saying(s.T,
			"--claimant-as exact: the scope \"club\" compares claimants as email, which is fixed; choose that or another scope")
		s.run(exitUsage, "campaign", "create", "guests", "--claimant-as", "phone").saying(s.T, "--claimant-as must be one of")
		s.run(exitDone, "load", "vip", s.file("codes.txt", "A-1\nA-2\n"))
		var first, again claimapi.ClaimBody
		s.json(&first, "claim", "vip", "Ann@Example.com")
		s.json(&again, "claim", "vip", " ann@example.com ")
		if first.Claimant != "ann@example.com" || again.ClaimID != first.ClaimID || !again.Replayed {
			s.Errorf("claimed %+v, and then %+v", first, again)
		}
	})
}

func TestForget(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "yoga", "--scope", "term", "--on-end", "return", "--claimant-as", "email")
		s.run(exitDone, "campaign", "create", "dance", "--scope", "term", "--claimant-as", "email")
		s.run(exitDone, "load", "yoga", s.file("places.txt", "place-1\n"))
		s.run(exitDone, "claim", "yoga", "ann@example.com")
		s.run(exitUsage, "forget", "term", "ann@example.com").saying(s.T, "nothing was changed", "--yes")
		s.run(exitNo, "forget", "terms", "ann@example.com", "--yes").saying(s.T, "no such campaign")

		s.run(exitDone, "forget", "term", "Ann@example.com", "--yes").saying(s.T,
			"in campaign yoga", "released 1 claim\n", "yoga: the item is returned", "These may still name the claimant:",
			"blocked: ann@example.com cannot claim in the scope term", "it stays", "oncebox claim unblock term")
		s.run(exitDone, "status", "yoga").saying(s.T, "free     1")
		var r forgetJSON
		s.json(&r, "forget", "dance", "ann@example.com", "--yes") // the name of a campaign means its scope
		if r.Scope != "term" || len(r.Released)+len(r.Kept) != 0 || len(r.Copies) < 3 {
			s.Errorf("unexpected %+v", r)
		}

		s.run(exitDone, "campaign", "create", "term", "--scope", "year")
		s.run(exitUsage, "forget", "term", "ann@example.com", "--yes").saying(s.T, "is a campaign of one scope, and the name of another scope")
	})
}

// TestForgetWhatContradictsItself checks that a claim with contradicting rows stays, and that the command reports it.
func TestForgetWhatContradictsItself(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	s.run(exitDone, "claim", "spring", "ann")
	s.sql(`DELETE FROM item`)
	var r forgetJSON
	s.jsonWith(exitLook, &r, "forget", "spring", "ann", "--yes")
	if len(r.Released) > 0 || len(r.Kept) != 1 || !strings.Contains(r.Kept[0].Reason, "no row says that it was loaded") {
		t.Errorf("unexpected %+v", r)
	}
}
