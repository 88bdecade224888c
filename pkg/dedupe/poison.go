package dedupe

import (
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/format"
)

// The reasons for which this package makes a record poison.
const (
	reasonAggregate = "a KPL aggregate with a good digest and a broken message"
	reasonPanic     = "handling the record panicked"
	reasonNoID      = "its id and all ids derived from it are used by other records"
)

// PoisonError says why a record can never be processed. The reason is a fixed text and never holds data of the
// record.
type PoisonError struct{ Reason string }

func (e *PoisonError) Error() string { return "poison record: " + e.Reason }

// poisonOf makes a reason of an error about one record. Texts of unknown errors may hold data of the record, so only
// their type is told.
func poisonOf(err error) *PoisonError {
	if bad, ok := errors.AsType[*format.BadRecord](err); ok {
		return &PoisonError{bad.Reason}
	}
	if poison, ok := errors.AsType[*PoisonError](err); ok {
		return poison
	}
	return &PoisonError{fmt.Sprintf("it cannot be handled (%T)", err)}
}

// poisonOnPanic makes a record poison when handling it panics. It is deferred.
func poisonOnPanic(poison **PoisonError) {
	if recover() != nil {
		*poison = &PoisonError{reasonPanic}
	}
}
