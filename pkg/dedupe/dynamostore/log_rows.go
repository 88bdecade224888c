package dynamostore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// chainPartition returns the partition key of the chain rows of a lane. Their sort key is the epoch's number.
func chainPartition(l logledger.LaneID) string { return "log#" + l.Scope + "#" + strconv.Itoa(l.Lane) }

// itemPartition returns the partition key of the items of an epoch. Their sort key is the index. A scope may contain
// "#". After the last "#", the key of items has a dot, and that of chain rows has none.
func itemPartition(at logledger.Place) string {
	return chainPartition(at.LaneID) + "." + strconv.Itoa(at.Epoch)
}

// logNumber returns a text for a number. The texts sort like the numbers.
func logNumber(n int) string { return fmt.Sprintf("%010d", n) }

// epochRow is a chain row. It has no purge time, because it is kept for ever.
type epochRow struct {
	key
	Sealed  int   `dynamodbav:"sealed"`
	Start   int64 `dynamodbav:"start"` // milliseconds since 1970, as the next two
	Ends    int64 `dynamodbav:"ends"`
	Until   int64 `dynamodbav:"until"`
	Window  int64 `dynamodbav:"window"` // nanoseconds, as the next one
	Horizon int64 `dynamodbav:"horizon"`
	Lanes   int   `dynamodbav:"lanes"`
	Layout  int   `dynamodbav:"layout"`
}

func newEpochRow(lane logledger.LaneID, e logledger.Epoch) epochRow {
	return epochRow{
		key{chainPartition(lane), logNumber(e.Number)}, e.Sealed, e.Start, e.Ends, e.Until, int64(e.Window), int64(e.Horizon),
		e.Lanes, e.Layout,
	}
}

func epochOf(item map[string]types.AttributeValue) (*logledger.Epoch, error) {
	var r epochRow
	if err := dynamo.Decode(item, &r); err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(r.SK)
	if err != nil {
		return nil, errForeignRow
	}
	return &logledger.Epoch{
		Number: number, Sealed: r.Sealed, Start: r.Start, Ends: r.Ends, Until: r.Until, Window: time.Duration(r.Window),
		Horizon: time.Duration(r.Horizon), Lanes: r.Lanes, Layout: r.Layout,
	}, nil
}

// logItem makes the row of an item, without attributevalue, like the row of an entry.
func logItem(at logledger.Place, data []byte, purgeAt int64) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pk": text(itemPartition(at)), "sk": text(logNumber(at.Index)), "d": binary(data), "purge_at": number(purgeAt),
	}
}

func itemOf(row map[string]types.AttributeValue) (logledger.Item, error) {
	sk, _ := row["sk"].(*types.AttributeValueMemberS)
	data, _ := row["d"].(*types.AttributeValueMemberB)
	if sk == nil || data == nil {
		return logledger.Item{}, errForeignRow
	}
	index, err := strconv.Atoi(sk.Value)
	if err != nil {
		return logledger.Item{}, errForeignRow
	}
	return logledger.Item{Index: index, Data: data.Value}, nil
}

var errForeignRow = errors.New("dynamodb: a row of the log has no number or no data: another version of oncebox " +
	"wrote it")
