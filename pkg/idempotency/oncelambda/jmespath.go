package oncelambda

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/jmespath-community/go-jmespath/pkg/api"
	"github.com/jmespath-community/go-jmespath/pkg/functions"
	"github.com/jmespath-community/go-jmespath/pkg/parsing"

	"github.com/oncebox/oncebox/pkg/idempotency"
)

// JMESPath returns a Selector that searches the JSON of an event. The expression can use the functions of Powertools:
//
//	powertools_json(text)         the JSON value in a text
//	powertools_base64(text)       the text in base64
//	powertools_base64_gzip(text)  the text in gzip in base64; up to 10 MB
//
// The JSON of an event has what its Go type has: in json.RawMessage, all that was sent.
//
// What is found becomes a JSON text with sorted members: "order-1" with its quotes, 17, ["user-1","order-1"]. Numbers
// keep all their digits. A text over 1,024 bytes, which is too long for a key, becomes "sha256:" with its hash.
//
// The event does not have what the expression looks for if the result is null, an empty text, or a list or an object
// with nothing but these, at any depth, as [user, order] of an event without both: an event type of Go has an empty
// text for what was not sent. A list where only some are null or empty is a result: two events of a user without an
// order are equal. So is the number 0: where it can mean that nothing was sent, use a pointer in the event type.
//
// JMESPath returns an error of the family idempotency.ErrInvalid for an expression that is not valid. The Selector
// returns one for an event on which the expression fails, such as a body that is not JSON. No error has a part of the
// event.
func JMESPath[In any](expression string) (Selector[In], error) {
	search, err := compile(expression)
	if err != nil {
		return nil, &idempotency.InvalidError{Field: "JMESPath " + expression, Detail: err.Error()}
	}
	return func(_ context.Context, in In) (string, error) {
		found, err := search.in(in)
		if err != nil {
			return "", &idempotency.InvalidError{Field: "event", Detail: fmt.Sprintf("JMESPath %s: %v", expression, err)}
		}
		return found, nil
	}, nil
}

type expression struct{ api.JMESPath }

func compile(text string) (expression, error) {
	tree, err := parsing.NewParser().Parse(text)
	if err != nil {
		return expression{}, err
	}
	known := map[string]bool{}
	for _, f := range append(functions.GetDefaultFunctions(), powertools...) {
		known[f.Name] = true
	}
	if name := unknownFunction(tree, known); name != "" {
		return expression{}, fmt.Errorf("there is no function %s", name)
	}
	compiled, err := api.Compile(text, powertools...)
	return expression{compiled}, err
}

// unknownFunction returns the name of a function that is not known. The library would find it with the first event.
func unknownFunction(node parsing.ASTNode, known map[string]bool) string {
	if name, ok := node.Value.(string); ok && node.NodeType == parsing.ASTFunctionExpression && !known[name] {
		return name
	}
	for _, child := range node.Children {
		if name := unknownFunction(child, known); name != "" {
			return name
		}
	}
	return ""
}

// in returns what an expression finds in the JSON of a value, as text, or "".
func (e expression) in(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("the event has no JSON: %w", err)
	}
	document, err := decode(text)
	if err != nil {
		return "", err
	}
	found, err := e.Search(document)
	if _, ok := errors.AsType[*functionError](err); err != nil && !ok { // errors of the library repeat values
		return "", errors.New("a function gets a value of a type that it does not take")
	}
	if err != nil || missing(found) {
		return "", err
	}
	text, err = json.Marshal(found)
	if err != nil {
		return "", errors.New("what it finds is not a JSON value")
	}
	if len(text) > longestKey {
		sum := sha256.Sum256(text)
		return "sha256:" + hex.EncodeToString(sum[:]), nil
	}
	return string(text), nil
}

// longestKey is the largest length of a key (package idempotency, "Limits").
const longestKey = 1024

// missing reports whether a result is nothing. Powertools has this rule for keys, but neither for empty texts nor for what
// is deeper: all events with such a key would share a record.
func missing(found any) bool {
	switch v := found.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		for _, element := range v {
			if !missing(element) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, member := range v {
			if !missing(member) {
				return false
			}
		}
		return true
	}
	return false
}

// powertools are the functions that Powertools adds to JMESPath (Powertools for AWS Lambda, "JMESPath Functions").
var powertools = []functions.FunctionEntry{
	ofText("powertools_json", func(text string) (any, error) { return decode([]byte(text)) }),
	ofText("powertools_base64", func(text string) (any, error) {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, errors.New("the text is not base64")
		}
		return textOf(data)
	}),
	ofText("powertools_base64_gzip", func(text string) (any, error) {
		opened, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
		if err != nil {
			return nil, errors.New("the text is not gzip in base64")
		}
		data, err := io.ReadAll(io.LimitReader(opened, mostOpened+1))
		switch {
		case len(data) > mostOpened:
			return nil, fmt.Errorf("the text has more than %d bytes when it is opened", mostOpened)
		case err != nil:
			return nil, errors.New("the text is not gzip in base64")
		}
		return textOf(data)
	}),
}

// mostOpened bounds the memory that a small event can take.
const mostOpened = 10_000_000

func ofText(name string, open func(text string) (any, error)) functions.FunctionEntry {
	return functions.FunctionEntry{
		Name: name, Arguments: []functions.ArgSpec{{Types: []functions.JpType{functions.JpString}}},
		Handler: func(arguments []any) (any, error) {
			text, _ := arguments[0].(string) // the library has checked the type
			value, err := open(text)
			if err != nil {
				return nil, &functionError{fmt.Errorf("%s: %w", name, err)}
			}
			return value, nil
		},
	}
}

// functionError is an error of a function of ours, which has no part of the event.
type functionError struct{ error }

// textOf refuses bytes that are not UTF-8: as JSON, different ones would become the same text.
func textOf(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the text is not UTF-8")
	}
	return string(data), nil
}

// decode decodes a JSON text for a search.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, errors.New("the text is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the text has more than one JSON value")
	}
	return withNumbers(value), nil
}

// withNumbers replaces numbers in a value by those of the library, which compares and adds float64. A number with so
// many digits that a float64 could be another number stays as it is: two orders must not become one.
func withNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && exact(v.String(), f) {
			return f
		}
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withNumbers(v[name])
		}
	}
	return value
}

// The range in which different numbers with 15 digits are different float64 (IEEE 754, binary64).
const (
	exactDigits    = 15
	least, largest = 1e-300, 1e300
)

// exact reports whether no other number with exactDigits is the float64 of this one.
func exact(number string, f float64) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	digits := strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "0")
	if digits == "" {
		return true
	}
	f = max(f, -f)
	return len(digits) <= exactDigits && least < f && f < largest
}
