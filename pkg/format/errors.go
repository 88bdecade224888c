package format

import "fmt"

// BadRecord says that a record can never be processed as it is: it belongs in
// the failure store, alone and whole. Reading it again gives the same answer.
type BadRecord struct { //nolint:errname // it is a record's fate, and callers read errors.As(err, &badRecord)
	Reason string // one of a few fixed texts; never holds anything from the record
}

func (e *BadRecord) Error() string { return "bad record: " + e.Reason }

func bad(reason string) *BadRecord { return &BadRecord{reason} }

// The reasons that concern the record as a whole, or its contexts. What is
// wrong with a text that identifies the record is said in Read's words.
const (
	reasonNotJSON    = "not valid JSON"
	reasonNotObject  = "not a JSON object"
	reasonNoContexts = "the contexts are not an array"
	reasonNoParent   = "what should hold the contexts is not an object"
)

var reasonTooDeep = fmt.Sprintf("nested deeper than %d", MaxDepth)

// OptionError says which option is wrong and what it must look like.
type OptionError struct {
	Option string // the field of Options
	Detail string // what is wrong and what is allowed
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Detail }
