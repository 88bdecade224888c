package main

import (
	"os"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
)

const demoText = `Claims: 100 voucher codes in a bank on sqlite, 4 containers of the claim function
  1. load a file of 100 codes                  100 added
  2. 20 customers send 100 requests at once    20 new claims, 80 repeats; 20 claimed, 80 free
  3. the same 20 customers ask again           20 of 20 got the same code
  4. 85 other customers ask                    80 got a code, 5 were told "sold out"; 0 free
  5. the first 20 customers ask once more      20 of 20 got the same code
  6. load the same file again                  0 added, 100 known; 0 free

Records: 10000 records through the dedupe function into a file
     7600 orders, 397 other orders with a used id, 2000 duplicates, 3 broken records
  7. the producer sends all records            7997 delivered, each under its own id; 3 dead letters
  8. the producer sends all records again      0 delivered

Idempotency: 100 callers with 20 keys, 4 workers, and a payment provider that counts its charges
  9. a worker begins and freezes for 10s       its lease of 5s is over; 0 charges
 10. 99 other callers call at once             20 charges for 20 keys
 11. the worker wakes and charges, too late    refused by its number: 20 charges, 1 refused
 12. all callers compare their receipts        100 of 100 are the provider's, byte for byte

Every check passed: no code was given to two customers; no record was lost or delivered twice;
no order was charged twice.
`

func TestDemo(t *testing.T) {
	s := newShell(t)
	if got := s.run(exitDone, "demo").stdout; got != demoText {
		s.Errorf("want\n%s\ngot\n%s", demoText, got)
	}
	s.demoCounts(demoRecordsResult{Sent: 10_000, Delivered: 7997, Distinct: 7997, DeadLetters: 3})
}

func TestDemoOnDynamoDBAndKinesis(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	s.env = append(localEngine(testengine.Dynoxide(t)), "AWS_ENDPOINT_URL_KINESIS="+testengine.Kinesis(t))
	s.demoCounts(demoRecordsResult{Sent: 2000, Delivered: 1597, Distinct: 1597, DeadLetters: 3})
}

// demoCounts runs the demo with JSON output and compares its numbers.
func (s *shell) demoCounts(want demoRecordsResult) {
	s.Helper()
	var r demoResult
	s.json(&r, "demo")
	storm, all := itembank.Counts{Loaded: 100, Free: 80, Claimed: 20}, itembank.Counts{Loaded: 100, Claimed: 100}
	if r.AfterStorm != storm || r.AfterAll != all {
		s.Errorf("unexpected counts %+v", r)
	}
	if r.Records != want {
		s.Errorf("want %+v, got %+v", want, r.Records)
	}
	if calls := (demoCallsResult{Callers: 100, Keys: 20, Charges: 20, Refused: 1, Same: 100}); r.Calls != calls {
		s.Errorf("want %+v, got %+v", calls, r.Calls)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		s.Errorf("the demo left files behind: %v, %v", left, err)
	}
}
