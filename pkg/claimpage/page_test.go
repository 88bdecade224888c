package claimpage

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const png = "\x89PNG\r\n\x1a\n"

// TestBuiltInTexts: each built-in language has all texts, and only texts that the page or the script shows.
func TestBuiltInTexts(t *testing.T) {
	t.Parallel()
	names := TextNames()
	if len(names) == 0 {
		t.Fatal("there are no texts")
	}
	for _, language := range builtInLanguages {
		if got := slices.Sorted(maps.Keys(builtIn(language))); !slices.Equal(got, names) {
			t.Errorf("%s has %v, want %v", language, got, names)
		}
	}
	source, err := os.ReadFile("asset.go") // it makes the links, and the page of an unknown campaign
	if err != nil {
		t.Fatal(err)
	}
	shown := string(asset(fileScript)) + string(asset("page.html")) + string(source)
	for _, name := range names {
		if !strings.Contains(shown, strings.TrimSuffix(name, addressSuffix)) {
			t.Errorf("nothing shows the text %q", name)
		}
	}
}

// TestEscaped: texts with markup are texts, in the page and in the script.
func TestEscaped(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script>&{{title}}`
	p := Page{Languages: map[string]Texts{"fr": {"title": evil, "text": evil, "no_script": evil, "button": evil}}, Logo: []byte(png)}
	page, _ := p.Asset("", Site{Campaign: "spring"})
	if strings.Contains(string(page.Body), "<script>") {
		t.Errorf("markup in the page:\n%s", page.Body)
	}
	if !strings.Contains(string(page.Body), `<img class="logo" src="spring/logo" alt="">`) {
		t.Errorf("no logo:\n%s", page.Body)
	}
	script, _ := p.Asset(fileScript, Site{Campaign: "spring"})
	if strings.Contains(string(script.Body), "<script>alert") || strings.Contains(string(script.Body), "SETTINGS;") {
		t.Errorf("markup or no settings in the script:\n%s", script.Body)
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	own := Page{Languages: map[string]Texts{"fr": {"title": "Le code"}}}
	english := Page{Languages: map[string]Texts{"en": {"title": "Sale", "text": "10 %", "shop_url": "https://shop.example"}}}
	for _, c := range []struct {
		page     Page
		accepted string
		want     string
	}{
		{Page{}, "", "en"},
		{Page{}, "fr-CH, fr;q=0.9, de-AT;q=0.8, en;q=0.7", "de"},
		{own, "es", "fr"},
		{own, "de", "de"},
		{own, "es, FR-ca", "fr"},
		{english, "de", "de"},
		{english, "es", "en"},
	} {
		if got := c.page.chooseLanguage(c.accepted); got != c.want {
			t.Errorf("%q: %s, want %s", c.accepted, got, c.want)
		}
	}
	german := english.texts("de")
	if german["title"] != "Sale" || german["text"] != "10 %" || german["shop_url"] == "" || german["button"] != "Code anzeigen" {
		t.Errorf("the German page has %v", german)
	}
	page, _ := english.Asset("", Site{Campaign: "spring", Languages: "de"})
	for _, want := range []string{`<html lang="de">`, `<h1 lang="en">Sale</h1>`, `<a href="https://shop.example">Zurück zum Shop</a>`} {
		if !strings.Contains(string(page.Body), want) {
			t.Errorf("no %s in\n%s", want, page.Body)
		}
	}
	if title, button := own.texts("fr")["title"], own.texts("fr")["button"]; title != "Le code" || button != "Get my code" {
		t.Errorf("title %q, button %q", title, button)
	}
}

// TestNoCampaign: the policy lets the page's own style apply, and nothing else.
func TestNoCampaign(t *testing.T) {
	t.Parallel()
	page := NoCampaign("de")
	style, _, _ := strings.Cut(strings.SplitAfterN(string(page.Body), "<style>", 2)[1], "</style>")
	hash := sha256.Sum256([]byte(style))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; "
	if got := page.Headers["Content-Security-Policy"]; !strings.HasPrefix(got, want) || !strings.Contains(style, "main {") {
		t.Errorf("the policy is %s, want %s", got, want)
	}
	if !strings.Contains(string(page.Body), "<h1>Diese Aktion gibt es nicht</h1>") || strings.Contains(string(page.Body), "{{") {
		t.Errorf("the page is\n%s", page.Body)
	}
}

func TestStored(t *testing.T) {
	t.Parallel()
	p := Page{Languages: map[string]Texts{"de": {"title": "Ä"}}, Theme: ":root { --oncebox-accent: red }", Logo: []byte(png)}
	document, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(document)
	if err != nil || got.Languages["de"]["title"] != "Ä" || got.Theme != p.Theme || string(got.Logo) != png {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Parse([]byte("{")); err == nil {
		t.Error("a cut document is read")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Page{
		"not one; write":                     {Languages: map[string]Texts{"de-AT": {}}},
		"no text":                            {Languages: map[string]Texts{"de": {"titel": "x"}}},
		"1001 bytes":                         {Languages: map[string]Texts{"de": {"title": strings.Repeat("x", MaxText+1)}}},
		"not valid UTF-8":                    {Theme: "\xff"},
		`"javascript:x"`:                     {Languages: map[string]Texts{"de": {"shop_url": "javascript:x"}}},
		`"shop.example"`:                     {Languages: map[string]Texts{"de": {"shop_url": "shop.example"}}},
		`"mailto:a@b"; writ`:                 {Languages: map[string]Texts{"de": {"shop_url": "mailto:a@b"}}},
		"https: or http: or mailto: or tel:": {Languages: map[string]Texts{"de": {"contact_url": "help@shop.example"}}},
		"url(":                               {Theme: "main { background: URL(https://x.example/a.png) }"},
		"@import":                            {Theme: "@import 'x'"},
		"@font-face":                         {Theme: "@font-face { }"},
		"image-set(":                         {Theme: `main { background: image-set("a.png" 1x) }`},
		`"\\"`:                               {Theme: `main { background: u\72l(x) }`},
		"32768 are allowed":                  {Theme: strings.Repeat(" ", MaxTheme+1)},
		"PNG, JPEG":                          {Logo: []byte("<svg>")},
		"65536 are allowed":                  {Logo: []byte(png + strings.Repeat(" ", MaxLogo))},
		"at most 40 are all":                 {Languages: manyLanguages()},
	} {
		if _, err := p.Encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func manyLanguages() map[string]Texts {
	many := map[string]Texts{}
	for i := range 2 * 26 {
		many[string([]byte{byte('a' + i/26), byte('a' + i%26)})] = nil
	}
	return many
}

func TestLogoTypes(t *testing.T) {
	t.Parallel()
	for logo, want := range map[string]string{
		png: "image/png", "\xff\xd8\xff\xe0": "image/jpeg", "GIF89a": "image/gif", "RIFF\x00\x00\x00\x00WEBPVP8": "image/webp",
		"RIFF": "", "": "",
	} {
		if got := imageType([]byte(logo)); got != want {
			t.Errorf("%q is %q, want %q", logo, got, want)
		}
	}
}

// TestPolicy: the page loads from its own site only, and from the provider of its challenge if it has one.
func TestPolicy(t *testing.T) {
	t.Parallel()
	const alone = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if got := (Site{}).policy(); got != alone {
		t.Errorf("the policy is %s", got)
	}
	got := Site{Challenge: &Challenge{Turnstile, "key"}}.policy()
	for directive := range strings.SplitSeq(got, "; ") {
		name, sources, _ := strings.Cut(directive, " ")
		foreign := strings.Contains(sources, "https:")
		if allowed := slices.Contains([]string{"script-src", "frame-src", "style-src", "connect-src"}, name); foreign != allowed {
			t.Errorf("%s", directive)
		}
		if strings.Contains(sources, "unsafe") || strings.Contains(sources, " *") {
			t.Errorf("%s is not strict", directive)
		}
	}
}
