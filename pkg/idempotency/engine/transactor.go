package engine

import "context"

// Effects are writes of a caller that belong to the completion of a record. Each engine has a type of its own for them.
type Effects any

// Transactor is a Store that completes a record together with effects, in one transaction.
type Transactor interface {
	Store
	// CheckEffects returns an error if the store can never make the effects with the record of the key: they are for
	// another engine, too many, or on the record itself. It sends nothing.
	CheckEffects(key Key, effects Effects) error
	// CompleteWith is Complete together with the effects: all of it is done, or nothing. The condition of the record
	// decides first. If it fails, the answer is the answer of Complete, whatever becomes of the effects. If it holds and
	// the store refuses an effect, the error is a *RefusedError: this call has written nothing and never will. While the
	// store is busy, nothing is decided: the error belongs to the family ErrTryAgain.
	//
	// All calls with a key and a token have the same content. So an engine may answer a repeat of a call that was done
	// with Done, without a look at the row.
	CompleteWith(ctx context.Context, key Key, token string, completion Completion, effects Effects) (Answer, error)
}

// RefusedError says that a store refuses effects.
type RefusedError struct{ Reason error } // for the caller of the function; it names the effect

func (e *RefusedError) Error() string { return "effects are refused: " + e.Reason.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }
