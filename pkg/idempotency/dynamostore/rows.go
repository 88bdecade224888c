package dynamostore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

type row = map[string]types.AttributeValue

// format is what rows look like: those of oncebox, or those of Powertools.
type format interface {
	// key returns the key of the row.
	key(engine.Key) (row, error)
	// record returns the other attributes of a row in progress.
	record(engine.Record) row
	// read returns the record of a row in a reply of a Date, or nil if there is no row.
	read(item row, date time.Time) (*engine.Record, error)
	// ifSame is the condition that a row has a version.
	ifSame(*expression, engine.Version) string
	// held returns the attributes of a row in progress with a token.
	held(token string) row
	// token returns the name of the attribute.
	token() string
	leaseEnd(time.Time) (name string, value types.AttributeValue)
	ends(expiry, purgeAt time.Time) row
	// result returns the attributes of a completed row.
	result(token string, result engine.Result) row
	maxResult() int
}

// native is the format of oncebox.
type native struct{}

// key has the hash of the key, because a key of a partition has at most 2,048 bytes, and a namespace and a key with a #
// between them could be those of another key. The namespace comes first, so that a policy can allow the rows of one
// namespace (dynamodb:LeadingKeys).
func (native) key(k engine.Key) (row, error) {
	return row{"pk": text("once#" + k.Namespace + "#" + k.Digest()), "sk": text("record")}, nil
}

// layout is the version of the rows. A row of another one is refused.
const layout = 1

// An item has at most 400 KB (Developer Guide, "Quotas"). restOfRow is more than a row has without its result: the
// namespace of up to 1,024 bytes, about 600 bytes of other values, and the names.
const (
	maxItem   = 400 << 10
	restOfRow = 4 << 10
)

func (native) maxResult() int { return maxItem - restOfRow }

// record makes a row without attributevalue, which takes several times as long. A row is put in progress: an update
// completes it.
func (native) record(r engine.Record) row {
	return row{
		"layout": number(layout), "status": text(string(r.Status)), "token": text(r.Token), "number": number(r.Number),
		"lease_end": millis(r.LeaseEnd), "expiry": millis(r.Expiry),
		"purge_at": number(r.PurgeAt.Unix()), "payload": text(r.Payload),
	}
}

func (native) ifSame(e *expression, v engine.Version) string {
	return e.equal(row{
		"status": text(string(v.Status)), "token": text(v.Token), "number": number(v.Number),
		"lease_end": millis(v.LeaseEnd), "expiry": millis(v.Expiry),
	}, " AND ")
}

func (native) held(token string) row {
	return row{"token": text(token), "status": text(string(engine.InProgress))}
}

func (native) token() string { return "token" }

func (native) leaseEnd(end time.Time) (string, types.AttributeValue) { return "lease_end", millis(end) }

func (native) ends(expiry, purgeAt time.Time) row {
	return row{"expiry": millis(expiry), "purge_at": number(purgeAt.Unix())}
}

func (native) result(token string, r engine.Result) row {
	return row{
		"status": text(string(engine.Completed)), "completed_by": text(token), "kind": text(string(r.Kind)),
		"content_type": text(r.ContentType), "body": binary(r.Body),
	}
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

// read refuses a row of another version: it must not be compared.
func (native) read(item row, _ time.Time) (*engine.Record, error) {
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

// expression collects the names and values of expressions. Attributes can have any names, and DynamoDB reserves words.
type expression struct {
	names  map[string]string
	values row
}

// name returns the placeholder of a name.
func (e *expression) name(attribute string) string {
	if e.names == nil {
		e.names = map[string]string{}
	}
	for placeholder, known := range e.names {
		if known == attribute {
			return placeholder
		}
	}
	placeholder := "#" + strconv.Itoa(len(e.names))
	e.names[placeholder] = attribute
	return placeholder
}

// value returns the placeholder of a value.
func (e *expression) value(v types.AttributeValue) string {
	if e.values == nil {
		e.values = row{}
	}
	placeholder := ":" + strconv.Itoa(len(e.values))
	e.values[placeholder] = v
	return placeholder
}

// equal returns an equation for each attribute. An attribute without a value must not exist.
func (e *expression) equal(attributes row, join string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if value := attributes[name]; value == nil {
			all = append(all, "attribute_not_exists("+e.name(name)+")")
		} else {
			all = append(all, e.name(name)+" = "+e.value(value))
		}
	}
	return strings.Join(all, join)
}

// anyName returns the name of an attribute of a key.
func anyName(key row) string { return slices.Min(slices.Collect(maps.Keys(key))) }
