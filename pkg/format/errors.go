package format

import "fmt"

// BadRecord means that a record can never be processed, and belongs in the dead-letter store. Reading it again gives
// the same error.
type BadRecord struct { //nolint:errname // it describes a record, and callers read errors.As(err, &badRecord)
	Reason string // one of a few fixed texts, which contain nothing of the record
}

func (e *BadRecord) Error() string { return "bad record: " + e.Reason }

func bad(reason string) *BadRecord { return &BadRecord{reason} }

// The reasons about the whole record and about its contexts. Read has the reasons about the strings that identify it.
const (
	reasonNotJSON   = "not valid JSON"
	reasonNotObject = "not a JSON object"
	// RFC 8259 (section 4) leaves open which of two members counts. Most readers take the last one. So they could see
	// another id than the one by which a record is deduplicated.
	reasonTwice      = "a member on the path of the id is there twice"
	reasonNoContexts = "the contexts are not an array"
	reasonNoParent   = "a parent of the contexts is not an object"
)

var reasonTooDeep = fmt.Sprintf("nested deeper than %d", MaxDepth)

// OptionError says which option is wrong, and what is allowed.
type OptionError struct {
	Option string // the field of Options
	Detail string // what is wrong and what is allowed
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Detail }
