package sqlitestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// The ledger finds a record again after the program was restarted.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	names := map[dedupe.Outcome]string{dedupe.New: "new", dedupe.Retry: "retry", dedupe.Natural: "natural duplicate"}
	for _, line := range []string{"1", "1", "2"} { // line 1 comes again; line 2 is a copy of it
		decision, err := decide(filepath.Join(dir, "seen.db"), line)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("line %s: %s\n", line, names[decision.Outcome])
	}
	// Output:
	// line 1: new
	// line 1: retry
	// line 2: natural duplicate
}

func decide(file, line string) (decision dedupe.Decision, err error) {
	ctx := context.Background()
	ledger, err := sqlitestore.Create(ctx, file)
	if err != nil {
		return decision, err
	}
	defer func() { _ = ledger.Close() }() // each write is on the disk
	decider := dedupe.Decider{Ledger: ledger, Scope: "orders", Retention: dedupe.Retention{ForGood: true}}
	decision = decider.Decide(ctx, []dedupe.Candidate{{
		ID: "order-1", Fingerprint: "5.00", Arrival: time.Now(),
		Owner: dedupe.Owner{Source: "orders.csv", Sequence: line, Sub: dedupe.Plain},
	}})[0]
	return decision, decision.Err
}
