// Package memledger is a ledger in memory that ends with the process, for `oncebox dedupe --ledger :memory:`. It
// keeps only the data of a record that decides about other records: 56 bytes, and less than 8 more for its place.
package memledger

import (
	"context"
	"sync"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Ledger is a ledger in memory. It is safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	scopes map[string]*table
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{scopes: map[string]*table{}} }

// Enter implements dedupe.Ledger. If ctx has ended, it has no effect.
func (l *Ledger) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := l.scopes[q.Scope]
	if t == nil {
		t = newTable()
		l.scopes[q.Scope] = t
	}
	return dedupe.EnterInOrder(t, q), nil
}
