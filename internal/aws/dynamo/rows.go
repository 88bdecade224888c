package dynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Encode returns the attributes of a row or a key. Rows are structs of strings, numbers and booleans, which always
// encode.
func Encode(row any) map[string]types.AttributeValue {
	attributes, err := attributevalue.MarshalMap(row)
	if err != nil {
		panic(fmt.Sprintf("dynamo: a row of type %T does not encode: %v", row, err))
	}
	return attributes
}

// Decode reads attributes into a row. The error names the type of the row.
func Decode(attributes map[string]types.AttributeValue, row any) error {
	if err := attributevalue.UnmarshalMap(attributes, row); err != nil {
		return fmt.Errorf("dynamodb: a row does not decode as %T: %w", row, err)
	}
	return nil
}

// RowShards is the number of partition keys of rows that are listed together. A package that takes it can be given
// another number by this module only.
type RowShards struct{ N int }

// Statements says from how many entries on a call puts them by statements. A package that takes it can be given another
// number by this module only.
type Statements struct{ From int }
