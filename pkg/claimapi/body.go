package claimapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
	"github.com/oncebox/oncebox/internal/shared/suggest"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// maxBody is the largest body of a request in bytes, after base64 is decoded. A claim of engine.MaxClaimItems items
// of the largest size has 10 KiB. Solutions of hCaptcha can have more than 4,000 characters.
const maxBody = 16 << 10

var (
	errTooLarge = errors.New("claimapi: body too large")
	errNotJSON  = errors.New("claimapi: body is not application/json")
)

// badDocument returns an error about the whole body.
func badDocument(detail string) error { return &itembank.InvalidError{Detail: detail} }

// badMember returns an error about a member of the body, or about a parameter.
func badMember(name, detail string) error {
	return &itembank.InvalidError{Field: name, Detail: detail}
}

// body is a valid JSON object. It is empty if the request has no body.
type body jsonscan.Text

// bodyOf reads the body of a request, which may have these members. It is stricter than json.Unmarshal, which accepts
// invalid UTF-8 and ignores misspelt members. Errors: errTooLarge, errNotJSON, *itembank.InvalidError.
func bodyOf(e event, members ...string) (body, error) {
	data, err := decodeBody(e)
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxBody:
		return nil, errTooLarge
	case len(data) == 0:
		return nil, nil
	case !e.isJSON():
		return nil, errNotJSON
	case !utf8.Valid(data):
		return nil, badDocument("is not valid UTF-8")
	case !json.Valid(data):
		return nil, badDocument("is not one valid JSON value")
	}
	object := jsonscan.Text(data)
	if object.At(object.Space(0)) != '{' {
		return nil, badDocument("is not a JSON object")
	}
	return body(object), body(object).check(members)
}

// check returns an error if the body has other members. A client that misspells items would get any seat.
func (b body) check(members []string) error {
	for quoted := range b.members() {
		name := unquote(quoted)
		likely := suggest.Closest(name, members)
		switch {
		case slices.Contains(members, name):
		case name == "":
			return badDocument("has a member without a name")
		case likely != "":
			return badMember(name, fmt.Sprintf("is not a member of this body; did you mean %q?", likely))
		default:
			return badMember(name, "is not a member of this body; it may have "+strings.Join(members, ", "))
		}
	}
	return nil
}

func decodeBody(e event) ([]byte, error) {
	if !e.IsBase64Encoded {
		return []byte(e.Body), nil
	}
	data, err := base64.StdEncoding.DecodeString(e.Body)
	if err != nil {
		return nil, badDocument("is not valid base64")
	}
	return data, nil
}

// claimant returns the claimant in the body, or "" if it has none. The error is an *itembank.InvalidError.
func (b body) claimant() (string, error) {
	claimant, found, err := b.text(claimantName)
	if err != nil || !found {
		return "", err
	}
	if err := ValidateClaimant(claimant); err != nil {
		return "", err
	}
	return claimant, fitsPath(claimant)
}

// fitsPath returns an error if no path can name a claimant. API Gateway decodes a path and cuts it at a ?: the request
// would be about the claimant before it. (Seen in live events: middleapi/standard-server pull request 93. A # stays.)
func fitsPath(claimant string) error {
	switch {
	case strings.Contains(claimant, "?"):
		return badMember(claimantName, "has a ?, at which the path of the claim would be cut; use another text for this claimant")
	case strings.HasSuffix(claimant, confirmationPart):
		return badMember(claimantName, "ends with "+confirmationPart+", like the path of a confirmation; use another text for this "+
			"claimant")
	case strings.HasSuffix(claimant, prolongationPart):
		return badMember(claimantName, "ends with "+prolongationPart+", like the path of a prolongation; use another text for this "+
			"claimant")
	case strings.HasSuffix(claimant, replacementPart):
		return badMember(claimantName, "ends with "+replacementPart+", like the path of a replacement; use another text for this "+
			"claimant")
	}
	return nil
}

