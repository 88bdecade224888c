package dynamostore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var errNoText = errors.New("the data of the record is not a text, as Powertools for Python stores it")

// The limits of DynamoDB (Developer Guide, "Constraints").
const (
	mostLevels    = 31 // of lists and maps in an attribute
	leastNumber   = 1e-130
	largestNumber = 1<<53 - 1 // the SDK for JavaScript writes and reads numbers up to this one
)

// toAttribute returns JSON as the SDK for JavaScript stores it, and false if it would not, or DynamoDB refuses it.
func toAttribute(text []byte) (types.AttributeValue, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil, false
	}
	return attributeOf(value, mostLevels)
}

func attributeOf(value any, levels int) (types.AttributeValue, bool) {
	switch v := value.(type) {
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}, true
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}, true
	case string:
		return text(v), true
	case json.Number:
		f, err := v.Float64()
		ok := err == nil && math.Abs(f) <= largestNumber && (f == 0 || math.Abs(f) >= leastNumber)
		return &types.AttributeValueMemberN{Value: number64(f)}, ok
	case []any:
		list := make([]types.AttributeValue, len(v))
		ok := levels > 0
		for n := 0; n < len(v) && ok; n++ {
			list[n], ok = attributeOf(v[n], levels-1)
		}
		return &types.AttributeValueMemberL{Value: list}, ok
	case map[string]any:
		all := row{}
		for name, member := range v {
			m, ok := attributeOf(member, levels-1)
			if !ok || name == "" {
				return nil, false
			}
			all[name] = m
		}
		return &types.AttributeValueMemberM{Value: all}, levels > 0
	}
	return nil, false
}

// number64 writes a number without an exponent only if it is short.
func number64(f float64) string {
	if f == 0 {
		return "0" // there is no -0
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// fromAttribute returns the JSON of an attribute that the SDK for JavaScript has stored.
func fromAttribute(a types.AttributeValue) ([]byte, error) {
	value, err := valueOf(a)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value) // as functions of this package encode results
}

func valueOf(a types.AttributeValue) (any, error) {
	switch v := a.(type) {
	case *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	case *types.AttributeValueMemberS:
		return v.Value, nil
	case *types.AttributeValueMemberN:
		f, err := strconv.ParseFloat(v.Value, 64)
		if err == nil && math.Abs(f) > largestNumber { // a BigInt of theirs
			return json.Number(v.Value), nil
		}
		return f, err
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for n := range list {
			var err error
			if list[n], err = valueOf(v.Value[n]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *types.AttributeValueMemberM:
		all := map[string]any{}
		for name, member := range v.Value {
			var err error
			if all[name], err = valueOf(member); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("the data of the record has a value without JSON (%T)", a)
}
