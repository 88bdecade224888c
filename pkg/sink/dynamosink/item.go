package dynamosink

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The limits of an item (DynamoDB Developer Guide, "Quotas and limits", and "Supported data types").
const (
	largestItem   = 400 << 10 // bytes
	deepest       = 32        // levels of lists and maps
	mostDigits    = 38
	lowest        = -130 // exponent of the smallest positive number
	highest       = 125
	longestNumber = 1 << 10 // length of its text; a longer one has too many digits or an invalid exponent
)

// The reasons why a record cannot be an item.
const (
	reasonNotJSON   = "it is not a JSON object in UTF-8"
	reasonNumber    = "a number has more than 38 significant digits, or is too large or too small for DynamoDB"
	reasonNames     = "a member has no name, or the name of another member of its object"
	reasonTooDeep   = "its lists and objects are nested deeper than 32 levels"
	reasonTooLarge  = "its item has more than 400 KB"
	reasonNoUnicode = "a string has an escape that is not Unicode"
)

// item has the attributes of an item.
type item map[string]types.AttributeValue

// path is the way to a value: names and array indexes.
type path []string

// at returns the value at a path, or nil.
func (i item) at(p path) types.AttributeValue {
	var v types.AttributeValue = &types.AttributeValueMemberM{Value: i}
	for _, part := range p {
		switch in := v.(type) {
		case *types.AttributeValueMemberM:
			v = in.Value[part]
		case *types.AttributeValueMemberL:
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(in.Value) || strconv.Itoa(n) != part {
				return nil
			}
			v = in.Value[n]
		default:
			return nil
		}
	}
	return v
}

// isScalar reports whether a value can be a key or a version.
func isScalar(v types.AttributeValue) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value != ""
	case *types.AttributeValueMemberN:
		return true
	}
	return false
}

// textOf returns a string, a number or a boolean as a text, or "" for other values.
func textOf(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberBOOL:
		return strconv.FormatBool(v.Value)
	}
	return ""
}

// decode makes attributes from a JSON object without loss. The error is a *dedupe.PoisonError.
func decode(data []byte) (item, error) {
	if !utf8.Valid(data) {
		return nil, poison(reasonNotJSON)
	}
	d := decoder{Decoder: json.NewDecoder(bytes.NewReader(data))}
	d.UseNumber()
	// encoding/json replaces half of a surrogate pair by this character.
	d.replaces = !bytes.ContainsRune(data, utf8.RuneError) && !bytes.Contains(bytes.ToLower(data), []byte(`\ufffd`))
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	m, ok := v.(*types.AttributeValueMemberM)
	if _, end := d.Token(); !ok || !errors.Is(end, io.EOF) {
		return nil, poison(reasonNotJSON)
	}
	return m.Value, nil
}

type decoder struct {
	*json.Decoder
	replaces bool // the record itself has no U+FFFD, so a U+FFFD in a text was put there by the decoder
}

func (d *decoder) value(depth int) (types.AttributeValue, error) {
	token, err := d.Token()
	if err != nil {
		return nil, poison(reasonNotJSON)
	}
	switch t := token.(type) {
	case json.Delim:
		if depth > deepest {
			return nil, poison(reasonTooDeep)
		}
		if t == '{' {
			return d.object(depth)
		}
		return d.list(depth)
	case string:
		return &types.AttributeValueMemberS{Value: t}, d.checkText(t)
	case json.Number:
		n, err := number(t.String())
		return &types.AttributeValueMemberN{Value: n}, err
	case bool:
		return &types.AttributeValueMemberBOOL{Value: t}, nil
	}
	return &types.AttributeValueMemberNULL{Value: true}, nil
}

func (d *decoder) checkText(s string) error {
	if d.replaces && strings.ContainsRune(s, utf8.RuneError) {
		return poison(reasonNoUnicode)
	}
	return nil
}

func (d *decoder) object(depth int) (types.AttributeValue, error) {
	members := item{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, poison(reasonNotJSON)
		}
		if _, again := members[name]; again || name == "" {
			return nil, poison(reasonNames)
		}
		if err := d.checkText(name); err != nil {
			return nil, err
		}
		if members[name], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return &types.AttributeValueMemberM{Value: members}, d.end()
}

func (d *decoder) list(depth int) (types.AttributeValue, error) {
	elements := []types.AttributeValue{}
	for d.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, v)
	}
	return &types.AttributeValueMemberL{Value: elements}, d.end()
}

func (d *decoder) end() error {
	if _, err := d.Token(); err != nil {
		return poison(reasonNotJSON)
	}
	return nil
}

// number converts a JSON number to DynamoDB's form: exact, with up to 38 digits.
func number(text string) (string, error) {
	if len(text) > longestNumber {
		return "", poison(reasonNumber)
	}
	mantissa, exponent := strings.ToLower(text), 0
	if m, e, ok := strings.Cut(mantissa, "e"); ok {
		n, err := strconv.Atoi(e)
		if err != nil || n < -2*longestNumber || n > 2*longestNumber {
			n = 2 * longestNumber // not a valid number, unless its digits are zeros
		}
		mantissa, exponent = m, n
	}
	sign, whole := "", mantissa
	if rest, negative := strings.CutPrefix(whole, "-"); negative {
		sign, whole = "-", rest
	}
	whole, fraction, _ := strings.Cut(whole, ".")
	digits := whole + fraction
	exponent -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	digits = strings.TrimLeft(trimmed, "0")
	switch first := exponent + len(digits) - 1; { // first is the power of ten of the first digit
	case digits == "":
		return "0", nil
	case len(digits) > mostDigits, first < lowest, first > highest:
		return "", poison(reasonNumber)
	}
	if len(text) <= mostDigits && !strings.ContainsAny(text, "eE") {
		return text, nil
	}
	return sign + digits + "E" + strconv.Itoa(exponent), nil
}

// size returns the size of an item by DynamoDB's rules (Developer Guide, "DynamoDB item sizes and formats").
func (i item) size() int {
	bytes := 0
	for name, v := range i {
		bytes += len(name) + sizeOf(v)
	}
	return bytes
}

// sizeOf returns the size of a value. For a number it counts all digits of the text, also those that are not
// significant.
func sizeOf(v types.AttributeValue) int {
	const overhead, element = 3, 1 // of a list or a map, and of each of its elements
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		digits := min(len(v.Value), mostDigits)
		return (digits+1)/2 + 1
	case *types.AttributeValueMemberL:
		bytes := overhead
		for _, e := range v.Value {
			bytes += element + sizeOf(e)
		}
		return bytes
	case *types.AttributeValueMemberM:
		return overhead + element*len(v.Value) + item(v.Value).size()
	}
	return 1 // null or a boolean
}
