package sqlitestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	setHold = `UPDATE entry SET hold = ?2 WHERE row = ?1`

	finishHeld = `UPDATE entry SET done = 1 WHERE ` + atSlot + ` AND owner = ?4 AND substr(hold, 1, 16) = ?3`
)

// ServerTime returns the time of this machine.
func (s *Store) ServerTime(ctx context.Context, _ string) (time.Time, error) {
	return machineTime(), ctx.Err()
}

func machineTime() time.Time { return time.Now().UTC().Round(0) }

// TakeOver puts the entries whose old ones are unchanged, in one transaction. The errors are as for PutIfAbsent.
func (s *Store) TakeOver(
	ctx context.Context, requests []dedupe.TakeOverRequest,
) ([]dedupe.TakeOverResult, error) {
	results := make([]dedupe.TakeOverResult, len(requests))
	err := s.write(ctx, "take entries over", func(ctx context.Context, w *sqlite.Statements) error {
		for i := range requests {
			var err error
			if results[i].Taken, err = takeOver(ctx, w, &requests[i]); err != nil {
				return fmt.Errorf("entry %d of %d: %w", i, len(requests), err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func takeOver(ctx context.Context, w *sqlite.Statements, r *dedupe.TakeOverRequest) (taken bool, err error) {
	var found dedupe.PutResult
	one := []request{newRequest(&r.Entry, &found)}
	if err := findExisting(ctx, w, one, ""); err != nil || found.Existing == nil || *found.Existing != r.Old {
		return false, err
	}
	return true, replace(ctx, w, one)
}

// Finish marks the entries that have their owners and tokens, in one transaction. The errors are as for PutIfAbsent.
func (s *Store) Finish(ctx context.Context, requests []dedupe.FinishRequest) ([]dedupe.FinishResult, error) {
	results := make([]dedupe.FinishResult, len(requests))
	err := s.write(ctx, "mark entries as done", func(ctx context.Context, w *sqlite.Statements) error {
		for i, r := range requests {
			slot := slotOf(r.Scope, r.Key)
			n, err := w.Exec(ctx, finishHeld, r.Scope, slot[:], r.Token[:], r.Owner[:])
			if err != nil {
				return fmt.Errorf("entry %d of %d: %w", i, len(requests), err)
			}
			results[i].Finished = n == 1
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// hold is a dedupe.Hold as the column stores it: the token, and 8 bytes of the end. NULL is the zero Hold.
type hold dedupe.Hold

func (h hold) bytes() []byte { return binary.BigEndian.AppendUint64(h.Token[:], uint64(h.Ends)) }

// Scan implements sql.Scanner.
func (h *hold) Scan(column any) error {
	*h = hold{}
	if column == nil {
		return nil
	}
	var b [len(h.Token) + 8]byte
	if err := sqlite.IntoBytes(b[:]).Scan(column); err != nil {
		return err
	}
	h.Token, h.Ends = dedupe.Token(b[:]), int64(binary.BigEndian.Uint64(b[len(h.Token):]))
	return nil
}
