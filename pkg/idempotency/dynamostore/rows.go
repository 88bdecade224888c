package dynamostore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

type row = map[string]types.AttributeValue

// keyOf returns the key of the row. It has the hash of the key, because a key of a partition has at most 2,048 bytes,
// and a namespace and a key with a # between them could be those of another key. The namespace comes first, so that a
// policy can allow the rows of one namespace (dynamodb:LeadingKeys).
func keyOf(k engine.Key) row {
	return row{"pk": text("once#" + k.Namespace + "#" + k.Digest()), "sk": text("record")}
}

// layout is the version of the rows. A row of another one is refused.
const layout = 1

// An item has at most 400 KB (Developer Guide, "Quotas"). restOfRow is more than a row has without its result: the
// namespace of up to 1,024 bytes, about 600 bytes of other values, and the names.
const (
	maxItem   = 400 << 10
	restOfRow = 4 << 10
)

// reserved are the names in ifMine. DynamoDB reserves the words.
var reserved = map[string]string{"#status": "status", "#token": "token"}

// itemOf makes a row without attributevalue, which takes several times as long. A row is put in progress: an update
// completes it.
func itemOf(k engine.Key, r engine.Record) row {
	item := keyOf(k)
	item["layout"] = number(layout)
	item["status"], item["token"], item["number"] = text(string(r.Status)), text(r.Token), number(r.Number)
	item["lease_end"], item["expiry"] = millis(r.LeaseEnd), millis(r.Expiry)
	item["purge_at"], item["payload"] = number(r.PurgeAt.Unix()), text(r.Payload)
	return item
}

// stored is a row as it is read. Times are in milliseconds, but purge_at, the TTL attribute, is in seconds.
type stored struct {
	Layout      int    `dynamodbav:"layout"`
	Status      string `dynamodbav:"status"`
	Token       string `dynamodbav:"token"`
	Number      int64  `dynamodbav:"number"`
	LeaseEnd    int64  `dynamodbav:"lease_end"`
	Expiry      int64  `dynamodbav:"expiry"`
	PurgeAt     int64  `dynamodbav:"purge_at"`
	Payload     string `dynamodbav:"payload"`
	CompletedBy string `dynamodbav:"completed_by"`
	Kind        string `dynamodbav:"kind"`
	ContentType string `dynamodbav:"content_type"`
	Body        []byte `dynamodbav:"body"`
}

// recordOf returns the record of a row, or nil if there is no row. A row of another version must not be compared.
func recordOf(item row) (*engine.Record, error) {
	if len(item) == 0 {
		return nil, nil
	}
	var r stored
	if err := dynamo.Decode(item, &r); err != nil {
		return nil, err
	}
	if r.Layout != layout {
		return nil, fmt.Errorf("dynamodb: the row of the key has layout %d, and this version of oncebox reads layout %d; "+
			"use the version that wrote it, or another namespace", r.Layout, layout)
	}
	return &engine.Record{
		Status: engine.Status(r.Status), Token: r.Token, Number: r.Number,
		LeaseEnd: time.UnixMilli(r.LeaseEnd).UTC(), Expiry: time.UnixMilli(r.Expiry).UTC(),
		PurgeAt: time.Unix(r.PurgeAt, 0).UTC(), Payload: r.Payload, CompletedBy: r.CompletedBy,
		Result: engine.Result{Kind: engine.Kind(r.Kind), ContentType: r.ContentType, Body: r.Body},
	}, nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// binary returns bytes. The SDK sends nil as no value, which DynamoDB refuses.
func binary(b []byte) types.AttributeValue {
	if b == nil {
		b = []byte{}
	}
	return &types.AttributeValueMemberB{Value: b}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func millis(t time.Time) types.AttributeValue { return number(t.UnixMilli()) }
