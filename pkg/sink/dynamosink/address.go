package dynamosink

import (
	"strings"

	"github.com/oncebox/oncebox/internal/shared/address"
)

const (
	attributeForm = "NAME=PATH, or a NAME that is the path, too"
	keyForm       = "the partition key of the table, and its sort key after a comma if it has one, each as " + attributeForm
	deleteForm    = "PATH=VALUE, as in op=delete"
)

// standIn replaces a wrong part, so that the other parts are checked, too.
const standIn = "oncebox-stand-in"

// Parse reads dynamodb:TABLE?key=KEY. These are the options, as in ?key=customer=customer.id,n&version=changed_at:
//
//	key      required: the key attributes of the table, NAME=PATH or NAME, with a comma between
//	version  the attribute that says which of two items is newer, NAME=PATH or NAME; default: items are inserted
//	delete   PATH=VALUE of records that delete their item; it needs version
//
// The error is a list of all problems. It repeats no value.
func Parse(text string) (Table, error) {
	a := address.Parse(text)
	t := Table{Name: a.Name}
	if named := (Table{Name: a.Name, Key: standInKey}); a.Scheme != "dynamodb" || named.Validate() != nil {
		a.WrongPlace("does not name a DynamoDB table", "dynamodb:TABLE, where TABLE is 3 to 255 of a-z, A-Z, 0-9, _, . and -")
	}
	a.Required("key", keyForm)
	for _, text := range a.List("key") {
		t.Key = append(t.Key, attribute(a, "key", text, keyForm))
	}
	if len(t.Key) > 2 {
		a.Wrong("key", "has more than two attributes", keyForm)
		t.Key = t.Key[:2]
	}
	if text := a.Text("version"); text != "" {
		t.Version = attribute(a, "version", text, attributeForm)
	}
	if columns := (Table{Name: standIn, Key: t.Key, Version: t.Version}); len(t.Key) > 0 && columns.Validate() != nil {
		a.Wrong("version", "and key name an attribute twice", "attributes that differ")
	}
	if text := a.Text("delete"); text != "" {
		t.DeletePath, t.DeleteValue, _ = strings.Cut(text, "=")
		checkDelete(a, t)
	}
	return t, a.Done("key", "version", "delete")
}

var standInKey = []Attribute{{Name: standIn, Path: standIn}}

// checkDelete refuses a wrong condition for deletes.
func checkDelete(a address.Address, t Table) {
	t.Name, t.Key = standIn, standInKey
	if t.Version == (Attribute{}) {
		a.Wrong("delete", "needs version: without one, an item that comes late would bring back what was deleted",
			"set version, too")
	} else if t.Validate() != nil {
		a.Wrong("delete", "is not the sign of a delete", deleteForm)
	}
}

func attribute(a address.Address, option, text, form string) Attribute {
	parsed, err := ParseAttribute(text)
	if err != nil {
		a.Wrong(option, "is not an attribute with the path of its value", form)
		return Attribute{Name: standIn + option, Path: standIn}
	}
	return parsed
}
