package dynamosink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
)

// The attributes that the sink adds to the items of a table with versions.
const (
	// KeyAttribute is the ledger key of the record that wrote the item. It decides between equal versions.
	KeyAttribute = "oncebox_key"
	// DeletedAttribute is true in the item that a delete leaves.
	DeletedAttribute = "oncebox_deleted"
)

// The limits of keys (DynamoDB Developer Guide, "Quotas and limits").
const longestPartitionKey, longestSortKey = 2048, 1024

// The reasons why a record can never be written.
const (
	reasonNoKey     = "a key attribute of its item is missing, empty or too long, or neither a string nor a number"
	reasonNoVersion = "its version is missing or empty, or neither a string nor a number"
	reasonTaken     = "it has another value under the name of a key attribute or of the version"
	reasonReserved  = "it has a member oncebox_key or oncebox_deleted, which the sink writes itself"
	reasonThere     = "the table has an item with its key already"
	reasonText      = "its version is a text, but no time in UTC (2027-03-01T09:00:00.250Z), no date, and not letters and " +
		"digits"
	reasonCases    = "its version has capital and small letters: use a number, or letters of one case"
	reasonZone     = "its version is a time without the zone Z: use a number, 2027-03-01T09:00:00Z or 20270301T090000Z"
	reasonUnproven = "the item in the table has no version of the type, length, form and case of its version, so it is " +
		"not known which is newer"
)

// Table says how records become items of a table.
type Table struct {
	Name string
	// Key are the key attributes of the table: the partition key, and the sort key if there is one.
	Key []Attribute
	// Version is the attribute that decides which of two items is newer: an ascending number, or a string of one form,
	// length and case (see the package comment). The zero value means that there is no version, and items are inserted.
	Version Attribute
	// DeletePath and DeleteValue select the records that are deletes: those with this string, number or boolean at
	// the path. They need a Version. "" means that no record is a delete.
	DeletePath, DeleteValue string
}

// Attribute is an attribute of an item, with the path of its value in the record, in the syntax of format.Options.
type Attribute struct{ Name, Path string }

// ParseAttribute reads NAME=PATH, or a NAME that is also the path.
func ParseAttribute(text string) (Attribute, error) {
	name, path, both := strings.Cut(text, "=")
	if !both {
		path = name
	}
	a := Attribute{name, path}
	parts, err := a.path()
	if err == nil && !both && len(parts) > 1 {
		err = errors.New("a path of several parts needs a name: NAME=PATH")
	}
	return a, err
}

func (a Attribute) path() (path, error) {
	if a.Name == "" || len(a.Name) > 255 || a.Name == KeyAttribute || a.Name == DeletedAttribute {
		return nil, fmt.Errorf("%q is not the name of an attribute for it", a.Name)
	}
	return format.ParsePath("path", a.Path)
}

// tableName is DynamoDB's naming rule (Developer Guide, "Naming rules"). The length is checked separately.
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// table is a Table that was checked.
type table struct {
	name      string
	key       []column
	version   *column // nil: items are inserted
	deletion  path    // nil: no record is a delete
	deletedBy string
}

// column is an attribute whose value the sink takes from a path.
type column struct {
	name string
	path path
}

// New makes a Sink that writes records as items of a table. It sends no request. The error says what is wrong with t.
// The client of the store needs the permission dynamodb:PutItem on the table.
func New(store Store, t Table) (*Sink, error) {
	checked, err := t.parse()
	if err != nil {
		return nil, fmt.Errorf("dynamodb sink: %w", err)
	}
	return &Sink{store, checked.effect, checked.judge, checked.check}, nil
}

// Validate returns an error if a Table is wrong.
func (t Table) Validate() error {
	_, err := t.parse()
	return err
}

func (t Table) parse() (*table, error) {
	if len(t.Name) < 3 || len(t.Name) > 255 || !tableName.MatchString(t.Name) {
		return nil, fmt.Errorf("%q is not the name of a table: use 3 to 255 of a-z, A-Z, 0-9, _, . and -", t.Name)
	}
	if len(t.Key) < 1 || len(t.Key) > 2 {
		return nil, fmt.Errorf("%d key attributes; name the partition key of the table, and its sort key if it has one",
			len(t.Key))
	}
	out := &table{name: t.Name}
	names := map[string]bool{}
	add := func(a Attribute) (column, error) {
		p, err := a.path()
		if err == nil && names[a.Name] {
			err = fmt.Errorf("the attribute %q is named twice", a.Name)
		}
		names[a.Name] = true
		return column{a.Name, p}, err
	}
	for _, a := range t.Key {
		c, err := add(a)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		out.key = append(out.key, c)
	}
	if t.Version != (Attribute{}) {
		c, err := add(t.Version)
		if err != nil {
			return nil, fmt.Errorf("version: %w", err)
		}
		out.version = &c
	}
	return out, t.parseDelete(out)
}

