package main

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

func TestCampaignPage(t *testing.T) {
	const png = "\x89PNG\r\n\x1a\n"
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring")
		s.run(exitDone, "campaign", "page", "spring").saying(s.T, "built-in, in English and German")
		page := func(want pageJSON, flags ...string) {
			s.Helper()
			var changed, stored pageJSON
			s.json(&changed, append([]string{"campaign", "page", "spring"}, flags...)...)
			if s.json(&stored, "campaign", "page", "spring"); !reflect.DeepEqual(changed, want) || !reflect.DeepEqual(stored, want) {
				s.Errorf("%v: want %+v, got %+v, stored %+v", flags, want, changed, stored)
			}
		}
		type languages = map[string]claimpage.Texts
		texts, theme, logo := s.file("texts.json", `{"button":"Her damit"}`), s.file("theme.css", "h1 { color: red }"), s.file("logo.png", png)

		english := claimpage.Texts{"title": "Sale & more", "text": "10 %.\nUntil May."}
		page(pageJSON{Languages: languages{"en": english}}, "--title", english["title"], "--text", english["text"])
		german := claimpage.Texts{"title": "Frühling", "button": "Her damit"}
		want := pageJSON{languages{"en": english, "de": german}, "h1 { color: red }", len(png)}
		page(want, "--language", "de", "--title", "Frühling", "--texts", texts, "--theme", theme, "--logo", logo)
		s.run(exitDone, "campaign", "page", "spring").saying(s.T, "17 bytes", "de title", "Frühling", "en text")

		s.file("url.css", "h1 { background: url(https://x.example/a.png) }")
		s.file("import.css", `@IMPORT "x"`)
		s.file("large.css", string(make([]byte, claimpage.MaxTheme+1)))
		s.file("more.json", `{"titel":"x"}`)
		s.file("list.json", `["x"]`)
		for flag, files := range map[string]map[string]string{
			"--theme": {"url.css": `--theme: it contains "url("`, "import.css": `--theme: it contains "@import"`,
				"large.css": "At most 32768 bytes", "none.css": "none.css"},
			"--logo":     {"theme.css": "--logo: it is not a PNG, JPEG, WebP or GIF"},
			"--texts":    {"more.json": `there is no text "titel"; the texts are again, button`, "list.json": "is not a JSON object of texts"},
			"--language": {"de-AT": `"de-AT" is not one; write two or three letters`},
		} {
			for file, says := range files {
				s.run(exitUsage, "campaign", "page", "spring", "--title", "wrong", flag, file).saying(s.T, says)
			}
		}
		page(want) // nothing was changed

		page(pageJSON{languages{"de": german, "en": {"text": english["text"]}}, "", len(png)}, "--theme", "", "--title", "")
		page(pageJSON{languages{"de": german}, "", 0}, "--logo", "", "--text", "")
		page(pageJSON{Languages: languages{"fr": {"title": "Le code"}}}, "--reset", "--language", "fr", "--title", "Le code")
		page(pageJSON{}, "--reset")
		s.run(exitNo, "campaign", "page", "sprnig", "--title", "x").saying(s.T, "Did you mean spring?")
	})
}

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

// TestPageOfDeletedCampaign checks that the page is deleted with its campaign.
func TestPageOfDeletedCampaign(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring")
		s.run(exitDone, "campaign", "page", "spring", "--title", "Old")
		s.run(exitDone, "campaign", "delete", "spring")
		for _, flags := range [][]string{nil, {"--title", "New"}} {
			s.run(exitNo, append([]string{"campaign", "page", "spring"}, flags...)...).saying(s.T, "no such campaign")
		}
	})
}
