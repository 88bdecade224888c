package dynamosink

import (
	"cmp"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// form is how a text version is written. The order of the bytes of two texts is the order of their versions only if
// they have the same form and length: "9" is above "10", and "...00Z" is above "...00.250Z".
type form int

const (
	noForm form = iota
	dashed      // a date, or a time in UTC
	plain       // digits, and letters of one case: for example a number with leading zeros or a ULID
)

// The patterns are compiled for the first text version, and not before the start of a function.
var (
	dateOrTime    = lazily(`^\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,9})?Z)?$`)
	lettersDigits = lazily(`^[0-9A-Za-z]+$`)
	// A time without separators, and one in UTC.
	basicTime = lazily(`^[12]\d{3}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])[Tt]\d+[A-Za-z]*$`)
	basicUTC  = lazily(`^\d{8}T\d+Z$`)
)

func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// The letters of both cases. Programs differ in whether "a" is before "B": ULIDs and hexadecimal numbers ignore the
// case.
const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	smalls   = "abcdefghijklmnopqrstuvwxyz"
)

// formOf returns the form of a text, or noForm and the reason why the text is no version.
func formOf(text string) (f form, reason string) {
	switch {
	case dateOrTime().MatchString(text):
		return dashed, ""
	case !lettersDigits().MatchString(text):
		return noForm, reasonText
	case strings.ContainsAny(text, capitals) && strings.ContainsAny(text, smalls):
		return noForm, reasonCases
	case basicTime().MatchString(text) && !basicUTC().MatchString(text):
		return noForm, reasonZone
	}
	return plain, ""
}

// otherCase returns the letters that no text has that is comparable with a text.
func otherCase(text string) string {
	switch {
	case strings.ContainsAny(text, capitals):
		return smalls
	case strings.ContainsAny(text, smalls):
		return capitals
	}
	return ""
}

// checkVersion returns a *dedupe.PoisonError for a value that can be compared with no other version.
func checkVersion(v types.AttributeValue) error {
	if !isScalar(v) {
		return poison(reasonNoVersion)
	}
	if text, ok := v.(*types.AttributeValueMemberS); ok {
		if _, reason := formOf(text.Value); reason != "" {
			return poison(reason)
		}
	}
	return nil
}

// separators are characters of texts that other programs may have written as versions.
const separators = "-:.,+/_ =*#@;~|"

// onlyIfOlder makes a put fail if the item in the table has a version that is not older, or that cannot be compared.
// DynamoDB compares no values of different types: that is false. An older text has the same length, the same separators
// and no letter of the other case: no condition can say more about its form. An expression has up to 4 KB and 300
// operators (DynamoDB Developer Guide, "Quotas"): this one has a third of both.
func (t *table) onlyIfOlder(put *types.Put) {
	older := "#v < :v OR (#v = :v AND #r < :r)"
	version := put.Item[t.version.name]
	put.ExpressionAttributeNames["#v"], put.ExpressionAttributeNames["#r"] = t.version.name, KeyAttribute
	put.ExpressionAttributeValues = item{":v": version, ":r": put.Item[KeyAttribute]}
	if text, ok := version.(*types.AttributeValueMemberS); ok {
		older = "(" + older + ") AND size(#v) = :length"
		put.ExpressionAttributeValues[":length"] = &types.AttributeValueMemberN{Value: strconv.Itoa(len(text.Value))}
		for i, separator := range strings.Split(separators, "") {
			older += has(put, ":s"+strconv.Itoa(i), separator, strings.Contains(text.Value, separator))
		}
		for i, letter := range strings.Split(otherCase(text.Value), "") {
			older += has(put, ":c"+strconv.Itoa(i), letter, false)
		}
	}
	put.ConditionExpression = aws.String("attribute_not_exists(#k) OR " + older)
}

// has returns the condition that the version in the table has, or has not, a part.
func has(put *types.Put, name, part string, want bool) string {
	put.ExpressionAttributeValues[name] = &types.AttributeValueMemberS{Value: part}
	if want {
		return " AND contains(#v, " + name + ")"
	}
	return " AND NOT contains(#v, " + name + ")"
}

// compare compares two versions: numbers, or texts of one form, length and case. same is false for others, which cannot
// be compared.
func compare(a, b types.AttributeValue) (order int, same bool) {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		if ok && sameForm(a.Value, b.Value) {
			return cmp.Compare(a.Value, b.Value), true
		}
	case *types.AttributeValueMemberN:
		if b, ok := b.(*types.AttributeValueMemberN); ok {
			x, okX := new(big.Rat).SetString(a.Value)
			y, okY := new(big.Rat).SetString(b.Value)
			if okX && okY {
				return x.Cmp(y), true
			}
		}
	}
	return 0, false
}

func sameForm(a, b string) bool {
	formA, reason := formOf(a)
	formB, _ := formOf(b)
	return reason == "" && formA == formB && len(a) == len(b) && !strings.ContainsAny(b, otherCase(a))
}
