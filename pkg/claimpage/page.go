package claimpage

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// The largest sizes, in bytes. A row of DynamoDB has at most 400 KB. Each 4 KB that are read cost half a unit.
const (
	MaxText  = 1000
	MaxTheme = 32 << 10
	MaxLogo  = 64 << 10

	maxLanguages = 40
)

// Texts are texts of a page in one language, by name. For a missing name the built-in text in that language is used,
// or the English one if there is none. The title, the text and the addresses come from another language of the campaign
// instead, if it has them: English, or else the first one. The first line of the text of a state is its heading.
type Texts map[string]string

// Page has the settings of one campaign's page. The zero value is the built-in page.
type Page struct {
	// Languages has texts by language, such as de. The page is in these languages, in English and in German.
	Languages map[string]Texts `json:"languages,omitempty"`
	Theme     string           `json:"theme,omitempty"` // a style sheet
	Logo      []byte           `json:"logo,omitempty"`  // a PNG, JPEG, WebP or GIF
}

//go:embed assets
var assets embed.FS

// fallbackLanguage is for visitors whose languages the page does not have.
const fallbackLanguage = "en"

var builtInLanguages = []string{"de", fallbackLanguage}

// builtIn returns the built-in texts of a language, or nil if there are none.
func builtIn(language string) (texts Texts) {
	if slices.Contains(builtInLanguages, language) {
		_ = json.Unmarshal(asset(language+".json"), &texts) // cannot fail: a test reads it
	}
	return texts
}

// asset returns a file that is part of the program.
func asset(name string) []byte {
	content, _ := assets.ReadFile("assets/" + name) // cannot fail: a test reads each file
	return content
}

// TextNames returns the names of all texts, sorted.
func TextNames() []string { return slices.Sorted(maps.Keys(builtIn(fallbackLanguage))) }

// Parse reads a page that Encode has written.
func Parse(document []byte) (Page, error) {
	var p Page
	if len(document) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(document, &p); err != nil {
		return Page{}, fmt.Errorf("claimpage: the stored page cannot be read: %w", err)
	}
	return p, nil
}

// Encode writes a page for the store. The error says what is wrong with the page.
func (p Page) Encode() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// Validate returns an error if a page is wrong. The error begins with the part: language, theme or logo.
func (p Page) Validate() error {
	if len(p.Languages) > maxLanguages {
		return fmt.Errorf("language: there are %d; at most %d are allowed", len(p.Languages), maxLanguages)
	}
	for _, language := range slices.Sorted(maps.Keys(p.Languages)) {
		if !isLanguage(language) {
			return fmt.Errorf("language: %q is not one; write two or three letters, as in de", language)
		}
		if err := p.Languages[language].validate(); err != nil {
			return fmt.Errorf("language %s: %w", language, err)
		}
	}
	if err := validateTheme(p.Theme); err != nil {
		return fmt.Errorf("theme: %w", err)
	}
	if err := validateLogo(p.Logo); err != nil {
		return fmt.Errorf("logo: %w", err)
	}
	return nil
}

// isLanguage reports whether a text is the first part of a language tag: two or three letters.
func isLanguage(tag string) bool {
	return (len(tag) == 2 || len(tag) == 3) && strings.Trim(tag, "abcdefghijklmnopqrstuvwxyz") == ""
}

func (t Texts) validate() error {
	names := TextNames()
	for _, name := range slices.Sorted(maps.Keys(t)) {
		switch text := t[name]; {
		case !slices.Contains(names, name):
			return fmt.Errorf("there is no text %q; the texts are %s", name, strings.Join(names, ", "))
		case len(text) > MaxText:
			return fmt.Errorf("the text %q has %d bytes; at most %d are allowed", name, len(text), MaxText)
		case !utf8.ValidString(text):
			return fmt.Errorf("the text %q is not valid UTF-8", name)
		case strings.HasSuffix(name, addressSuffix):
			if err := validateAddress(name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// addressSuffix ends the names of texts that are addresses.
const addressSuffix = "_url"

// schemes are how addresses begin. A contact may also be an address to write to or to call.
var schemes = map[string][]string{
	"shop" + addressSuffix:    {"https:", "http:"},
	"contact" + addressSuffix: {"https:", "http:", "mailto:", "tel:"},
}

func validateAddress(name, text string) error {
	address, err := url.Parse(text)
	if text == "" || err == nil && slices.Contains(schemes[name], address.Scheme+":") && address.Host+address.Opaque != "" {
		return nil
	}
	return fmt.Errorf("the text %q is %q; write an address that begins with %s", name, text, strings.Join(schemes[name], " or "))
}

// loads are the words with which a style sheet loads other files, and the backslash, which can hide them. The
// Content-Security-Policy forbids such files anyway. With this list the operator learns it when the theme is stored.
var loads = []string{"@import", "@font-face", "url(", "src(", "image(", "image-set(", "\\"}

func validateTheme(theme string) error {
	if len(theme) > MaxTheme {
		return fmt.Errorf("it has %d bytes; at most %d are allowed", len(theme), MaxTheme)
	}
	if !utf8.ValidString(theme) {
		return errors.New("it is not valid UTF-8")
	}
	lower := strings.ToLower(theme)
	for _, load := range loads {
		if strings.Contains(lower, load) {
			return fmt.Errorf("it contains %q; a theme loads no other files, and has no backslashes", load)
		}
	}
	return nil
}

// imageTypes are the types of logos by their first bytes. SVG is not allowed, because it can contain scripts.
var imageTypes = []struct{ begin, mediaType string }{
	{"\x89PNG\r\n\x1a\n", "image/png"},
	{"\xff\xd8\xff", "image/jpeg"},
	{"GIF8", "image/gif"},
}

// imageType returns the media type of a logo, or "" if it has no allowed type.
func imageType(logo []byte) string {
	for _, t := range imageTypes {
		if bytes.HasPrefix(logo, []byte(t.begin)) {
			return t.mediaType
		}
	}
	const riff, webp, end = "RIFF", "WEBP", 12 // the four bytes between RIFF and WEBP are a length
	if len(logo) > end && string(logo[:len(riff)]) == riff && string(logo[end-len(webp):end]) == webp {
		return "image/webp"
	}
	return ""
}

func validateLogo(logo []byte) error {
	switch {
	case len(logo) > MaxLogo:
		return fmt.Errorf("it has %d bytes; at most %d are allowed", len(logo), MaxLogo)
	case len(logo) > 0 && imageType(logo) == "":
		return errors.New("it is not a PNG, JPEG, WebP or GIF")
	}
	return nil
}
