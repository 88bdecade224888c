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

	valkeyForm    = "valkey://HOST:PORT[,HOST:PORT...], or valkeys:// for TLS, without a user and a password"
	allowedLedger = ledgerKeys + ", " + ledgerLog + " or " + valkeyForm
)

// kindOfLedger returns the kind of a ledger, or "" if a text names no ledger.
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

// IsLedger reports whether a text is a value of ONCEBOX_LEDGER. Programs that share the environment with the function
// use it to distinguish this value from their own.
func IsLedger(text string) bool { return kindOfLedger(text) != "" }

// ledgerVariables has the variables that are only for some kinds of ledgers.
var ledgerVariables = []struct{ variable, kind string }{
	{varLedgerLanes, ledgerLog},
	{varLedgerMemory, ledgerLog},
	{varLedgerBuckets, ledgerValkey},
	{varLedgerPrevious, ledgerValkey},
	{varLedgerSince, ledgerValkey},
	{varLedgerPassword, ledgerValkey},
	{varLedgerSecret, ledgerValkey},
	{varConcurrency, ledgerKeys},
}

// refuseOtherLedgers refuses variables that this kind of ledger does not have.
func (p parser) refuseOtherLedgers(kind string) {
	for _, v := range ledgerVariables {
		if p.Text(v.variable) != "" && v.kind != kind {
			p.Wrong(v.variable, "is not a setting of "+varLedger+"="+kind, "leave it empty")
		}
	}
}

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

// smallestMemory has room for some entries in each of 256 lanes.
const smallestMemory = 16 << 20

// ledger reads which ledger has the entries. memory is the function's memory in bytes; 0: unknown.
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

var errOtherLedger = errors.New("kinesishandler: " + varLedger + " names another ledger than the one that the program has " +
	"opened; leave it empty, or make the Store with NewStore")

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
