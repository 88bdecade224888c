package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Effects are writes in the store of the record. The engine makes them: see Effects of packages dynamostore and
// sqlitestore.
type Effects = engine.Effects

// Commit makes writes a part of the completion: the store does them together with the result, in one transaction, or
// does nothing. So they happen once for the key (I7). A function calls Commit before it returns. Another Commit replaces
// the effects of the one before. If the function returns an error, also a final one, or if another execution has
// completed the key, they do not happen.
//
// All tries of the transaction say the same, so the window counts from the first one. A try can arrive 15 minutes late:
// with a shorter window its record may have expired by then, and the next call runs the function again.
//
// If the store refuses the effects, that is a failure of the function: the call frees the key, and returns an error of
// the engine that names the effect. Such a failure is never final: a mark of Final on it does not count. An Execution
// that no Runner has made drops effects.
func (e Execution) Commit(effects Effects) {
	if e.effects != nil {
		*e.effects = effects
	}
}

// checkEffects makes effects that the store cannot do a failure of the function. It drops the effects of a function that
// has failed.
func (h *hold) checkEffects(f *returned) {
	if _, isBroken := errors.AsType[*unstorable](f.err); f.err != nil && !isBroken {
		f.effects = nil
	}
	if f.effects == nil {
		return
	}
	store, ok := h.r.store.(engine.Transactor)
	if !ok {
		f.err = errNoEffects
	} else if err := store.CheckEffects(h.key, f.effects); err != nil {
		f.err = fmt.Errorf("idempotency: the effects of the function: %w", err)
	}
}

var errNoEffects = errors.New("idempotency: the function has effects, and this store cannot do them together with a result")

// sendCompletion sends a completion, with the effects if there are some. If an effect is a function and panics, the key
// becomes free.
func (h *hold) sendCompletion(
	ctx context.Context, completion engine.Completion, effects Effects,
) (a engine.Answer, err error) {
	if effects == nil {
		return h.r.store.Complete(ctx, h.key, h.token, completion)
	}
	ended := false
	defer func() {
		if !ended {
			_, _ = h.release(ctx)
		}
	}()
	a, err = h.r.store.(engine.Transactor).CompleteWith(ctx, h.key, h.token, completion, effects)
	ended = true
	return a, err
}

// refused gives the key back after the store has refused the effects, and returns why. An earlier try may still be on
// its way, and its effects may be accepted when it arrives. The release stops it: it changes the token. If it finds the
// record completed by this execution, that try has arrived before. If it is not confirmed, the try may arrive later. If
// it finds no row, or the row of another execution, the try may have arrived before, and its record has ended since.
func (h *hold) refused(ctx context.Context, f *returned, reason error) (*engine.Record, *returned, error) {
	row, err := h.release(ctx)
	switch {
	case h.completed(row):
		return row, f, nil
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return nil, nil, causeOf(reason)
}
