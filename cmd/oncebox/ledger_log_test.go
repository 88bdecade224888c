package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgerdynamo "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// logShell has tables of its own, and a function with a log ledger of two lanes.
type logShell struct {
	*shell
	log *ledgerdynamo.Log
	// arrival is the arrival time of all records of events and letters. It is later than the commands, which import at
	// their own time. So the epoch that it begins does not end during the test, at any time of day.
	arrival time.Time
}

func newLogShell(t *testing.T) logShell {
	s := newShell(t)
	endpoint, tables := testengine.Dynoxide(t), rand.Text()
	s.env = append(localEngine(endpoint), "ONCEBOX_BANK_TABLE=bank-"+tables, "ONCEBOX_DEDUPE_TABLE=dedupe-"+tables,
		"ONCEBOX_LEDGER=log?lanes=2", "ONCEBOX_ID_PATH=order.id", "ONCEBOX_SCOPE=orders",
		"ONCEBOX_SINK=ndjson:out.ndjson", "ONCEBOX_DEAD_LETTERS=dir:failed")
	s.run(exitDone, "init")
	log := ledgerdynamo.NewLog(itembankengines.Client(endpoint, nil), "dedupe-"+tables)
	return logShell{s, log, time.Now().Add(30 * time.Minute)}
}

// event returns an event with the ids from first to last. sequence is its first sequence number.
func (s logShell) event(sequence, first, last int) string {
	s.Helper()
	type object = map[string]any
	var records []object
	for id := first; id <= last; id++ {
		records = append(records, object{
			"eventID": fmt.Sprint("shardId-000000000000:", sequence), "eventSource": "aws:kinesis",
			"eventSourceARN": "arn:aws:kinesis:eu-west-1:123456789012:stream/orders",
			"kinesis": object{
				"sequenceNumber": fmt.Sprint(sequence), "partitionKey": "pk",
				"data":                        fmt.Appendf(nil, `{"order":{"id":"order-%d"}}`, id),
				"approximateArrivalTimestamp": s.arrival.Unix(),
			},
		})
		sequence++
	}
	text, err := json.Marshal(object{"Records": records})
	if err != nil {
		s.Fatal(err)
	}
	return s.file(fmt.Sprint("event", sequence, ".json"), string(text))
}

// TestLogLedger: the handler, redrive, import and the commands about ledgers work on one log.
func TestLogLedger(t *testing.T) {
	s := newLogShell(t)
	for _, command := range []string{"stat", "verify"} {
		s.run(exitNo, "ledger", command, "--scope", "orders").saying(t, "there is no log ledger in the scope orders")
	}
	s.deadLetters("failed", 12, s.arrival)

	// A whole batch takes an append for each lane.
	s.run(exitDone, "invoke", "dedupe", s.event(100, 0, 9)).saying(t, `"new":10`, `"ledger_appends":2,"ledger_conflicts":0`,
		`"ledger_memory_limit":2147483648`)
	s.run(exitDone, "invoke", "dedupe", s.event(200, 0, 9)).saying(t, `"natural":10`, `"ledger_appends":0`)
	// With one row a key, all of the letters would be new.
	env := s.env
	s.env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "ONCEBOX_LEDGER") })
	s.run(exitFailed, "redrive", "run").saying(t, "the scope orders has a log ledger")
	s.env = env
	// Two of the letters are new.
	s.run(exitDone, "redrive", "run", "--set", "ledger=log?lanes=2&memory=64MiB").saying(t, "done 12", "delivered 2, dropped 10")
	if ids := s.delivered(); len(ids) != 12 {
		t.Errorf("delivered: %v", ids)
	}
	past := s.file("past", `{"order":{"id":"order-11"}}`+"\n"+`{"order":{"id":"order-12"}}`+"\n")
	importing := []string{"ledger", "import", past, "--id-path", "order.id", "--scope", "orders"}
	s.run(exitUsage, importing...).saying(t, "the scope orders has a log ledger", "`oncebox ledger import --ledger log`")
	deduping := []string{"dedupe", past, "--id-path", "order.id", "--scope", "orders", "--dead-letters", "bad"}
	env = s.env
	s.env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "ONCEBOX_SINK") })
	s.run(exitUsage, deduping...).saying(t, "the scope orders has a log ledger")
	s.run(exitUsage, append(deduping, "--dry-run")...).saying(t, "the scope orders has a log ledger")
	s.env = env
	s.run(exitUsage, append(importing, "--ledger", "log?lanes=2")...).saying(t, "--ledger log?lanes=2 needs --window")
	s.run(exitUsage, append(importing, "--ledger", "log?lanes=257", "--window", "48h")...).saying(t, "option lanes is out of range or not a number (allowed: a whole number from 1 to 256)")
	s.run(exitUsage, append(importing, "--window", "48h", "--ledger", "valkey://cache:6379")...).saying(t, "--ledger valkey: the entries of an import are in a file")
	s.run(exitFailed, append(importing, "--ledger", "log?lanes=3", "--window", "48h")...).saying(t, `the scope "orders" has 2 lanes`)
	s.run(exitDone, append(importing, "--ledger", "log?lanes=2", "--window", "48h")...).saying(t, "entered 1 + known 0 + late 1")
	s.run(exitDone, "invoke", "dedupe", s.event(300, 11, 13)).saying(t, `"new":1`, `"natural":2`)

	var stat ledgerStat
	s.json(&stat, "ledger", "stat", "--scope", "orders")
	items := stat.Lanes[0].Items + stat.Lanes[1].Items
	if stat.Entries != 14 || stat.Memory != int64(31*14+88*items) || stat.Window != "2d" || len(stat.Lanes) != 2 || stat.Units < 2 ||
		stat.Lanes[0].Entries+stat.Lanes[1].Entries != 14 || time.Since(stat.Lanes[0].Latest) > time.Hour {
		t.Errorf("%+v", stat)
	}
	s.run(exitDone, "ledger", "stat", "--scope", "orders").saying(t, "14 entries may count", "memory that a process needs: 0.0 MiB")
	s.run(exitDone, "ledger", "stat", "--scope", "orders", "--arrival", "2020-01-01").saying(t, "14 entries may count")
	s.run(exitDone, "ledger", "verify", "--scope", "orders").saying(t, "no violation: 2 lanes, 2 epochs (0 purged)", "14 rows (0 derived")
	s.run(exitDone, "ledger", "explain", "order-3", "--scope", "orders").saying(t, "counts       yes, for arrivals from", "epoch 0, item ")
	s.run(exitNo, "ledger", "explain", "order-99", "--scope", "orders").saying(t, "no entry")
	explaining := []string{"ledger", "explain", "--scope", "orders", "--id-path", "order.id", "--record"}
	s.run(exitDone, append(explaining, past)...).saying(t, "answer       natural duplicate")
	other := s.file("other", `{"order":{"id":"order-3"},"v":2}`)
	s.run(exitDone, append(explaining, other)...).saying(t, "answer       synthetic duplicate")
	later := append(explaining, other, "--arrival", time.Now().Add(96*time.Hour).Format(time.RFC3339))
	s.run(exitDone, later...).saying(t, "counts       no, for arrivals from", "answer       new")
}

