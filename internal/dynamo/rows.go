package dynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Encode turns a row or key into attributes. The rows are fixed structs of
// strings, numbers and booleans, which always encode.
func Encode(row any) map[string]types.AttributeValue {
	attributes, err := attributevalue.MarshalMap(row)
	if err != nil {
		panic(fmt.Sprintf("dynamo: row %T does not encode: %v", row, err))
	}
	return attributes
}

// Decode reads attributes into a row.
func Decode(attributes map[string]types.AttributeValue, row any) error {
	if err := attributevalue.UnmarshalMap(attributes, row); err != nil {
		return fmt.Errorf("dynamodb: row does not read as %T: %w", row, err)
	}
	return nil
}
