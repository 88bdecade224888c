package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

// TestReplace: a claimant gets another item for a code that does not work, or keeps the claim. All commands that read rows
// know the item that was replaced.
func TestReplace(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--columns")
		s.run(exitDone, "load", "spring", s.file("one.csv", "code,price\nA-1,40\n"), "--column", "code", "--with", "price")
		var claim, next, again claimapi.ClaimBody
		s.json(&claim, "claim", "spring", "zoe")
		s.run(exitNo, "replace", "spring", "zoe", "--claim-id", claim.ClaimID).saying(s.T, "spring: sold out; zoe keeps the claim")
		s.json(&again, "claim", "show", "spring", "zoe")
		if again.Item != claim.Item || again.ClaimID != claim.ClaimID {
			s.Errorf("want %+v kept, got %+v", claim, again)
		}
		s.run(exitDone, "load", "spring", s.file("more.csv", "code,price\nA-2,30\nA-3,30\n"), "--column", "code", "--with", "price")
		s.json(&next, "replace", "spring", "zoe", "--claim-id", claim.ClaimID)
		if next.Item == claim.Item || next.Replayed || !strings.HasPrefix(next.ClaimID, claim.ClaimID+".") {
			s.Errorf("replaced %+v by %+v", claim, next)
		}
		s.json(&again, "replace", "spring", "zoe", "--claim-id", claim.ClaimID)
		if next.Replayed = true; !reflect.DeepEqual(again, next) {
			s.Errorf("a repeat: want %+v, got %+v", next, again)
		}
		s.run(exitDone, "replace", "spring", "zoe", "--claim-id", claim.ClaimID).saying(s.T,
			next.Item+"\tprice=30\n", "was replaced before; this is the item that zoe has now")
		s.run(exitDone, "lookup", "spring", "--item", claim.Item).saying(s.T, claim.Item+" (price=40) in spring: replaced")
		s.run(exitDone, "audit", "spring", "--item", claim.Item).saying(s.T, "When the item ended as replaced")
		s.run(exitDone, "status", "spring").saying(s.T, "loaded", "ended")
		s.run(exitDone, "reconcile", "spring")
		s.run(exitDone, "claims", "list", "spring").saying(s.T, next.Item, next.ClaimID)
		s.run(exitNo, "replace", "spring", "zoe", "--claim-id", "another").saying(s.T,
			"claim another of zoe in spring: the claim has ended", "`oncebox claim show spring \"zoe\"` shows that claim and its id.")
		s.run(exitNo, "replace", "spring", "bob", "--claim-id", claim.ClaimID).saying(s.T, "bob holds no item of spring")
		s.run(exitUsage, "replace", "spring", "zoe").saying(s.T, "no terminal to ask on", "oncebox claim show spring \"zoe\"")
		s.run(exitUsage, "replace", "spring", "zoe", "--claim-id", "").saying(s.T, "--claim-id is empty")

		s.run(exitDone, "campaign", "close", "spring")
		s.run(exitNo, "replace", "spring", "zoe", "--claim-id", next.ClaimID).saying(s.T, "closed; zoe keeps the claim")
		s.run(exitDone, "forget", "spring", "zoe", "--yes").saying(s.T, "released 1 claim\n")
		s.run(exitNo, "replace", "spring", "zoe", "--claim-id", next.ClaimID).saying(s.T, "not eligible")
		for _, item := range []string{claim.Item, next.Item} {
			if r := s.run(exitDone, "audit", "spring", "--item", item); strings.Contains(r.stdout, "zoe") {
				s.Errorf("zoe was forgotten, and the audit says %s", r.stdout)
			}
		}
	})
}
