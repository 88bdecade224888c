package dynamosink

import (
	"cmp"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// form is how a text version is written. The order of the bytes of two texts is the order of their versions only if
// they have the same form and length: "9" is above "10", and "...00Z" is above "...00.250Z".
type form int

const (
	noForm form = iota
	dashed      // a date, or a time in UTC
	plain       // letters and digits, for example a number with leading zeros or a ULID
)

var (
	dateOrTime    = regexp.MustCompile(`^\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,9})?Z)?$`)
	lettersDigits = regexp.MustCompile(`^[0-9A-Za-z]+$`)
	zoneUnknown   = regexp.MustCompile(`^\d{8}[Tt]\d+[^Z]?$`) // a time without separators whose zone is not known
)

func formOf(text string) form {
	switch {
	case dateOrTime.MatchString(text):
		return dashed
	case lettersDigits.MatchString(text) && !zoneUnknown.MatchString(text):
		return plain
	}
	return noForm
}

// checkVersion returns a *dedupe.PoisonError for a value that can be compared with no other version.
func checkVersion(v types.AttributeValue) error {
	if !isScalar(v) {
		return poison(reasonNoVersion)
	}
	if text, ok := v.(*types.AttributeValueMemberS); ok && formOf(text.Value) == noForm {
		return poison(reasonText)
	}
	return nil
}

// separators are characters of texts that other programs may have written as versions.
const separators = "-:.,+/_ "

// onlyIfOlder makes a put fail if the item in the table has a version that is not older, or that cannot be compared.
// DynamoDB compares no values of different types: that is false. An older text has the same length and the same
// separators: no condition can say more about its form.
func (t *table) onlyIfOlder(put *types.Put) {
	older := "#v < :v OR (#v = :v AND #r < :r)"
	version := put.Item[t.version.name]
	put.ExpressionAttributeNames["#v"], put.ExpressionAttributeNames["#r"] = t.version.name, KeyAttribute
	put.ExpressionAttributeValues = item{":v": version, ":r": put.Item[KeyAttribute]}
	if text, ok := version.(*types.AttributeValueMemberS); ok {
		older = "(" + older + ") AND size(#v) = :length"
		put.ExpressionAttributeValues[":length"] = &types.AttributeValueMemberN{Value: strconv.Itoa(len(text.Value))}
		for i, separator := range strings.Split(separators, "") {
			name := ":s" + strconv.Itoa(i)
			not := ""
			if !strings.Contains(text.Value, separator) {
				not = "NOT "
			}
			older += " AND " + not + "contains(#v, " + name + ")"
			put.ExpressionAttributeValues[name] = &types.AttributeValueMemberS{Value: separator}
		}
	}
	put.ConditionExpression = aws.String("attribute_not_exists(#k) OR " + older)
}

// compare compares two versions: numbers, or texts of one form and length. same is false for others, which cannot be compared.
func compare(a, b types.AttributeValue) (order int, same bool) {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		if ok && len(a.Value) == len(b.Value) && formOf(a.Value) != noForm && formOf(a.Value) == formOf(b.Value) {
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