// slot returns the slot in the body, or 1 if it has none. The error is an *itembank.InvalidError.
func (b body) slot() (int, error) {
	value, err := b.value(slotName)
	if err != nil || value == nil {
		return 1, err
	}
	var slot float64 // clients without integers send 2.0 for slot 2
	if err := json.Unmarshal(value, &slot); err != nil || slot < 1 || slot > math.MaxInt32 || slot != math.Trunc(slot) {
		return 0, errSlot
	}
	return int(slot), nil
}

// chosen returns the items in the body: its member item, or its list items. The error is an *itembank.InvalidError.
func (b body) chosen() ([]string, error) {
	item, named, err := b.text(itemName)
	if err != nil {
		return nil, err
	}
	list, err := b.value(itemsName)
	switch {
	case err != nil:
		return nil, err
	case named && list != nil:
		return nil, badMember(itemsName, "cannot be used with item")
	case named:
		return []string{item}, itembank.ValidateItem(item)
	case list == nil:
		return nil, nil
	}
	var items []string
	if err := json.Unmarshal(list, &items); err != nil || len(items) == 0 || slices.Contains(items, "") {
		return nil, badMember(itemsName, "is not a list of texts, at least one")
	}
	return items, nil
}

// claimID returns the claim id in the body. The error is an *itembank.InvalidError.
func (b body) claimID() (string, error) {
	id, _, err := b.text(claimIDName)
	if err == nil && id == "" {
		err = badMember(claimIDName, "is missing")
	}
	return id, err
}

// endsAt returns the end of a claim in the body. The error is an *itembank.InvalidError.
func (b body) endsAt() (time.Time, error) {
	text, found, err := b.text(endsAtName)
	switch {
	case err != nil:
		return time.Time{}, err
	case !found:
		return time.Time{}, badMember(endsAtName, "is missing; it is the ends_at of the claim")
	}
	endsAt, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, badMember(endsAtName, "is not a time as in the claim, such as 2027-03-01T09:15:00.000Z")
	}
	return endsAt, nil
}

// text returns the member with a name, and whether the body has it. The error is an *itembank.InvalidError.
func (b body) text(name string) (text string, found bool, err error) {
	value, err := b.value(name)
	switch {
	case err != nil || value == nil:
		return "", false, err
	case value.At(0) != '"':
		return "", false, badMember(name, "is not a string")
	}
	return unquote(value), true, nil
}

// value returns the member with a name, or nil if the body has none. It is stricter than json.Unmarshal, which accepts a name in another case, and the last of several members of one name.
func (b body) value(name string) (value jsonscan.Text, err error) {
	for n, v := range b.members() {
		switch {
		case unquote(n) != name:
		case value != nil:
			return nil, badMember(name, "occurs more than once")
		default:
			value = v
		}
	}
	return value, nil
}

// members returns the names, with their quotes, and the values.
func (b body) members() iter.Seq2[jsonscan.Text, jsonscan.Text] {
	return func(yield func(name, value jsonscan.Text) bool) {
		object := jsonscan.Text(b)
		at := object.Space(object.Space(0) + len("{"))
		for object.At(at) == '"' {
			colon, _ := object.String(at)
			value := object.Space(object.Space(colon) + len(":"))
			end := object.Skip(value, maxBody) // nesting is never deeper than the body is long
			if !yield(object[at:colon], object[value:end]) {
				return
			}
			at = object.Space(object.Space(end) + len(","))
		}
	}
}

// Members of bodies. slotName and claimIDName are also parameters of queries.
const (
	claimantName  = "claimant"
	itemName      = "item"
	itemsName     = "items"
	challengeName = "challenge"
	endsAtName    = "ends_at"
)

// unquote reads a valid JSON string. encoding/json reads strings with escapes, which are rare.
func unquote(quoted jsonscan.Text) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // cannot fail, because the text is valid
	return text
}
