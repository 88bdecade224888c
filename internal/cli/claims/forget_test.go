package claims

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

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
	run("list", cli.ExitLook, w.name, campaignList{}.list)
	run("look-up", cli.ExitLook, theItem+" in "+w.name, lookupCommand{Item: theItem}.lookUp)
	run("forget", cli.ExitLook, "released 1 claim", forget(w.name, "ann", false))
	run("forget in all scopes", cli.ExitLook, "released 1 claim", forget("", "bob", true))
	run("forget in an unknown scope", cli.ExitUsage, "", forget("nowhere", "bob", false))

	store.scope = ""
	run("forget in a scope that may be that of the campaign", cli.ExitUsage, "", forget(w.name, "carol", false))
	store.scope = w.name
	run("forget in the scope", cli.ExitUsage, "", forget(w.name, "carol", false))
	run("forget in all scopes but this", cli.ExitLook, "", forget("", "carol", true))
	if _, err := w.bank.HeldClaim(t.Context(), w.name, "carol"); err != nil {
		t.Errorf("a claim was released in the scope of the campaign that cannot be read: %v", err)
	}
	if err := w.bank.OpenCampaign(t.Context(), w.name); !errors.Is(err, dynamostore.ErrLayout) {
		t.Errorf("the campaign was opened beside one of its scope that may be moved: %v", err)
	}
}
