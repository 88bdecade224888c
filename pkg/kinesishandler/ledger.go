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
	"github.com/oncebox/oncebox/pkg/dedupe/valkeystore"
)

// LedgerSetting says which ledger has the entries. The zero value is one row a key, in the store of acks and consumers.
type LedgerSetting struct {
	Log    bool                 // the log ledger: see package logledger
	Lanes  int                  // of the log ledger; 0: logledger.DefaultLanes
	Memory int64                // bytes of entries of the log ledger in memory; 0: logledger.DefaultMemory
	Valkey *valkeystore.Options // the ledger is on servers of Valkey or Redis
	Secret string               // the ARN of a secret of AWS Secrets Manager with the password for Valkey; "": none
}

// Kind is keys, log or valkey.
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

	valkeyForm    = "valkey://HOST:PORT[,HOST:PORT...], or valkeys:// for TLS, without a user and a password"
	allowedLedger = ledgerKeys + ", " + ledgerLog + " or " + valkeyForm
)

// kindOfLedger returns the kind of a ledger, or "" for what is none.
func kindOfLedger(text string) string {
	scheme, _, hasScheme := strings.Cut(text, "://")
	switch {
	case text == "":
		return ledgerKeys
	case text == ledgerKeys, text == ledgerLog:
		return text
	case hasScheme && (scheme == "valkey" || scheme == "valkeys"):
		return ledgerValkey
	}
	return ""
}

// IsLedger reports whether a text is meant for ONCEBOX_LEDGER. Programs that share the environment with the function can
// tell it from a value of their own.
func IsLedger(text string) bool { return kindOfLedger(text) != "" }

// ofLedgers says which variables are for which kind of ledger.
var ofLedgers = []struct{ variable, kind string }{
	{varLedgerLanes, ledgerLog},
	{varLedgerMemory, ledgerLog},
	{varLedgerBuckets, ledgerValkey},
	{varLedgerPrevious, ledgerValkey},
	{varLedgerSince, ledgerValkey},
	{varLedgerPassword, ledgerValkey},
	{varLedgerSecret, ledgerValkey},
	{varConcurrency, ledgerKeys},
}

// refuseOtherLedgers refuses variables that a kind of ledgers does not have.
func (p parser) refuseOtherLedgers(kind string) {
	for _, of := range ofLedgers {
		if p.Text(of.variable) != "" && of.kind != kind {
			p.Wrong(of.variable, "is not a setting of "+varLedger+"="+kind, "leave it empty")
		}
	}
}

// UsualLedgerShare is the default of the memory for entries of a log ledger, in percent of the function's memory. What
// entries leave is for the records of a batch, the program, and memory that the garbage collector has not freed yet.
const UsualLedgerShare = 60

// Other shares of the memory of a function, in percent.
const (
	largestShare = 80 // for entries
	// runtimeShare is for the Go runtime: "leave an additional 5-10% of headroom to account for memory sources the Go
	// runtime is unaware of" (A Guide to the Go Garbage Collector, "Suggested uses").
	runtimeShare = 90
)

// smallestMemory has room for some entries in each of 256 lanes.
const smallestMemory = 16 << 20

// ledger reads which ledger has the entries. memory is that of the function, in bytes; 0: it is not known.
func (p parser) ledger(sink SinkSetting, memory int64) LedgerSetting {
	kind := kindOfLedger(p.Text(varLedger))
	if kind == "" {
		p.Wrong(varLedger, "is not a known ledger", allowedLedger)
		return LedgerSetting{}
	}
	p.refuseOtherLedgers(kind)
	if kind != ledgerKeys && sink.Table != "" {
		p.Wrong(varLedger, "is not "+ledgerKeys+", but with "+varSink+"=dynamodb: an item is written in one transaction with "+
			"the row of its key", ledgerKeys)
	}
	switch kind {
	case ledgerLog:
		return LedgerSetting{
			Log:    true,
			Lanes:  p.Number(varLedgerLanes, logledger.DefaultLanes, 1, logledger.MostLanes),
			Memory: p.ledgerMemory(memory),
		}
	case ledgerValkey:
		return LedgerSetting{Valkey: p.valkey(), Secret: p.secret()}
	}
	return LedgerSetting{}
}

func (p parser) ledgerMemory(memory int64) int64 {
	const allowed = "16MiB or more, as in 1GiB"
	bytes := int64(p.Size(varLedgerMemory, int(memory/100*UsualLedgerShare), smallestMemory, math.MaxInt, allowed))
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

// NewStore makes the Store of the function: on a table of DynamoDB, with the ledger that the options name. load is that of
// Open. NewStore makes no request.
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
	case o.Ledger.Valkey != nil:
		ledger, err := OpenValkey(ctx, load, o)
		return Stores{ledger, store, store}, err
	}
	return store, nil
}

// OpenFunction is Open for the function in functions/dedupe, on the Store of its settings.
func OpenFunction(
	ctx context.Context, load func(context.Context) (aws.Config, error), client dynamostore.Client, s Settings,
	log *slog.Logger,
) (*Handler, error) {
	store, err := NewStore(ctx, load, client, s.DedupeTable, s.Options)
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
