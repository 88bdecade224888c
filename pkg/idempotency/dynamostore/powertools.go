package dynamostore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// Powertools describes a table of the idempotency utility of Powertools for AWS Lambda. The fields have the names
// of its DynamoDB persistence layer; an empty one has its default there.
type Powertools struct {
	Format powertools.Format
	// Validation compares payloads, by the hash in ValidationKeyAttr. Set it if, and only if, the functions of Powertools
	// have a payload_validation_jmespath or payloadValidationJmesPath. The payload of a call is then the JSON that this
	// expression selects. Without it payloads are not compared, as with Powertools: their hash is often the key.
	Validation bool

	KeyAttr              string // id
	SortKeyAttr          string // none; with one, KeyAttr has StaticPKValue
	StaticPKValue        string // "idempotency#<function>", with the name of their function; needed with SortKeyAttr
	StatusAttr           string // status
	ExpiryAttr           string // expiration; the TTL attribute of the table
	InProgressExpiryAttr string // in_progress_expiration
	DataAttr             string // data
	ValidationKeyAttr    string // validation
}

// PowertoolsStore is a Store on a table of Powertools. Functions with it and functions with Powertools replay the results
// of each other. A key is one of powertools.Format.Key, and the namespace is the prefix of their keys.
//
// Only functions of this package are fenced: functions with Powertools complete and delete records without a
// condition.
type PowertoolsStore struct {
	*store
	rows foreign
}

type store = Store // embedded under a name that is not exported

var (
	_ engine.Foreign    = (*PowertoolsStore)(nil)
	_ engine.Transactor = (*PowertoolsStore)(nil)
)

// NewPowertools makes a Store on a table of Powertools. The error says which name is wrong.
func NewPowertools(client Client, table string, p Powertools) (*PowertoolsStore, error) {
	if err := p.Format.Check(); err != nil {
		return nil, err
	}
	p.KeyAttr, p.StatusAttr = cmp.Or(p.KeyAttr, "id"), cmp.Or(p.StatusAttr, "status")
	p.ExpiryAttr = cmp.Or(p.ExpiryAttr, "expiration")
	p.InProgressExpiryAttr = cmp.Or(p.InProgressExpiryAttr, "in_progress_expiration")
	p.DataAttr, p.ValidationKeyAttr = cmp.Or(p.DataAttr, "data"), cmp.Or(p.ValidationKeyAttr, "validation")
	if (p.SortKeyAttr == "") != (p.StaticPKValue == "") {
		return nil, fmt.Errorf("SortKeyAttr %q and StaticPKValue %q: set both or none", p.SortKeyAttr, p.StaticPKValue)
	}
	nameBytes := len(p.StaticPKValue)
	used := map[string]string{
		tokenAttr: "an attribute of oncebox", numberAttr: "an attribute of oncebox", completedByAttr: "an attribute of oncebox",
		typeAttr: "an attribute of oncebox", bodyAttr: "an attribute of oncebox",
	}
	for _, n := range [][2]string{
		{"KeyAttr", p.KeyAttr}, {"SortKeyAttr", p.SortKeyAttr}, {"StatusAttr", p.StatusAttr}, {"ExpiryAttr", p.ExpiryAttr},
		{"InProgressExpiryAttr", p.InProgressExpiryAttr}, {"DataAttr", p.DataAttr}, {"ValidationKeyAttr", p.ValidationKeyAttr},
	} {
		if other := used[n[1]]; other != "" && n[1] != "" {
			return nil, fmt.Errorf("%s %q is the name of %s, too", n[0], n[1], other)
		}
		used[n[1]] = n[0]
		nameBytes += len(n[1])
	}
	rows := foreign{p, nameBytes}
	return &PowertoolsStore{&Store{client, table, rows}, rows}, nil
}

// LeastWindow implements engine.Foreign.
func (*PowertoolsStore) LeastWindow() time.Duration { return 15 * time.Minute }

// PayloadHash implements engine.Foreign.
func (s *PowertoolsStore) PayloadHash(payload []byte) (string, error) {
	if !s.rows.Validation {
		return "", nil
	}
	return s.rows.Format.Hash(payload)
}

// Our attributes beside theirs. Their put removes them, and their completion leaves them.
const (
	tokenAttr       = "oncebox_token"
	numberAttr      = "oncebox_number"
	completedByAttr = "oncebox_completed_by"
	typeAttr        = "oncebox_content_type"
	bodyAttr        = "oncebox_body"
)

