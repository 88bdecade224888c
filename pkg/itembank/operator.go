package itembank

import (
	"sync"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Operator manages campaigns: it makes, fills, changes, checks and closes them. It is for the command line, sweeps and
// programs of operators. It is safe for concurrent use.
//
// It has the methods of its Bank, too. A program that does both makes an Operator and serves claimants with its Bank.
// Then requests see the operator's changes at once.
type Operator struct {
	*Bank

	lanes lanes // of sweeps

	sampling sync.Mutex // guards samples
	samples  float64    // the random offset of CountFree's samples, 0 to 1; 0: not chosen yet
}

// NewOperator makes an Operator over a store.
func NewOperator(store engine.Store, options ...Option) *Operator {
	o := newOptions(options)
	return &Operator{Bank: newBank(store, o), lanes: lanes{most: o.lanes}}
}
