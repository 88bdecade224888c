// Package memledger is a ledger in memory that ends with the process: that of `oncebox dedupe --ledger :memory:`. It
// keeps of a record only what decides about others: 56 bytes, and less than 8 more for its place.
package memledger

import (
	"context"
	"sync"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Ledger is safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	scopes map[string]*table
}

// New makes an empty ledger.
func New() *Ledger { return &Ledger{scopes: map[string]*table{}} }

// Enter is that of dedupe.Ledger. If ctx has ended it does nothing.
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
