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
	reasonNoFields  = "the format returned no id or no fingerprint"
)

// PoisonError says why a record can never be processed. The reason is a fixed text and never holds data of the
// record.
type PoisonError struct{ Reason string }

func (e *PoisonError) Error() string { return "poison record: " + e.Reason }

// aboutRecord sorts an error about one record. An error that may pass by itself stays as it is; every other error makes
// the record poison. Texts of unknown errors may hold data of the record, so only their type is told.
func aboutRecord(err error) error {
	if bad, ok := errors.AsType[*format.BadRecord](err); ok {
		return &PoisonError{bad.Reason}
	}
	if poison, ok := errors.AsType[*PoisonError](err); ok {
		return poison
	}
	if passes(err) {
		return err
	}
	return &PoisonError{fmt.Sprintf("it cannot be handled (%T)", err)}
}

// poisonOnPanic makes a record poison when handling it panics. It is deferred.
func poisonOnPanic(err *error) {
	if recover() != nil {
		*err = &PoisonError{reasonPanic}
	}
}
