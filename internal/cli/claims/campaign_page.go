package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type campaignPage struct {
	Name     string  `arg:"" help:"The campaign."`
	Title    *string `help:"The title, in the language of --language. An empty text removes it." placeholder:"TEXT"`
	Text     *string `help:"The text below the title. Line breaks stay. An empty text removes it." placeholder:"TEXT"`
	Texts    string  `help:"A JSON object of more texts by their names. The page has English and German ones by itself." placeholder:"FILE"`
	Language string  `help:"The language of the texts: two or three letters. Default: ${default}." default:"en" placeholder:"L"`
	Theme    *string `help:"A style sheet. An empty name removes it." placeholder:"FILE"`
	Logo     *string `help:"A PNG, JPEG, WebP or GIF of at most 64 KiB. An empty name removes it." placeholder:"FILE"`
	Reset    bool    `help:"Begin with the built-in page: remove all earlier settings."`
}

func (campaignPage) Help() string {
	return `The page is in English, in German and in each language for which you have set texts. Settings that you do not
name stay as they are. When you remove a text, the built-in text comes back. The texts shop_url and contact_url of
--texts make links out of the page. Without a flag the command shows the settings. Of two commands at once, one wins.

Examples:
  oncebox campaign page spring --title "Spring sale" --text "10 % off, until the end of March."
  oncebox campaign page spring --language de --title "Frühling" --theme shop.css --logo logo.png
  oncebox campaign page spring --language fr --texts fr.json
  oncebox campaign page spring`
}

func (c campaignPage) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Name, func(b *itembank.Operator) error { return c.page(ctx, a, b) })
}

// page shows the page or changes it. It reads consistently, so it finds the changes of the command before.
func (c campaignPage) page(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	document, err := b.CurrentPageDocument(ctx, c.Name)
	if err != nil {
		return err
	}
	page, err := claimpage.Parse(document)
	if err != nil {
		return err
	}
	if c.shows() {
		return a.Print(toPageJSON(page), describePage(page))
	}
	if page, err = c.change(page); err != nil {
		return err
	}
	document, err = page.Encode()
	if err == nil {
		err = b.SetPageDocument(ctx, c.Name, document)
	}
	if err != nil {
		return err
	}
	return a.Print(toPageJSON(page), fmt.Sprintf("the page of %s is changed; running functions follow within %s",
		c.Name, itembank.DefaultCampaignCache))
}

func (c campaignPage) shows() bool {
	return c.Title == nil && c.Text == nil && c.Texts == "" && c.Theme == nil && c.Logo == nil && !c.Reset
}

// change returns the page with the values of the flags.
func (c campaignPage) change(p claimpage.Page) (claimpage.Page, error) {
	if c.Reset {
		p = claimpage.Page{}
	}
	if c.Theme != nil {
		theme, err := readIfNamed(*c.Theme, claimpage.MaxTheme)
		if err != nil {
			return p, err
		}
		p.Theme = string(theme)
	}
	if c.Logo != nil {
		logo, err := readIfNamed(*c.Logo, claimpage.MaxLogo)
		if err != nil {
			return p, err
		}
		p.Logo = logo
	}
	texts, err := c.texts()
	if err != nil {
		return p, err
	}
	p.Languages = withTexts(p.Languages, c.Language, texts)
	if err := p.Validate(); err != nil {
		return p, cli.BadUsage(fmt.Errorf("--%w; nothing was changed", err), "")
	}
	return p, nil
}

// withTexts returns the languages with the texts of one language. An empty text removes the existing text.
func withTexts(languages map[string]claimpage.Texts, language string, texts claimpage.Texts) map[string]claimpage.Texts {
	merged := claimpage.Texts{}
	maps.Copy(merged, languages[language])
	maps.Copy(merged, texts)
	maps.DeleteFunc(merged, func(_, text string) bool { return text == "" })
	changed := map[string]claimpage.Texts{}
	maps.Copy(changed, languages)
	changed[language] = merged
	if len(merged) == 0 {
		delete(changed, language)
	}
	return changed
}

// texts returns the texts of the flags.
func (c campaignPage) texts() (texts claimpage.Texts, err error) {
	if c.Texts != "" {
		if texts, err = readTexts(c.Texts); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]*string{"title": c.Title, "text": c.Text} {
		if text == nil {
			continue
		}
		if texts == nil {
			texts = claimpage.Texts{}
		}
		texts[name] = *text
	}
	return texts, nil
}

// maxTexts is larger than all texts of one language can be.
const maxTexts = 64 << 10

func readTexts(path string) (texts claimpage.Texts, err error) {
	content, err := readIfNamed(path, maxTexts)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &texts); err != nil || texts == nil {
		return nil, cli.BadUsage(
			fmt.Errorf("%s: is not a JSON object of texts", path),
			fmt.Sprintf(`Write {"button": "Get it"}. The names are %s.`, strings.Join(claimpage.TextNames(), ", ")),
		)
	}
	return texts, nil
}

// readIfNamed reads a file of a limited size. For the name "" it reads nothing.
func readIfNamed(path string, limit int) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, cli.BadUsage(cli.FileError(path, err), "")
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	switch {
	case err != nil:
		return nil, cli.FileError(path, err)
	case len(content) > limit:
		return nil, cli.BadUsage(errors.New(path+": is too large"), fmt.Sprintf("At most %d bytes are allowed.", limit))
	}
	return content, nil
}

// pageJSON is a page in results.
type pageJSON struct {
	Languages map[string]claimpage.Texts `json:"languages,omitempty"`
	Theme     string                     `json:"theme,omitempty"`
	LogoBytes int                        `json:"logo_bytes"`
}

func toPageJSON(p claimpage.Page) pageJSON {
	return pageJSON{p.Languages, p.Theme, len(p.Logo)}
}

func describePage(p claimpage.Page) string {
	return cli.Table(func(row func(...string)) {
		row("theme", fmt.Sprintf("%d bytes", len(p.Theme)))
		row("logo", fmt.Sprintf("%d bytes", len(p.Logo)))
		if len(p.Languages) == 0 {
			row("texts", "built-in, in English and German")
		}
		for _, language := range slices.Sorted(maps.Keys(p.Languages)) {
			for _, name := range slices.Sorted(maps.Keys(p.Languages[language])) {
				row(language+" "+name, p.Languages[language][name])
			}
		}
	})
}
