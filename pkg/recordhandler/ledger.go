package recordhandler

import (
	"context"
	"errors"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/dedupe/valkeystore"
)

// LedgerSetting says which ledger has the entries. The zero value is one row for each key, in the store of acks and
// consumers.
type LedgerSetting struct {
	Log    bool                 // the log ledger: see package logledger
	Lanes  int                  // of the log ledger; 0: logledger.DefaultLanes
	Memory int64                // bytes of entries of the log ledger in memory; 0: logledger.DefaultMemory
	Valkey *valkeystore.Options // the ledger is on servers of Valkey or Redis
	Secret string               // the ARN of a secret of AWS Secrets Manager with the password for Valkey; "": no secret
}

// Kind returns keys, log or valkey.
func (l LedgerSetting) Kind() string {
	switch {
	case l.Log:
		return ledgerLog
	case l.Valkey != nil:
		return ledgerValkey
	}
	return ledgerKeys
}

// The kinds of ONCEBOX_LEDGER.
const (
	ledgerKeys   = dynamostore.OwnLedger
	ledgerLog    = "log"
	ledgerValkey = "valkey"
)

// kindsOfLedgers has the kinds of the schemes of addresses.
var kindsOfLedgers = map[string]string{
	ledgerKeys: ledgerKeys, ledgerLog: ledgerLog, "valkey": ledgerValkey, "valkeys": ledgerValkey,
}

// IsLedger reports whether a text has the scheme of a value of ONCEBOX_LEDGER. Programs that share the environment with
// the function use it to distinguish this value from their own.
func IsLedger(text string) bool { return kindsOfLedgers[address.Scheme(text)] != "" }

// UsualLedgerShare is the default share of the function's memory for entries of a log ledger, in percent. The rest is
// for the records of a batch, the program, and memory that the garbage collector has not freed yet.
const UsualLedgerShare = 60

// Other shares of the memory of a function, in percent.
const (
	largestShare = 80 // for entries
	// runtimeShare is for the Go runtime: "leave an additional 5-10% of headroom to account for memory sources the Go
	// runtime is unaware of" (A Guide to the Go Garbage Collector, "Suggested uses").
	runtimeShare = 90
)

// ledger reads which ledger has the entries, and the number of requests to keys at a time. memory is the function's
// memory in bytes; 0: unknown.
func (p parser) ledger(sink SinkSetting, memory int64) (s LedgerSetting, concurrency int) {
	text := p.Word(&p.s.Ledger)
	kind := kindsOfLedgers[address.Scheme(text)]
	if kind != "" && kind != ledgerKeys && sink.Table != nil {
		p.Refuse(&p.s.Ledger, "is not "+ledgerKeys+", but with "+p.Variable(&p.s.Sink)+"=dynamodb: an item is written in one "+
			"transaction with the row of its key", ledgerKeys)
	}
	var err error
	switch kind {
	case ledgerKeys:
		concurrency, err = dynamostore.Parse(text)
	case ledgerLog:
		var o logledger.Options
		o, err = logledger.Parse(text)
		s = LedgerSetting{Log: true, Lanes: o.Lanes, Memory: p.ledgerMemory(o.Memory, memory)}
	case ledgerValkey:
		var o valkeystore.Options
		o, s.Secret, err = valkeystore.Parse(text)
		s.Valkey = &o
	default:
		p.Refuse(&p.s.Ledger, "is not a known ledger", "")
	}
	p.WrongAddress(p.Variable(&p.s.Ledger), err)
	return s, concurrency
}

// ledgerMemory returns the memory for the entries of the log ledger. asked is 0 if it was not chosen.
func (p parser) ledgerMemory(asked, memory int64) int64 {
	if asked == 0 {
		return memory / 100 * UsualLedgerShare
	}
	if memory > 0 && asked > memory/100*largestShare {
		p.Refuse(&p.s.Ledger, "has a memory above 80% of the memory of the function",
			"16MiB to 80% of that")
	}
	return asked
}

// functionMemory returns the memory of the Lambda function in bytes, or 0 outside of Lambda.
func functionMemory(environ []string) int64 {
	mib, err := settings.ParseSize(valueOf(environ, varMemorySize) + "MiB")
	if err != nil {
		return 0
	}
	return int64(mib)
}

// Stores is a Store of two engines: a ledger that stores no acks, and an engine that does.
type Stores struct {
	dedupe.Ledger
	dedupe.Acks
	dedupe.Consumers
}

var errOtherLedger = errors.New("recordhandler: ONCEBOX_LEDGER names another ledger than the one that the program has opened; " +
	"leave it empty, or make the Store with NewStore")

// ledgerOf returns the engine of the entries. It may be a dedupe.Warmer, and may have the counts of a log ledger.
func ledgerOf(s Store) dedupe.Ledger {
	if of, ok := s.(Stores); ok {
		return of.Ledger
	}
	return s
}

// NewStore makes the Store of the function: on a table of DynamoDB, with the ledger that the options name. load is as
// for Open. NewStore sends no request.
func NewStore(
	ctx context.Context, load func(context.Context) (aws.Config, error), client dynamostore.Client, table string, o Options,
) (Store, error) {
	store := dynamostore.New(client, table, dynamostore.WithConcurrency(o.Concurrency), dynamostore.WithLedger(o.Ledger.Kind()))
	switch {
	case o.Ledger.Log:
		ledger, err := logledger.New(dynamostore.NewLog(client, table), logledger.Options{
			Lanes: o.Ledger.Lanes, Memory: o.Ledger.Memory, Clock: o.Clock,
		})
		return Stores{ledger, store, store}, err
	case o.Ledger.Valkey != nil && o.Clients.Valkey == nil:
		return nil, notLinked("ONCEBOX_LEDGER", "valkey:")
	case o.Ledger.Valkey != nil:
		ledger, err := o.Clients.Valkey(load, o)
		return Stores{ledger, store, store}, err
	}
	return store, nil
}

// OpenFunction is Open for the function in functions/dedupe or functions/dedupe-full, on the Store of its options.
func OpenFunction(
	ctx context.Context, load func(context.Context) (aws.Config, error), client dynamostore.Client, table string, o Options,
	log *slog.Logger,
) (*Handler, error) {
	store, err := NewStore(ctx, load, client, table, o)
	if err != nil {
		return nil, err
	}
	return Open(ctx, load, store, o, log)
}

// counted is implemented by a log ledger.
type counted interface{ Stats() logledger.Stats }

// countLedger begins to count the work of a log ledger. done returns the members of the log line. They cover all
// invocations that run in this process at the time; in Lambda there is only one.
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