// The values of their status. For results that they cannot read there are values of ours: Powertools then raises
// IdempotencyInvalidStatusError, and does not run the function, until the record has expired.
const (
	theirInProgress = "INPROGRESS"
	theirCompleted  = "COMPLETED"
	ourFailure      = "ONCEBOX_FAILED"
	ourMissing      = "ONCEBOX_RESULT_NOT_STORED"
	ourValue        = "ONCEBOX_OTHER_RESULT"
)

var kinds = map[string]engine.Kind{
	theirCompleted: engine.Value, ourValue: engine.Value, ourFailure: engine.Failure, ourMissing: engine.Missing,
}

const jsonType = "application/json"

// foreign is the format of Powertools.
type foreign struct {
	Powertools
	nameBytes int // of the names, which are a part of each row
}

func (f foreign) maxResult() int { return maxItem - restOfRow - f.nameBytes }

func (f foreign) key(k engine.Key) (row, error) {
	if !f.Format.IsKey(k.Name) {
		return nil, fmt.Errorf("the key is no hash of %s: make it with Key of package powertools", f.Format)
	}
	id := text(k.Namespace + "#" + k.Name)
	if f.SortKeyAttr == "" {
		return row{f.KeyAttr: id}, nil
	}
	return row{f.KeyAttr: text(f.StaticPKValue), f.SortKeyAttr: id}, nil
}

func (f foreign) record(r engine.Record) row {
	item := row{
		f.StatusAttr: text(theirInProgress), tokenAttr: text(r.Token), numberAttr: number(r.Number),
		f.InProgressExpiryAttr: millis(r.LeaseEnd), f.ExpiryAttr: seconds(r.Expiry),
	}
	if r.Payload != "" {
		item[f.ValidationKeyAttr] = text(r.Payload)
	}
	return item
}

// seconds rounds up.
func seconds(t time.Time) types.AttributeValue {
	return number(t.Add(time.Second - time.Nanosecond).Unix())
}

// ifSame also knows rows of others: they have no token and no number, and may have no end of a lease. See leaseOf.
func (f foreign) ifSame(e *expression, v engine.Version) string {
	same := row{f.ExpiryAttr: seconds(v.Expiry), tokenAttr: nil, numberAttr: nil}
	if v.Token != "" {
		same[tokenAttr], same[numberAttr] = text(v.Token), number(v.Number)
	}
	lease := e.name(f.InProgressExpiryAttr)
	condition := lease + " = " + e.value(millis(v.LeaseEnd))
	if v.LeaseEnd.Equal(v.Expiry) {
		condition = "(" + condition + " OR attribute_not_exists(" + lease + "))"
	}
	status := e.name(f.StatusAttr) + " = " + e.value(text(theirInProgress))
	if v.Status == engine.Completed {
		status = "NOT " + status
	}
	return e.equal(same, " AND ") + " AND " + condition + " AND " + status
}

func (f foreign) held(token string) row {
	return row{tokenAttr: text(token), f.StatusAttr: text(theirInProgress)}
}

func (foreign) token() string { return tokenAttr }

func (f foreign) leaseEnd(end time.Time) (string, types.AttributeValue) {
	return f.InProgressExpiryAttr, millis(end)
}

func (f foreign) ends(expiry, _ time.Time) row { return row{f.ExpiryAttr: seconds(expiry)} }

// result keeps JSON as their data, so that they can replay it, and all else in attributes of ours. JSON whose bytes the
// data does not give back is kept twice.
func (f foreign) result(token string, r engine.Result) row {
	set := row{completedByAttr: text(token), f.StatusAttr: text(theirCompleted)}
	data, ok := f.dataOf(r)
	switch {
	case r.Kind == engine.Failure:
		set[f.StatusAttr] = text(ourFailure)
	case r.Kind == engine.Missing:
		set[f.StatusAttr] = text(ourMissing)
	case !ok:
		set[f.StatusAttr] = text(ourValue)
	default:
		set[f.DataAttr] = data
		if back, _ := f.jsonOf(data); string(back) == string(r.Body) {
			return set
		}
	}
	set[typeAttr], set[bodyAttr] = text(r.ContentType), binary(r.Body)
	return set
}

// mostGrowth is how many times larger a text can be as an attribute, and beside the text.
const mostGrowth = 3

// dataOf returns a result as the attribute that they read, and false if it cannot be one.
func (f foreign) dataOf(r engine.Result) (types.AttributeValue, bool) {
	if r.Kind != engine.Value || r.ContentType != jsonType || !utf8.Valid(r.Body) || !json.Valid(r.Body) {
		return nil, false
	}
	if f.Format == powertools.Python {
		return text(string(r.Body)), true
	}
	if mostGrowth*len(r.Body) > f.maxResult() {
		return nil, false
	}
	return toAttribute(r.Body)
}

