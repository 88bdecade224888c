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

func badClaimant(detail string) error {
	return &itembank.InvalidError{Field: "claimant", Detail: detail}
}

// namedInBody returns the claimant that the body names, or "" if it names none.
// Errors: errTooLarge, errNotJSON, *itembank.InvalidError.
func namedInBody(e event) (string, error) {
	body, err := decodeBody(e)
	switch {
	case err != nil:
		return "", err
	case len(body) > maxBody:
		return "", errTooLarge
	case len(body) == 0:
		return "", nil
	case !e.isJSON():
		return "", errNotJSON
	}
	return claimantIn(body)
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

// claimantIn returns the body's member "claimant", or "" if it has none, and ignores other members. It is stricter than
// json.Unmarshal, which takes invalid UTF-8, a name in other case, and the last of several members of one name.
func claimantIn(body []byte) (string, error) {
	if !utf8.Valid(body) {
		return "", badDocument("is not valid UTF-8")
	}
	if !json.Valid(body) {
		return "", badDocument("is not one valid JSON value")
	}
	text := jsonscan.Text(body)
	if text.At(text.Space(0)) != '{' {
		return "", badDocument("is not a JSON object")
	}
	var value jsonscan.Text
	for name, v := range members(text) {
		switch {
		case unquote(name) != "claimant":
		case value != nil:
			return "", badClaimant("occurs more than once")
		default:
			value = v
		}
	}
	switch {
	case value == nil:
		return "", nil
	case value.At(0) != '"':
		return "", badClaimant("is not a string")
	}
	claimant := unquote(value)
	return claimant, validateClaimant(claimant)
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
