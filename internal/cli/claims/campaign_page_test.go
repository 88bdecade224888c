package claims

import (
	"context"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// stalePages returns pages that are a second old, unless they are read consistently.
type stalePages struct{ *memstore.Items }

func (s stalePages) PageDocument(ctx context.Context, campaign string, how engine.Consistency) ([]byte, error) {
	if how == engine.Eventual {
		return nil, nil
	}
	return s.Items.PageDocument(ctx, campaign, how)
}

// TestPageCommandsInARow checks that the second command keeps the changes of the first.
func TestPageCommandsInARow(t *testing.T) {
	t.Parallel()
	w := newFixture(t, stalePages{memstore.NewItems()}, itembank.Settings{})
	title, text := "Spring", "Until March."
	w.do(campaignPage{Name: w.name, Language: "en", Title: &title}.page)
	w.do(campaignPage{Name: w.name, Language: "en", Text: &text}.page)
	w.do(campaignPage{Name: w.name}.page)
	for _, want := range []string{title, text} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("want %q, got\n%s", want, w.out.String())
		}
	}
}