// jsonOf returns the JSON of an attribute of theirs. They leave out the data of a function that returns nothing.
func (f foreign) jsonOf(data types.AttributeValue) ([]byte, error) {
	if data == nil {
		return []byte("null"), nil
	}
	if f.Format == powertools.TypeScript {
		return fromAttribute(data)
	}
	t, ok := data.(*types.AttributeValueMemberS)
	if !ok {
		return nil, errNoText
	}
	return []byte(t.Value), nil
}

// foreignRow is the part of a row of which the names are known.
type foreignRow struct {
	Token       string `dynamodbav:"oncebox_token"`
	Number      *int64 `dynamodbav:"oncebox_number"`
	CompletedBy string `dynamodbav:"oncebox_completed_by"`
	ContentType string `dynamodbav:"oncebox_content_type"`
	Body        []byte `dynamodbav:"oncebox_body"`

	Status     string `dynamodbav:"status"`
	Expiry     int64  `dynamodbav:"expiry"`
	LeaseEnd   *int64 `dynamodbav:"lease_end"`
	Validation string `dynamodbav:"validation"`
}

func (f foreign) read(item row, date time.Time) (*engine.Record, error) {
	if len(item) == 0 {
		return nil, nil
	}
	known := row{
		"status": item[f.StatusAttr], "expiry": item[f.ExpiryAttr], "lease_end": item[f.InProgressExpiryAttr],
		"validation": item[f.ValidationKeyAttr],
	}
	for _, name := range []string{tokenAttr, numberAttr, completedByAttr, typeAttr, bodyAttr} {
		known[name] = item[name]
	}
	maps.DeleteFunc(known, func(_ string, v types.AttributeValue) bool { return v == nil })
	var r foreignRow
	if err := dynamo.Decode(known, &r); err != nil {
		return nil, err
	}
	expiry := time.Unix(r.Expiry, 0).UTC()
	record := engine.Record{
		Status: engine.InProgress, Token: r.Token, Number: numberOf(r), Expiry: expiry, PurgeAt: expiry,
		LeaseEnd: leaseOf(r.LeaseEnd, expiry),
	}
	if f.Validation {
		record.Payload = r.Validation
	}
	kind, ok := kinds[r.Status]
	switch {
	case known["expiry"] != nil && r.Status == theirInProgress:
		return &record, nil
	case known["expiry"] != nil && !ok && date.After(expiry.Add(expired)):
		kind = engine.Missing // a call takes the row over
	case known["expiry"] == nil || !ok:
		return nil, fmt.Errorf("dynamodb: the row of the key has the status %q and the expiry %d in %q and %q: it is no record "+
			"of Powertools with these names", r.Status, r.Expiry, f.StatusAttr, f.ExpiryAttr)
	}
	record.Status, record.CompletedBy = engine.Completed, r.CompletedBy
	record.Result = engine.Result{Kind: kind, ContentType: r.ContentType, Body: r.Body}
	if r.Status == theirCompleted {
		record.Result = f.resultOf(item[f.DataAttr], record.Result)
	}
	return &record, nil
}

// expired is how long before the Date of a reply the expiry of a row is that has ended by the early clock, too.
const expired = time.Second

// numberOf returns the number of a row. A row of theirs has none: its expiry, which differs from execution to execution,
// takes its place. That is smaller than any number of ours, which are in milliseconds.
func numberOf(r foreignRow) int64 {
	if r.Number == nil {
		return r.Expiry
	}
	return *r.Number
}

// leaseOf returns the end of a lease. A row of theirs without one blocks until it expires.
func leaseOf(end *int64, expiry time.Time) time.Time {
	if end == nil {
		return expiry
	}
	return time.UnixMilli(*end).UTC()
}

// resultOf returns the result in their data. kept is the result in our attributes: it counts if the data was made of it,
// and not by a late completion of theirs.
func (f foreign) resultOf(data types.AttributeValue, kept engine.Result) engine.Result {
	body, err := f.jsonOf(data)
	if err != nil {
		return engine.Result{Kind: engine.Missing, Body: []byte(err.Error())}
	}
	if made, ok := f.dataOf(kept); ok {
		if same, err := f.jsonOf(made); err == nil && string(same) == string(body) {
			return kept
		}
	}
	return engine.Result{Kind: engine.Value, ContentType: jsonType, Body: body}
}
