package claimapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/jsonscan"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// maxBody is the largest body of a request in bytes, after base64 is decoded.
const maxBody = 4 << 10

var (
	errTooLarge = errors.New("claimapi: body too large")
	errNotJSON  = errors.New("claimapi: body is not application/json")
)

// badDocument is an error about the whole body.
func badDocument(detail string) error { return &itembank.InvalidError{Detail: detail} }

// badMember is an error about a member of the body, or about a parameter.
func badMember(name, detail string) error {
	return &itembank.InvalidError{Field: name, Detail: detail}
}

// namedInBody returns the claimant that the body names, or "" if it names none. Errors: those of textInBody.
func namedInBody(e event) (string, error) {
	claimant, found, err := textInBody(e, "claimant")
	if err != nil || !found {
		return "", err
	}
	return claimant, validateClaimant(claimant)
}

// textInBody returns the member of a name, and whether the body has it.
// Errors: errTooLarge, errNotJSON, *itembank.InvalidError.
func textInBody(e event, name string) (text string, found bool, err error) {
	body, err := decodeBody(e)
	switch {
	case err != nil:
		return "", false, err
	case len(body) > maxBody:
		return "", false, errTooLarge
	case len(body) == 0:
		return "", false, nil
	case !e.isJSON():
		return "", false, errNotJSON
	}
	return textIn(body, name)
}

func decodeBody(e event) ([]byte, error) {
	if !e.IsBase64Encoded {
		return []byte(e.Body), nil
	}
	body, err := base64.StdEncoding.DecodeString(e.Body)
	if err != nil {
		return nil, badDocument("is not valid base64")
	}
	return body, nil
}

// textIn returns the body's member of a name, and whether there is one. It ignores other members. It is stricter than
// json.Unmarshal, which takes invalid UTF-8, a name in other case, and the last of several members of one name.
func textIn(body []byte, name string) (text string, found bool, err error) {
	if !utf8.Valid(body) {
		return "", false, badDocument("is not valid UTF-8")
	}
	if !json.Valid(body) {
		return "", false, badDocument("is not one valid JSON value")
	}
	object := jsonscan.Text(body)
	if object.At(object.Space(0)) != '{' {
		return "", false, badDocument("is not a JSON object")
	}
	var value jsonscan.Text
	for n, v := range members(object) {
		switch {
		case unquote(n) != name:
		case value != nil:
			return "", false, badMember(name, "occurs more than once")
		default:
			value = v
		}
	}
	switch {
	case value == nil:
		return "", false, nil
	case value.At(0) != '"':
		return "", false, badMember(name, "is not a string")
	}
	return unquote(value), true, nil
}

// members returns the names, with their quotes, and the values of a valid JSON object.
func members(object jsonscan.Text) iter.Seq2[jsonscan.Text, jsonscan.Text] {
	return func(yield func(name, value jsonscan.Text) bool) {
		at := object.Space(object.Space(0) + len("{"))
		for object.At(at) == '"' {
			colon, _ := object.String(at)
			value := object.Space(object.Space(colon) + len(":"))
			end := object.Skip(value, maxBody) // no deeper than it is long
			if !yield(object[at:colon], object[value:end]) {
				return
			}
			at = object.Space(object.Space(end) + len(","))
		}
	}
}

// unquote reads a valid JSON string. Escapes, which are rare, go to encoding/json.
func unquote(quoted jsonscan.Text) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}
