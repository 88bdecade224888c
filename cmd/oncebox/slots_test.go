package main

import (
	"reflect"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

func TestSlots(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "tickets", "--per-claimant", "2", "--hold", "15m")
		s.run(exitDone, "campaign", "show", "tickets").saying(s.T, "slots       2\n")
		s.run(exitUsage, "campaign", "create", "other", "--scope", "tickets").saying(s.T, `--scope "tickets": "tickets" is for campaign "tickets" alone`)
		s.run(exitUsage, "campaign", "create", "other", "--per-claimant", "0").saying(s.T, "must be at least 1")
		s.run(exitUsage, "campaign", "create", "other", "--per-claimant", "101").saying(s.T, "--per-claimant 101: must be 1 to 100")
		s.run(exitUsage, "campaign", "create", "other", "--choice", "--max-items", "0").saying(s.T, "must be at least 1")
		s.run(exitUsage, "campaign", "create", "other", "--choice", "--max-items", "21").saying(s.T, "--max-items 21: must be 1 to 20")
		s.run(exitUsage, "campaign", "create", "other", "--max-items", "2").saying(s.T, "--max-items 2: must be 1 without --choice")
		s.run(exitDone, "campaign", "create", "four", "--per-claimant", "4", "--choice")
		s.run(exitUsage, "claim", "four", "ann", "--item", "A", "--item", "B").saying(s.T, `must be at most 1 in campaign "four", are 2`)
		s.run(exitUsage, "campaign", "set", "four", "--max-items", "2").saying(s.T, "--max-items", "claimants were told")
		s.run(exitDone, "load", "tickets", s.file("tickets.txt", "T-1\nT-2\nT-3\n"))
		var first, second, again claimapi.ClaimBody
		s.json(&first, "claim", "tickets", "ann")
		s.json(&second, "claim", "tickets", "ann", "--slot", "2")
		s.json(&again, "claim", "tickets", "ann", "--slot", "2")
		if first.Slot != 0 || second.Slot != 2 || second.Item == first.Item || again.ClaimID != second.ClaimID {
			s.Errorf("claimed %+v, %+v and %+v", first, second, again)
		}
		s.run(exitUsage, "claim", "tickets", "ann", "--slot", "3").saying(s.T, `--slot: must be 1 to 2 in campaign "tickets", is 3`)
		s.run(exitDone, "confirm", "tickets", "ann", "--slot", "2").saying(s.T, second.Item+"\n")
		s.run(exitDone, "release", "tickets", "ann", "--slot", "2", "--yes").saying(s.T, "slot      2", "released; the item is in the bank again")
		s.run(exitNo, "release", "tickets", "ann", "--slot", "2", "--yes").saying(s.T, "no such claim")
		s.run(exitDone, "claim", "tickets", "ann", "--slot", "2")
		s.run(exitDone, "forget", "tickets", "ann", "--yes").saying(s.T, "released 2 claims\n")
	})
}

func TestChosenItems(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--choice", "--on-end", "return")
		s.run(exitDone, "campaign", "show", "spring").saying(s.T, "choice      yes\n")
		s.run(exitDone, "campaign", "create", "codes")
		s.run(exitDone, "load", "spring", s.file("seats.txt", "1A\n1B\n1C,1D\n"))
		s.run(exitDone, "claim", "spring", "ann", "--item", "1B", "--item", "1C,1D").saying(s.T, "1B\n1C,1D\n")
		s.run(exitNo, "claim", "spring", "bob", "--item", "1A", "--item", "1B").plainly(s.T, "oncebox: spring: 1A, 1B are not all free; nothing was claimed\n"+
			"`oncebox lookup spring --item \"ITEM\"` says where it is. `oncebox items list spring --free` lists the free items.\n")
		if r := s.run(exitDone, "items", "list", "spring", "--free", "--rate", "100"); r.stdout != "1A\n" {
			s.Errorf("the free items: %q", r.stdout)
		}
		if r := s.run(exitDone, "--output", "json", "items", "list", "spring", "--free"); r.stdout != `{"item":"1A"}`+"\n" {
			s.Errorf("the free items: %q", r.stdout)
		}
		s.run(exitUsage, "items", "list", "spring").saying(s.T, "--free")
		s.run(exitNo, "claim", "spring", "bob", "--item", "9Z").saying(s.T, "oncebox: spring: 9Z is not free; nothing was claimed\n`oncebox lookup spring --item \"9Z\"` says")
		s.run(exitUsage, "claim", "codes", "bob", "--item", "1A").saying(s.T, `--item: cannot be chosen in campaign "codes"; --choice is set when`)
		var body claimapi.ClaimBody
		if s.json(&body, "claim", "spring", "ann", "--item", "1A"); body.Item != "1B" || len(body.Items) != 2 {
			s.Errorf("ann holds %+v", body)
		}
		s.counts(itembank.Counts{Loaded: 3, Free: 1, Claimed: 2})
		s.run(exitDone, "status", "spring").saying(s.T, "claimed  2")
		s.run(exitDone, "release", "spring", "ann", "--yes").saying(s.T, "item      1B\n", "item      1C,1D\n",
			"released:\n  1B is in the bank again\n  1C,1D is in the bank again\n")
		s.counts(itembank.Counts{Loaded: 3, Free: 3})
	})
}

// TestReleaseSeveral checks that the result names the outcome of each item of the claim.
func TestReleaseSeveral(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "hall", "--choice", "--on-end", "return")
		s.run(exitDone, "load", "hall", s.file("seats.txt", "1A\n1B\n1C\n2A\n2B\n2C\n"))
		claim := func(claimant string, items ...string) string {
			var body claimapi.ClaimBody
			args := []string{"claim", "hall", claimant}
			for _, item := range items {
				args = append(args, "--item", item)
			}
			s.json(&body, args...)
			return body.ClaimID
		}
		returned := func(item string) releasedItemJSON { return releasedItemJSON{item, "returned"} }
		same := func(what string, got, want any) {
			if !reflect.DeepEqual(got, want) {
				s.Errorf("%s: want %+v, got %+v", what, want, got)
			}
		}
		claim("ann", "1A", "1B", "1C")
		s.run(exitLook, "withdraw", "hall", s.file("gone.txt", "1B\n"))
		s.run(exitDone, "release", "hall", "ann", "--yes").saying(s.T, "released:\n  1A is in the bank again\n"+
			"  1B was withdrawn before, no claimant gets it again\n  1C is in the bank again\n")

		var r releaseJSON
		id := claim("ann", "1C", "1A")
		s.json(&r, "release", "hall", "ann", "--claim-id", id)
		same("all returned", r, releaseJSON{"hall", "ann", id, "", "returned", []releasedItemJSON{returned("1C"), returned("1A")}})

		id = claim("bob", "2A", "2B")
		s.run(exitLook, "withdraw", "hall", s.file("gone.txt", "2A\n"))
		mixed := releaseJSON{"hall", "bob", id, "2A", "mixed", []releasedItemJSON{{"2A", "withdrawn"}, returned("2B")}}
		var forgotten forgetJSON
		s.json(&forgotten, "forget", "hall", "bob", "--no-block", "--yes")
		same("forget", forgotten.Released, []releaseJSON{mixed})
		claim("bob", "2B", "2C")
		s.run(exitLook, "withdraw", "hall", s.file("gone.txt", "2C\n"))
		s.run(exitDone, "forget", "hall", "bob", "--yes").saying(s.T, "  hall: 2B is returned\n  hall: 2C is withdrawn\n")
	})
}