func (t Table) parseDelete(out *table) (err error) {
	switch {
	case t.DeletePath == "" && t.DeleteValue == "":
		return nil
	case t.DeletePath == "" || t.DeleteValue == "":
		return errors.New("delete: a path and a value are needed")
	case out.version == nil:
		return errors.New("delete: it needs a version: without one, an item that comes late would bring back what was deleted")
	}
	out.deletedBy = t.DeleteValue
	if out.deletion, err = format.ParsePath("path", t.DeletePath); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

func (t *table) check(o dedupe.Output) error {
	_, err := t.itemOf(o)
	return err
}

// itemOf makes the item of a record. The error is a *dedupe.PoisonError.
func (t *table) itemOf(o dedupe.Output) (item, error) {
	record, err := decode(o.Data)
	if err != nil {
		return nil, err
	}
	out := record
	if t.deletion != nil && textOf(record.at(t.deletion)) == t.deletedBy {
		out = item{DeletedAttribute: &types.AttributeValueMemberBOOL{Value: true}}
	} else if t.version != nil && (record[KeyAttribute] != nil || record[DeletedAttribute] != nil) {
		return nil, poison(reasonReserved)
	}
	longest := longestPartitionKey
	for _, c := range t.key {
		v := record.at(c.path)
		if !isScalar(v) || len(textOf(v)) > longest {
			return nil, poison(reasonNoKey)
		}
		if err := out.add(c, v); err != nil {
			return nil, err
		}
		longest = longestSortKey
	}
	if t.version != nil {
		v := record.at(t.version.path)
		if err := checkVersion(v); err != nil {
			return nil, err
		}
		if err := out.add(*t.version, v); err != nil {
			return nil, err
		}
		out[KeyAttribute] = recordKey(o)
	}
	if out.size() > largestItem {
		return nil, poison(reasonTooLarge)
	}
	return out, nil
}

// add sets an attribute whose value comes from a path.
func (i item) add(c column, v types.AttributeValue) error {
	if old := i[c.name]; old != nil && (len(c.path) > 1 || c.path[0] != c.name) {
		return poison(reasonTaken)
	}
	i[c.name] = v
	return nil
}

func recordKey(o dedupe.Output) *types.AttributeValueMemberB {
	key := format.KeyOf(o.ID)
	return &types.AttributeValueMemberB{Value: key[:]}
}

// effect puts the item of a record.
func (t *table) effect(_ context.Context, o dedupe.Output) ([]types.TransactWriteItem, error) {
	i, err := t.itemOf(o)
	if err != nil {
		return nil, err
	}
	put := &types.Put{
		TableName: &t.name, Item: i, ConditionExpression: aws.String("attribute_not_exists(#k)"),
		ExpressionAttributeNames:            map[string]string{"#k": t.key[0].name},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if t.version != nil {
		t.onlyIfOlder(put)
	}
	return []types.TransactWriteItem{{Put: put}}, nil
}

// judge compares the version of a record with that of the item in the table, which came back with the failed condition.
// The record is superseded only if the item has a version that is not older.
func (t *table) judge(o dedupe.Output, failed []dynamostore.FailedCondition) (superseded bool, err error) {
	if t.version == nil {
		return false, poison(reasonThere)
	}
	i, err := t.itemOf(o)
	if err != nil {
		return false, err
	}
	old := failed[0].Old
	order, same := compare(old[t.version.name], i[t.version.name])
	if same && order == 0 {
		order = compareKeys(old[KeyAttribute], i[KeyAttribute])
	}
	switch {
	case !same:
		return false, poison(reasonUnproven)
	case order < 0: // the condition on the item must have been true
		return false, fmt.Errorf("%w: the condition on the item failed, and the item is older", dedupe.ErrTryAgain)
	}
	return true, nil
}

// compareKeys compares the ledger keys of two items. An item without a key, which another program wrote, stays.
func compareKeys(old, mine types.AttributeValue) int {
	a, okA := old.(*types.AttributeValueMemberB)
	b, okB := mine.(*types.AttributeValueMemberB)
	if !okA || !okB {
		return 0
	}
	return bytes.Compare(a.Value, b.Value)
}

func poison(reason string) error { return &dedupe.PoisonError{Reason: reason} }
