package claimapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

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
func namedInBody(e events.APIGatewayV2HTTPRequest) (string, error) {
	body, err := decodeBody(e)
	switch {
	case err != nil:
		return "", err
	case len(body) > maxBody:
		return "", errTooLarge
	case len(body) == 0:
		return "", nil
	case !isJSON(e.Headers):
		return "", errNotJSON
	}
	return claimantIn(body)
}

func decodeBody(e events.APIGatewayV2HTTPRequest) ([]byte, error) {
	if !e.IsBase64Encoded {
		return []byte(e.Body), nil
	}
	body, err := base64.StdEncoding.DecodeString(e.Body)
	if err != nil {
		return nil, badDocument("is not valid base64")
	}
	return body, nil
}

// isJSON reports whether the content type is JSON. The header's name may be in upper or lower case.
func isJSON(headers map[string]string) bool {
	for name, value := range headers {
		if strings.EqualFold(name, "content-type") {
			mediaType, _, _ := strings.Cut(value, ";")
			return strings.EqualFold(strings.TrimSpace(mediaType), "application/json")
		}
	}
	return false
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
	values, err := membersNamed(body, "claimant")
	switch {
	case err != nil:
		return "", err
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", badClaimant("occurs more than once")
	}
	return claimantText(values[0])
}

// membersNamed returns the values of all members of one name in a JSON object.
func membersNamed(object []byte, name string) (values []json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, badDocument("is not a JSON object")
	}
	for d.More() {
		var value json.RawMessage
		key, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return nil, badDocument("is not valid JSON")
		}
		if key == name {
			values = append(values, value)
		}
	}
	return values, nil
}

func claimantText(value json.RawMessage) (string, error) {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		return "", badClaimant("is not a string")
	}
	return *text, validateClaimant(*text)
}
