package claimpage

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"slices"
	"strings"
)

// Site is where a page is served.
type Site struct {
	Campaign  string
	Languages string     // the header Accept-Language of the request
	Tokens    bool       // claimants have tokens; otherwise each browser is a claimant
	Challenge *Challenge // nil: none
}

// Asset is a file of a page.
type Asset struct {
	Headers map[string]string
	Body    []byte
}

// The files of a page, by their names after /c/{campaign}/. The page itself has no name.
const (
	fileStyle  = "page.css"
	fileScript = "claim.js"
	fileLogo   = "logo"
)

const htmlType = "text/html; charset=utf-8"

// Asset returns the file with a name; "" is the page itself. ok is false if there is no such file.
func (p Page) Asset(name string, s Site) (a Asset, ok bool) {
	switch name {
	case "":
		a = newAsset(htmlType, p.html(s))
		a.Headers["Content-Security-Policy"] = s.policy()
		a.Headers["Vary"] = "Accept-Language"
	case fileStyle:
		a = newAsset("text/css; charset=utf-8", append(append(asset(fileStyle), '\n'), p.Theme...))
	case fileScript:
		a = newAsset("text/javascript; charset=utf-8", p.script(s))
		a.Headers["Cross-Origin-Resource-Policy"] = "cross-origin" // other sites embed it
	case fileLogo:
		a = newAsset(imageType(p.Logo), p.Logo)
		return a, len(p.Logo) > 0
	default:
		return Asset{}, false
	}
	return a, true
}

// newAsset makes a file. Its policy is for browsers that open the file directly.
func newAsset(mediaType string, body []byte) Asset {
	return Asset{Body: body, Headers: map[string]string{
		"Content-Type":            mediaType,
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		"Referrer-Policy":         "no-referrer",
		"X-Content-Type-Options":  "nosniff",
	}}
}

// policy returns the Content-Security-Policy of the page: its own files, and the widget of the challenge.
func (s Site) policy() string {
	var script, frame, style string
	if s.Challenge != nil {
		sources := providers[s.Challenge.Provider].sources
		script, frame, style = " "+sources, "; frame-src "+sources, " "+sources
	}
	return "default-src 'none'; script-src 'self'" + script + "; style-src 'self'" + style + "; img-src 'self'" +
		"; connect-src 'self'" + script + frame + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// NoCampaign returns a page that says that there is no such campaign. It has its style inside, so that nothing else has
// to be asked for a campaign that does not exist.
func NoCampaign(languages string) Asset {
	var p Page
	language := p.chooseLanguage(languages)
	heading, text, _ := strings.Cut(p.texts(language)["no_campaign"], "\n")
	style := string(asset(fileStyle))
	hash := sha256.Sum256([]byte(style))
	a := newAsset(htmlType, framed("no_campaign.html", "<style>"+style+"</style>\n", map[string]string{
		"language": language, "title": html.EscapeString(heading), "text": html.EscapeString(text),
	}))
	a.Headers["Content-Security-Policy"] = "default-src 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(hash[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	a.Headers["Vary"] = "Accept-Language"
	return a
}

func (p Page) html(s Site) []byte {
	language := p.chooseLanguage(s.Languages)
	texts := p.texts(language)
	values := map[string]string{"logo": "", "links": links(texts)}
	for name, text := range map[string]string{
		"language": language, "campaign": s.Campaign, "title": texts["title"], "title_language": p.languageOf("title", language),
		"text": texts["text"], "text_language": p.languageOf("text", language), "no_script": texts["no_script"],
	} {
		values[name] = html.EscapeString(text)
	}
	if len(p.Logo) > 0 {
		values["logo"] = `<img class="logo" src="` + values["campaign"] + `/logo" alt="">` + "\n"
	}
	return framed("page.html", `<link rel="stylesheet" href="`+values["campaign"]+`/page.css">
<script src="`+values["campaign"]+`/claim.js" defer></script>
`, values)
}

// framed returns a whole page, with the filled file as its main part. head is the end of its head.
func framed(file, head string, values map[string]string) []byte {
	values["head"], values["main"] = head, string(fill(file, values)) // texts in them are not filled again
	return fill("frame.html", values)
}

// links returns the links out of the page: back to the shop, and to a contact.
func links(texts Texts) string {
	var all strings.Builder
	for _, name := range []string{"shop", "contact"} {
		if address := texts[name+addressSuffix]; address != "" {
			all.WriteString(`<a href="` + html.EscapeString(address) + `">` + html.EscapeString(texts[name]) + "</a>\n")
		}
	}
	if all.Len() == 0 {
		return ""
	}
	return `<p class="links">` + all.String() + "</p>\n"
}

// fill puts values into a file: {{name}} is replaced by the value of the name.
func fill(file string, values map[string]string) []byte {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "{{"+name+"}}", value)
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(asset(file))))
}

// scriptSettings are the settings that the script needs.
type scriptSettings struct {
	Campaign  string           `json:"campaign"`
	Languages map[string]Texts `json:"languages"`
	Fallback  string           `json:"fallback"`
	Token     bool             `json:"token"`
	Challenge *widget          `json:"challenge"`
}

func (p Page) script(s Site) []byte {
	settings := scriptSettings{
		Campaign: s.Campaign, Languages: map[string]Texts{}, Fallback: p.fallback(), Token: s.Tokens,
		Challenge: s.Challenge.widget(),
	}
	for _, language := range p.offered() {
		settings.Languages[language] = p.texts(language)
	}
	encoded, _ := json.Marshal(settings) // strings and booleans cannot fail
	return bytes.Replace(asset(fileScript), []byte("= SETTINGS;"), append(append([]byte("= "), encoded...), ';'), 1)
}

// offered returns the languages of the page, sorted: the built-in ones, and those that the campaign has.
func (p Page) offered() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(builtInLanguages, slices.Collect(maps.Keys(p.Languages))))))
}

// fallback returns English if the campaign has texts in English, or none at all. Otherwise it returns the campaign's
// first language.
func (p Page) fallback() string {
	if own := slices.Sorted(maps.Keys(p.Languages)); len(own) > 0 && !slices.Contains(own, fallbackLanguage) {
		return own[0]
	}
	return fallbackLanguage
}

// ofTheCampaign are the texts that no built-in text can replace. A language that lacks them takes them from the fallback.
var ofTheCampaign = []string{"title", "text", "shop" + addressSuffix, "contact" + addressSuffix}

// texts returns all texts in a language.
func (p Page) texts(language string) Texts {
	texts := builtIn(fallbackLanguage)
	maps.Copy(texts, builtIn(language))
	maps.Copy(texts, p.Languages[language])
	for _, name := range ofTheCampaign {
		if from := p.languageOf(name, language); from != language {
			texts[name] = p.Languages[from][name]
		}
	}
	return texts
}

// languageOf returns the language in which the page has a text of the campaign for visitors of a language.
func (p Page) languageOf(name, language string) string {
	fallback := p.fallback()
	if p.Languages[language][name] == "" && p.Languages[fallback][name] != "" {
		return fallback
	}
	return language
}

// chooseLanguage returns the first language of the header Accept-Language that the page has, as the script does.
// Browsers send the languages in the order of the visitor's preferences.
func (p Page) chooseLanguage(accepted string) string {
	offered := p.offered()
	for wish := range strings.SplitSeq(accepted, ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(wish), ";")
		language, _, _ := strings.Cut(strings.ToLower(tag), "-")
		if slices.Contains(offered, language) {
			return language
		}
	}
	return p.fallback()
}