// TestValkeyLedger: entries are on the server, and acks and consumers in the store.
func TestValkeyLedger(t *testing.T) {
	s := logShell{shell: newShell(t), arrival: time.Now()}
	s.env = []string{"ONCEBOX_LEDGER=valkey://" + testengine.Valkey(t), "ONCEBOX_ID_PATH=order.id", "ONCEBOX_SCOPE=" + strings.ToLower(rand.Text()),
		"ONCEBOX_SINK=ndjson:out.ndjson", "ONCEBOX_DEAD_LETTERS=dir:failed"}
	s.run(exitDone, "init")
	s.deadLetters("failed", 0, s.arrival)
	first := s.event(100, 0, 9)
	s.run(exitDone, "invoke", "dedupe", first).saying(t, `"new":10`)
	s.run(exitDone, "invoke", "dedupe", first).saying(t, `"skipped":10`)
	s.run(exitDone, "invoke", "dedupe", s.event(200, 5, 14)).saying(t, `"new":5`, `"natural":5`)
	s.until("SELECT NOT EXISTS (SELECT 1 FROM entry)")
}

// TestLedgerVerifyFinds checks that each problem in a log has its own line, and the exit code.
func TestLedgerVerifyFinds(t *testing.T) {
	s := newLogShell(t)
	s.run(exitDone, "invoke", "dedupe", s.event(100, 0, 9))
	s.appendAgain(s.Context())
	s.run(exitLook, "ledger", "verify", "--scope", "orders").
		saying(t, "lane 0, epoch 0, item 1: the record has two rows", "the log of the scope orders has ")
	var found ledgerVerified
	r := s.run(exitLook, "--output", "json", "ledger", "verify", "--scope", "orders")
	if err := json.Unmarshal([]byte(r.stdout), &found); err != nil || found.Problems == 0 || found.Problems != len(found.Found) {
		t.Errorf("%v: %s", err, r.stdout)
	}
}

// appendAgain appends the first item of a lane a second time.
func (s logShell) appendAgain(ctx context.Context) {
	s.Helper()
	at := logledger.Place{LaneID: logledger.LaneID{Scope: "orders"}}
	items, _, err := s.log.Read(ctx, at, 1, true)
	if err != nil || len(items) != 1 {
		s.Fatal(items, err)
	}
	at.Index = 1
	if existing, err := s.log.Append(ctx, at, items[0].Data, dedupe.Never); err != nil || existing != nil {
		s.Fatal(existing, err)
	}
}
