package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
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

// laterVersion is an engine with a campaign that a later version of oncebox made, in a scope.
type laterVersion struct {
	*memstore.Items
	scope string
}

func (l *laterVersion) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	all, err := l.Items.Campaigns(ctx)
	later := &engine.UnreadableError{Campaigns: []engine.Unreadable{{Name: "later", Scope: l.scope, Err: dynamostore.ErrLayout}}}
	return all, errors.Join(err, later)
}

// TestACampaignThatCannotBeRead: the commands do the rest, name the campaign, and say in their exit code that something
// needs attention. A scope with such a campaign is left alone, because the campaign may be marked as moved.
func TestACampaignThatCannotBeRead(t *testing.T) {
	t.Parallel()
	store := &laterVersion{memstore.NewItems(), "other"}
	w := newFixture(t, store, itembank.Settings{})
	_, err := w.bank.Load(t.Context(), w.name, itembank.Items(theItem, "A-2", "A-3"), nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(what string, exit int, says string, command func(context.Context, *cli.App, *itembank.Operator) error) {
		t.Helper()
		err := command(t.Context(), w.app(), w.bank)
		if err == nil || cli.ExitCode(t.Context(), err) != exit || !strings.Contains(err.Error(), "later: the tables have another layout") {
			t.Errorf("%s: got exit %d, %v", what, cli.ExitCode(t.Context(), err), err)
		}
		if !strings.Contains(w.out.String(), says) {
			t.Errorf("%s: the output is %s", what, w.out.String())
		}
	}
	forget := func(name, claimant string, all bool) func(context.Context, *cli.App, *itembank.Operator) error {
		return func(_ context.Context, a *cli.App, b *itembank.Operator) error {
			return forgetCommand{Name: name, Claimant: claimant, AllScopes: all, Yes: true}.forget(t.Context(), a, b)
		}
	}
	for _, claimant := range []string{"ann", "bob", "carol"} {
		w.claimFor(claimant)
	}
	run("list", exitLook, w.name, campaignList{}.list)
	run("look-up", exitLook, theItem+" in "+w.name, lookupCommand{Item: theItem}.lookUp)
	run("forget", exitLook, "released 1 claim", forget(w.name, "ann", false))
	run("forget in all scopes", exitLook, "released 1 claim", forget("", "bob", true))
	run("forget in an unknown scope", exitUsage, "", forget("nowhere", "bob", false))

	store.scope = ""
	run("forget in a scope that may be that of the campaign", exitUsage, "", forget(w.name, "carol", false))
	store.scope = w.name
	run("forget in the scope", exitUsage, "", forget(w.name, "carol", false))
	run("forget in all scopes but this", exitLook, "", forget("", "carol", true))
	if _, err := w.bank.HeldClaim(t.Context(), w.name, "carol"); err != nil {
		t.Errorf("a claim was released in the scope of the campaign that cannot be read: %v", err)
	}
	if err := w.bank.OpenCampaign(t.Context(), w.name); !errors.Is(err, dynamostore.ErrLayout) {
		t.Errorf("the campaign was opened beside one of its scope that may be moved: %v", err)
	}
}
