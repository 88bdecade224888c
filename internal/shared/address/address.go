// Package address reads the addresses of ledgers and sinks: a scheme, the name of a place, and options, as in
// scheme:name?option=value&option=value. The package of the ledger or sink checks the name, and reads the options. An
// address never contains a secret: it names the file or the ARN of one.
package address

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Address is an address that was taken apart. Its Parser reads the options by their names, and collects the problems.
type Address struct {
	Scheme string // what is before the first colon
	Name   string // what is between the scheme and the options, unchanged; "": nothing
	*settings.Parser
}

// Scheme returns the scheme of an address.
func Scheme(text string) string {
	if end := strings.IndexAny(text, ":?"); end >= 0 {
		return text[:end]
	}
	return text
}

// Parse takes an address apart. In a value, %XX is the byte XX; % and & must be written so. Done has the problems.
func Parse(text string) Address {
	place, options, hasOptions := strings.Cut(text, "?")
	scheme := Scheme(place)
	values, wrong := map[string]string{}, map[string]string{}
	for option := range strings.SplitSeq(options, "&") {
		name, escaped, isOption := strings.Cut(option, "=")
		value, err := url.PathUnescape(escaped)
		switch {
		case !hasOptions:
		case !isOption || !isWord(name): // it may be a part of a secret, and is not repeated
			wrong[""] = "has an option that is not OPTION=VALUE"
		case values[name] != "":
			wrong[name] = "is given twice"
		case value == "" || err != nil:
			wrong[name] = "has no value, or a % without two hexadecimal digits behind it"
		default:
			values[name] = value
		}
	}
	a := Address{scheme, strings.TrimPrefix(place[len(scheme):], ":"), settings.NewParserOf(values)}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		a.Wrong(name, wrong[name], "?OPTION=VALUE&OPTION=VALUE")
	}
	return a
}

// isWord reports whether a text may be the name of an option.
func isWord(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// WrongPlace records a problem with the scheme or the name.
func (a Address) WrongPlace(what, allowed string) { a.Wrong("", what, allowed) }

// Done returns a *settings.Error with the problems in the address, or nil. known are all options that this scheme has.
func (a Address) Done(known ...string) error {
	a.RefuseOthers(known)
	err := a.Err()
	wrong, ok := errors.AsType[*settings.Error](err)
	if !ok {
		return err
	}
	for i, p := range wrong.Problems {
		p.Name, p.Option = "", p.Name
		p.Allowed = cmp.Or(p.Allowed, strings.Join(known, ", "), "no options")
		wrong.Problems[i] = p
	}
	return wrong
}

// With returns an address with one more option.
func With(text, option, value string) string {
	separator := "?"
	if strings.Contains(text, "?") {
		separator = "&"
	}
	return text + separator + option + "=" + strings.NewReplacer("%", "%25", "&", "%26").Replace(value)
}
