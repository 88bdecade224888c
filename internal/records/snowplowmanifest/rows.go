// Package snowplowmanifest reads the events manifest of Snowplow's batch deduplication, for package history to enter it
// in a ledger: a copy of an event that the batch job has seen is then a duplicate (docs/adr/0004-records.md).
//
//	since := snowplowmanifest.Since(time.Now(), retention)
//	past := snowplowmanifest.Past(func(ctx context.Context) iter.Seq2[snowplowmanifest.Row, error] {
//		return snowplowmanifest.Table(ctx, client, "snowplow-deduplication", since)
//	})
//	manifest := history.Import{Source: past, Store: store, Scope: scope, Retention: retention}
//	report, err := manifest.Run(ctx)
//
// The manifest is a DynamoDB table with one row for each event id and fingerprint (snowplow-events-manifest,
// DynamoDbManifest.scala). [Table] reads the table, and [Export] what DynamoDB exports of it to S3.
package snowplowmanifest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Row says that the batch job has seen an event with this id and fingerprint.
type Row struct {
	EventID     string
	Fingerprint string    // event_fingerprint, or a random UUID for an event without one
	ETLTime     time.Time // the earliest etl_tstamp of the batch, in whole seconds
}

// ErrNotManifest means that a row is not from an events manifest. Probably the table is another one.
var ErrNotManifest = errors.New("not a row of Snowplow's events manifest")

// Scanner is the part of *dynamodb.Client that Table calls.
type Scanner interface {
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Table yields the rows of a manifest whose ETLTime is not before since. Rows of one event id follow each other. It
// reads consistently, so it misses no row that existed before it began. The loop ends with the first error: an error
// of the family dedupe.ErrTryAgain, ErrNotManifest, or another error of the client.
func Table(ctx context.Context, client Scanner, table string, since time.Time) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{
			TableName: &table, ConsistentRead: aws.Bool(true),
			ProjectionExpression: aws.String("eventId, fingerprint, etlTime"),
			// A row without a time passes the filter, because it shows that the table is not a manifest.
			FilterExpression: aws.String("NOT etlTime < :since"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":since": &types.AttributeValueMemberN{Value: strconv.FormatInt(since.Unix(), 10)},
			},
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Row{}, dynamo.Translate("read manifest", err, dedupe.ErrTryAgain))
				return
			}
			for _, item := range page.Items {
				row, err := rowOf(text(item["eventId"]), text(item["fingerprint"]), number(item["etlTime"]))
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

func text(value types.AttributeValue) string {
	if s, ok := value.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func number(value types.AttributeValue) string {
	if n, ok := value.(*types.AttributeValueMemberN); ok {
		return n.Value
	}
	return ""
}

// exported is a line of an export in DynamoDB JSON (DynamoDB Developer Guide, "DynamoDB table export output format").
type exported struct {
	Item struct {
		EventID     typed `json:"eventId"`
		Fingerprint typed `json:"fingerprint"`
		ETLTime     typed `json:"etlTime"`
	} `json:"Item"`
}

// typed is a value with its type: a string or a number.
type typed struct {
	S string `json:"S"`
	N string `json:"N"`
}

// Export yields the rows of one data file of an export to S3, as lines of DynamoDB JSON. DynamoDB compresses these
// files with gzip, and the caller unpacks them. since and the errors are the same as for Table.
func Export(r io.Reader, since time.Time) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		lines := bufio.NewScanner(r)
		for number := 1; lines.Scan(); number++ {
			var line exported
			err := json.Unmarshal(lines.Bytes(), &line)
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrNotManifest, err)
			}
			var row Row
			if err == nil {
				row, err = rowOf(line.Item.EventID.S, line.Item.Fingerprint.S, line.Item.ETLTime.N)
			}
			switch {
			case err != nil:
				yield(Row{}, fmt.Errorf("line %d: %w", number, err))
				return
			case row.ETLTime.Before(since):
			case !yield(row, nil):
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Row{}, err)
		}
	}
}

func rowOf(eventID, fingerprint, etlTime string) (Row, error) {
	seconds, err := strconv.ParseInt(etlTime, 10, 64)
	if eventID == "" || fingerprint == "" || err != nil {
		return Row{}, fmt.Errorf("%w: it needs eventId, fingerprint and etlTime", ErrNotManifest)
	}
	return Row{eventID, fingerprint, time.Unix(seconds, 0).UTC()}, nil
}
