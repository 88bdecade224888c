package dedupe

import (
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/format"
)

// The reasons why this package makes a record poison.
const (
	reasonAggregate = "a KPL aggregate with a good digest and a broken message"
	reasonTooMuch   = "it opens to more than 100,000 records, or to more bytes than the limit"
	reasonPanic     = "handling the record panicked"
	reasonNoID      = "its id and all ids derived from it are used by other records"
	reasonTooOld    = "older than the horizon of the ledger: the record of which it is a copy may be forgotten"
	reasonNoFields  = "the format returned no id or no fingerprint"
)

// PoisonError says why a record can never be processed. The reason is a fixed text that never contains data of the
// record.
type PoisonError struct{ Reason string }

func (e *PoisonError) Error() string { return "poison record: " + e.Reason }

// aboutRecord classifies an error about one record. It returns an error that may pass unchanged, and makes any other
// error a PoisonError. The text of an unknown error may contain data of the record, so only its type is reported.
func aboutRecord(err error) error {
	if mayPass(err) {
		return err
	}
	if bad, ok := errors.AsType[*format.BadRecord](err); ok {
		return &PoisonError{bad.Reason}
	}
	if poison, ok := errors.AsType[*PoisonError](err); ok {
		return poison
	}
	return &PoisonError{fmt.Sprintf("it cannot be handled (%T)", err)}
}

// poisonOnPanic makes a record poison if handling it panics. It must be deferred.
func poisonOnPanic(err *error) {
	if recover() != nil {
		*err = &PoisonError{reasonPanic}
	}
}
