// Package powertools calculates keys as the idempotency utilities of Powertools for AWS Lambda do, in Python and in
// TypeScript. With them, Go functions share a table with functions in these languages: see NewPowertools of package
// dynamostore, and docs/handlers.md#beside-powertools.
//
//	key, err := powertools.Python.Key([]byte(`"order-1"`)) // the JSON of what event_key_jmespath selects
//	...
//	out, err := idempotency.Do(ctx, runner, key, order, pay)
//
// The Runner's namespace is the prefix of their keys: "<function>.<module>.<name>" in Python, "<function>" in
// TypeScript, or what key_prefix and keyPrefix say.
//
// Pass the JSON of the event as it came. JSON that Go makes of a decoded value can differ: in Python, 10.0 and 10 have
// different keys. A value whose key cannot be made the same is refused.
package powertools

import (
	"crypto/md5" //nolint:gosec // what they use; a key is no secret
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// Format names the language whose records a table has.
type Format string

// The formats, as compared with aws-lambda-powertools 3.37.0 and @aws-lambda-powertools/idempotency 2.35.0.
const (
	Python     Format = "powertools-python"
	TypeScript Format = "powertools-typescript"
)

// languages has what the formats differ in.
var languages = map[Format]struct {
	dialect
	hash    func([]byte) string
	hashed  *regexp.Regexp
	missing func(value any) bool // of raise_on_no_idempotency_key and throwOnNoIdempotencyKey
}{
	Python:     {python, hex.EncodeToString, regexp.MustCompile(`^[0-9a-f]{32}$`), missingInPython},
	TypeScript: {javaScript, base64.StdEncoding.EncodeToString, regexp.MustCompile(`^[A-Za-z0-9+/]{22}==$`), missingInTypeScript},
}

// Check returns an error if there is no such format.
func (f Format) Check() error {
	if _, ok := languages[f]; !ok {
		return fmt.Errorf("format %q is unknown: use %s or %s", string(f), Python, TypeScript)
	}
	return nil
}

// ErrNoKey says that the value holds no key: the package in question runs the function unprotected, or raises an error
// (raise_on_no_idempotency_key, throwOnNoIdempotencyKey).
var ErrNoKey = errors.New("the value has no key: it is empty, or all of its members are")

// Key returns the hash of a key: the part of an id after the #. value is JSON: the event, or what a JMESPath expression
// selects from it. No error holds a part of the value.
func (f Format) Key(value []byte) (string, error) {
	if err := f.Check(); err != nil {
		return "", err
	}
	written, err := f.write(value)
	if err != nil {
		return "", err
	}
	var decoded any
	if err := json.Unmarshal(value, &decoded); err != nil {
		return "", err
	}
	if languages[f].missing(decoded) {
		return "", ErrNoKey
	}
	return f.sum(written), nil
}

// Hash returns the hash of any JSON value, also of one without a key. Payload validation compares it.
func (f Format) Hash(value []byte) (string, error) {
	if err := f.Check(); err != nil {
		return "", err
	}
	written, err := f.write(value)
	if err != nil {
		return "", err
	}
	return f.sum(written), nil
}

// IsKey reports whether a text has the form of what Key returns.
func (f Format) IsKey(text string) bool {
	l, ok := languages[f]
	return ok && l.hashed.MatchString(text)
}

func (f Format) sum(written []byte) string {
	sum := md5.Sum(written) //nolint:gosec // what they use
	return languages[f].hash(sum[:])
}

// write returns the JSON that the language writes for a value.
func (f Format) write(value []byte) ([]byte, error) {
	switch {
	case !utf8.Valid(value):
		return nil, errors.New("the value is not valid UTF-8")
	case !json.Valid(value):
		return nil, errors.New("the value is not JSON")
	}
	w := writer{text: value, dialect: languages[f].dialect}
	written, _, err := w.value(w.text.Space(0))
	return written, err
}

// missingInPython is is_missing_idempotency_key.
func missingInPython(value any) bool {
	isNull := func(member any) bool { return member == nil }
	switch v := value.(type) {
	case map[string]any:
		return all(v, isNull)
	case []any:
		return allOf(v, isNull)
	}
	return value == nil || value == ""
}

// missingInTypeScript is isMissingIdempotencyKey.
func missingInTypeScript(value any) bool {
	isFalsy := func(member any) bool {
		return member == nil || member == "" || member == false || member == float64(0)
	}
	switch v := value.(type) {
	case map[string]any:
		return all(v, isFalsy)
	case []any:
		return allOf(v, isFalsy)
	}
	return isFalsy(value)
}

func all(members map[string]any, is func(any) bool) bool {
	for _, m := range members {
		if !is(m) {
			return false
		}
	}
	return true
}

func allOf(items []any, is func(any) bool) bool {
	for _, item := range items {
		if !is(item) {
			return false
		}
	}
	return true
}
