package claimpage

import (
	"bytes"
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

// Asset returns the file with a name; "" is the page itself. ok is false if there is no such file.
func (p Page) Asset(name string, s Site) (a Asset, ok bool) {
	switch name {
	case "":
		a = newAsset("text/html; charset=utf-8", p.html(s))
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

func (p Page) html(s Site) []byte {
	language := p.chooseLanguage(s.Languages)
	texts := p.texts(language)
	logo := ""
	if len(p.Logo) > 0 {
		logo = `<img class="logo" src="` + html.EscapeString(s.Campaign) + `/logo" alt="">` + "\n"
	}
	return []byte(strings.NewReplacer(
		"{{language}}", html.EscapeString(language), "{{campaign}}", html.EscapeString(s.Campaign), "{{logo}}", logo,
		"{{title}}", html.EscapeString(texts["title"]), "{{text}}", html.EscapeString(texts["text"]),
		"{{no_script}}", html.EscapeString(texts["no_script"]),
	).Replace(string(asset("page.html"))))
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

// offered returns the languages of the page.
func (p Page) offered() []string {
	if len(p.Languages) == 0 {
		return builtInLanguages
	}
	return slices.Sorted(maps.Keys(p.Languages))
}

// fallback returns English if the page has it, otherwise its first language.
func (p Page) fallback() string {
	if offered := p.offered(); !slices.Contains(offered, fallbackLanguage) {
		return offered[0]
	}
	return fallbackLanguage
}

// texts returns all texts in a language.
func (p Page) texts(language string) Texts {
	texts := builtIn(fallbackLanguage)
	maps.Copy(texts, builtIn(language))
	maps.Copy(texts, p.Languages[language])
	return texts
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
