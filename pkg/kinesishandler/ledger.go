package kinesishandler

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// LedgerSetting says which ledger has the entries. The zero value is one row a key, in the store of acks and consumers.
type LedgerSetting struct {
	Log    bool  // the log ledger: see package logledger
	Lanes  int   // of the log ledger; 0: logledger.DefaultLanes
	Memory int64 // bytes of entries of the log ledger in memory; 0: logledger.DefaultMemory
}

// The values of ONCEBOX_LEDGER.
const (
	ledgerKeys    = "keys"
	ledgerLog     = "log"
	allowedLedger = ledgerKeys + " or " + ledgerLog
)

// IsLedger reports whether a text is meant for ONCEBOX_LEDGER. Programs that share the environment with the function can
// tell it from a value of their own.
func IsLedger(text string) bool { return text == ledgerKeys || text == ledgerLog || isValkey(text) }

func isValkey(text string) bool {
	return strings.HasPrefix(text, "valkey://") || strings.HasPrefix(text, "valkeys://")
}

// Shares of the memory of a function, in percent. What entries leave is for the records of a batch, the program, and
// memory that the garbage collector has not freed yet.
const (
	usualShare   = 60 // for entries
	largestShare = 80 // for entries
	// runtimeShare is for the Go runtime: "leave an additional 5-10% of headroom to account for memory sources the Go
	// runtime is unaware of" (A Guide to the Go Garbage Collector, "Suggested uses").
	runtimeShare = 90
)

// smallestMemory has room for some entries in each of 256 lanes.
const smallestMemory = 16 << 20

// ledger reads which ledger has the entries. memory is that of the function, in bytes; 0: it is not known.
func (p parser) ledger(sink SinkSetting, memory int64) LedgerSetting {
	switch text := p.Text(varLedger); {
	case text == "", text == ledgerKeys:
		p.refuseWithoutLog()
		return LedgerSetting{}
	case isValkey(text):
		p.Wrong(varLedger, "names a Valkey server, which is not implemented yet", allowedLedger)
	case text != ledgerLog:
		p.Wrong(varLedger, "is not a known ledger", allowedLedger)
	}
	if sink.Table != "" {
		p.Wrong(varLedger, "is not "+ledgerKeys+", but with "+varSink+"=dynamodb: an item is written in one transaction with "+
			"the row of its key", ledgerKeys)
	}
	if p.Text(varConcurrency) != "" {
		p.Wrong(varConcurrency, "is not a setting of "+varLedger+"="+ledgerLog+", which makes a request for each lane",
			"leave it empty")
	}
	return LedgerSetting{
		Log:    true,
		Lanes:  p.Number(varLedgerLanes, logledger.DefaultLanes, 1, logledger.MostLanes),
		Memory: p.ledgerMemory(memory),
	}
}

// refuseWithoutLog refuses the settings of the log ledger.
func (p parser) refuseWithoutLog() {
	for _, name := range []string{varLedgerLanes, varLedgerMemory} {
		if p.Text(name) != "" {
			p.Wrong(name, "is a setting of "+varLedger+"="+ledgerLog, "leave it empty")
		}
	}
}

func (p parser) ledgerMemory(memory int64) int64 {
	const allowed = "16MiB or more, as in 1GiB"
	bytes := int64(p.Size(varLedgerMemory, int(memory/100*usualShare), smallestMemory, math.MaxInt, allowed))
	if memory > 0 && bytes > memory/100*largestShare {
		p.Wrong(varLedgerMemory, "is above 80% of the memory of the function, which "+varMemorySize+" has in MiB",
			"16MiB to 80% of that")
	}
	return bytes
}

// functionMemory is the memory of the Lambda function in bytes, or 0 outside of Lambda.
func functionMemory(environ []string) int64 {
	mib, err := settings.ParseSize(valueOf(environ, varMemorySize) + "MiB")
	if err != nil {
		return 0
	}
	return int64(mib)
}

// Stores is a Store of several engines: of a ledger that stores no acks, and of an engine that does.
type Stores struct {
	dedupe.Ledger
	dedupe.Acks
	dedupe.Consumers
}

var errOtherLedger = errors.New("kinesishandler: " + varLedger + " names another ledger than the one that the program has " +
	"opened; leave it empty, or make the Store with NewStore")

// ledgerOf returns the engine of the entries. It may be a dedupe.Warmer, and a log ledger has counts.
func ledgerOf(s Store) dedupe.Ledger {
	if of, ok := s.(Stores); ok {
		return of.Ledger
	}
	return s
}

// NewStore makes the Store of the function: on a table of DynamoDB, with the ledger that the options name. It makes no
// request.
func NewStore(client dynamostore.Client, table string, o Options) (Store, error) {
	store := dynamostore.New(client, table, dynamostore.WithConcurrency(o.Concurrency))
	if !o.Ledger.Log {
		return store, nil
	}
	ledger, err := logledger.New(dynamostore.NewLog(client, table), logledger.Options{
		Lanes: o.Ledger.Lanes, Memory: o.Ledger.Memory, Clock: o.Clock,
	})
	return Stores{ledger, store, store}, err
}

// OpenFunction is Open for the function in functions/dedupe, on the Store of its settings.
func OpenFunction(
	ctx context.Context, load func(context.Context) (aws.Config, error), client dynamostore.Client, s Settings,
	log *slog.Logger,
) (*Handler, error) {
	store, err := NewStore(client, s.DedupeTable, s.Options)
	if err != nil {
		return nil, err
	}
	return Open(ctx, load, store, s.Options, log)
}

// counted is a log ledger.
type counted interface{ Stats() logledger.Stats }

// countLedger begins to count what a log ledger does. done returns the members of the log line. They are those of all
// invocations in this process at the time; in Lambda there is one.
func (h *Handler) countLedger() (done func() []slog.Attr) {
	if h.counted == nil {
		return func() []slog.Attr { return nil }
	}
	before := h.counted.Stats()
	return func() []slog.Attr {
		s := h.counted.Stats().Since(before)
		return []slog.Attr{
			slog.Int64("ledger_memory", s.Memory), slog.Int64("ledger_memory_limit", s.MemoryLimit),
			slog.Float64("ledger_memory_share", float64(s.Needed)/float64(s.MemoryLimit)),
			slog.Int64("ledger_appends", s.Appends), slog.Int64("ledger_conflicts", s.Conflicts),
			slog.Int64("ledger_loads", s.Loads), slog.Int64("ledger_items_read", s.ItemsRead),
			slog.Int64("ledger_units", s.Units), slog.Int64("ledger_lane_units", s.BusiestLane),
		}
	}
}
