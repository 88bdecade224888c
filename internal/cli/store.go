package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/shared/suggest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgerdynamo "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	oncedynamo "github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	onceengine "github.com/oncebox/oncebox/pkg/idempotency/engine"
	oncesqlite "github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

// These are the forms of --store.
const (
	SQLitePrefix  = "sqlite:"
	DynamoDBStore = "dynamodb:"
)

// SQLitePath returns the file of --store; ok is false for DynamoDB.
func (g Globals) SQLitePath() (path string, ok bool, err error) {
	path, ok = strings.CutPrefix(g.Store, SQLitePrefix)
	if ok && path != "" || g.Store == DynamoDBStore {
		return path, ok, nil
	}
	var hint string
	_, powertools := g.Powertools()
	switch {
	case powertools:
		hint = "Only the commands of `oncebox idempotency` take a table of Powertools."
	case strings.TrimSuffix(g.Store, ":") == strings.TrimSuffix(DynamoDBStore, ":"):
		hint = "Did you mean " + DynamoDBStore + "?"
	case g.Store != "" && !strings.Contains(g.Store, ":"):
		hint = "Did you mean " + SQLitePrefix + g.Store + "?"
	}
	return "", false, BadUsage(fmt.Errorf("--store %q: must be %sPATH or %s", g.Store, SQLitePrefix, DynamoDBStore), hint)
}

// openStore opens a store in the file of --store, which must exist, or on DynamoDB. Call closeStore after use.
func openStore[S any](
	ctx context.Context, g Globals, inFile func(path string) (S, error), onDynamoDB func(*dynamodb.Client) (S, error),
) (store S, closeStore func(), err error) {
	var none S
	path, ok, err := g.SQLitePath()
	if err != nil {
		return none, nil, err
	}
	if ok {
		store, err := inFile(path)
		if err != nil {
			return none, nil, g.MissingStore(err)
		}
		return store, func() { _ = any(store).(io.Closer).Close() }, nil // every write is on the disk already
	}
	client, err := DynamoClient(ctx)
	if err != nil {
		return none, nil, err
	}
	store, err = onDynamoDB(client)
	return store, func() {}, err
}

// MissingStore returns the error for a SQLite store that does not exist, with advice how to make one.
func (g Globals) MissingStore(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return BadUsage(
		Plain(fmt.Sprintf("--store %s: there is no such file", g.Store), sqlite.ErrNotStore, err),
		fmt.Sprintf("`oncebox --store %s init` makes the store.", g.Store),
	)
}

// Open opens the store, which must exist. Call closeStore after use.
func (g Globals) Open(ctx context.Context) (store engine.Store, closeStore func(), err error) {
	return openStore(ctx, g,
		func(path string) (engine.Store, error) { return sqlitestore.Open(ctx, path) },
		func(client *dynamodb.Client) (engine.Store, error) {
			return dynamostore.New(client, g.BankTable, g.DedupeTable), nil
		})
}

// NewBank makes a Bank over a store.
func NewBank(store engine.Store, options ...itembank.Option) *itembank.Operator {
	if _, ok := store.(*sqlitestore.Store); ok {
		options = append(options, itembank.WithSweepLanes(1))
	}
	return itembank.NewOperator(store, options...)
}

// WithBank runs a command on a Bank over the store. campaign is the command's campaign, or "".
func (g Globals) WithBank(
	ctx context.Context, campaign string, run func(*itembank.Operator) error, options ...itembank.Option,
) error {
	store, closeStore, err := g.Open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	bank := NewBank(store, options...)
	err = run(bank)
	if errors.Is(err, itembank.ErrNoCampaign) {
		return noSuchCampaign(ctx, bank, campaign, err)
	}
	return err
}

// noSuchCampaign returns an error that lists the existing campaigns.
func noSuchCampaign(ctx context.Context, bank *itembank.Operator, campaign string, err error) error {
	campaigns, listError := bank.Campaigns(ctx)
	if _, listError = SkipUnreadable(listError); listError != nil {
		return errors.Join(err, listError)
	}
	err = fmt.Errorf("%w: %q", err, campaign)
	if len(campaigns) == 0 {
		hint := fmt.Sprintf("The store has no campaigns. `oncebox campaign create %s` makes this one.", campaign)
		return WithHint(err, hint)
	}
	const shown = 10
	names := make([]string, len(campaigns))
	for i, c := range campaigns {
		names[i] = c.Name
	}
	meant := suggest.Closest(campaign, names)
	if len(names) > shown {
		names = append(names[:shown], fmt.Sprintf("and %d more", len(campaigns)-shown))
	}
	hint := "The store has: " + strings.Join(names, ", ") + "."
	if meant != "" {
		hint = fmt.Sprintf("Did you mean %s? %s", meant, hint)
	}
	return WithHint(err, hint)
}

// SkipUnreadable separates campaigns that cannot be read from other failures, for a command that goes on without them.
// The command returns skipped at its end.
func SkipUnreadable(err error) (skipped, failed error) {
	if unreadable, ok := errors.AsType[*itembank.UnreadableError](err); ok {
		return Plain(unreadable.Error(), ErrLook, unreadable), nil
	}
	return nil, err
}

// CheckScope checks a scope of records, for commands that use the scopes of functions.
func CheckScope(scope string) error {
	if recordhandler.IsScope(scope) {
		return nil
	}
	err := fmt.Errorf("--scope %q: must be the scope of a function or of runs: letters, digits and : _ - / . #", scope)
	return BadUsage(err, "Without ONCEBOX_SCOPE the scope is the name of the stream, or sqs:QUEUE, dynamodb:TABLE or logs:GROUP.")
}

// OpenLedger opens the store of record entries, which must exist. The options are for DynamoDB. Call closeLedger after
// fileUse.
func (g Globals) OpenLedger(ctx context.Context, options ...ledgerdynamo.Option) (
	ledger dedupe.Store, closeLedger func(), err error,
) {
	return g.openLedgerBy(ctx, ledgersqlite.Open, options...)
}

// OpenLedgerToRead is OpenLedger for a command that only reads.
func (g Globals) OpenLedgerToRead(ctx context.Context) (ledger dedupe.Store, closeLedger func(), err error) {
	return g.openLedgerBy(ctx, ledgersqlite.OpenToRead)
}

func (g Globals) openLedgerBy(
	ctx context.Context, open func(context.Context, string, ...ledgersqlite.Option) (*ledgersqlite.Store, error),
	options ...ledgerdynamo.Option,
) (
	ledger dedupe.Store, closeLedger func(), err error,
) {
	return openStore(ctx, g,
		func(path string) (dedupe.Store, error) { return open(ctx, path) },
		func(client *dynamodb.Client) (dedupe.Store, error) {
			return ledgerdynamo.New(client, g.DedupeTable, options...), nil
		})
}

// OpenIdempotency opens the store of idempotent calls, which must exist. Call closeStore after use.
func (g Globals) OpenIdempotency(ctx context.Context) (store onceengine.Store, closeStore func(), err error) {
	return g.openIdempotencyBy(ctx, oncesqlite.Open)
}

// OpenIdempotencyToRead is OpenIdempotency for a command that only reads.
func (g Globals) OpenIdempotencyToRead(ctx context.Context) (store onceengine.Store, closeStore func(), err error) {
	return g.openIdempotencyBy(ctx, oncesqlite.OpenToRead)
}

func (g Globals) openIdempotencyBy(
	ctx context.Context, open func(context.Context, string, ...oncesqlite.Option) (*oncesqlite.Store, error),
) (
	store onceengine.Store, closeStore func(), err error,
) {
	if _, ok := g.Powertools(); ok {
		return g.openPowertools(ctx)
	}
	return openStore(ctx, g,
		func(path string) (onceengine.Store, error) { return open(ctx, path) },
		func(client *dynamodb.Client) (onceengine.Store, error) {
			return oncedynamo.New(client, g.DedupeTable), nil
		})
}

// OpenRows opens the ledger with one row a key, to enter records of a scope. It refuses a scope with a log ledger.
func (g Globals) OpenRows(ctx context.Context, scope string) (ledger dedupe.Store, closeLedger func(), err error) {
	if err := g.RefuseLog(ctx, scope); err != nil {
		return nil, nil, err
	}
	return g.OpenLedger(ctx)
}

// MemoryOfLog is the memory for entries of a log ledger if the address of the ledger does not say. It has room for 67
// million entries. It is allocated only when it is needed.
const MemoryOfLog = 2 << 30

// WithRecords runs a command with the record handler over the store.
func (g Globals) WithRecords(
	ctx context.Context, options recordhandler.Options, run func(*recordhandler.Handler) error,
) error {
	ledger, closeLedger, err := g.OpenRecords(ctx, options)
	if err != nil {
		return err
	}
	defer closeLedger()
	h, err := recordhandler.Open(ctx, sdkconfig.Load, ledger, options, slog.Default())
	if err != nil {
		return err
	}
	return errors.Join(run(h), h.Close())
}

// OpenRecords opens the parts of the store that the record handler needs: the ledger of the options, with acks and
// consumers. Call closeLedger after use.
func (g Globals) OpenRecords(ctx context.Context, o recordhandler.Options) (
	store recordhandler.Store, closeLedger func(), err error,
) {
	switch {
	case o.Ledger.Log:
		client, err := g.LogClient(ctx)
		if err != nil {
			return nil, nil, err
		}
		o.Ledger.Memory = cmp.Or(o.Ledger.Memory, MemoryOfLog)
		store, err = recordhandler.NewStore(ctx, sdkconfig.Load, client, g.DedupeTable, o)
		return store, func() {}, err
	case o.Ledger.Valkey != nil:
		return g.openValkey(ctx, o)
	}
	return g.OpenLedger(ctx, ledgerdynamo.WithConcurrency(o.Concurrency))
}

// openValkey opens a Valkey ledger, with acks and consumers in the store.
func (g Globals) openValkey(ctx context.Context, o recordhandler.Options) (
	store recordhandler.Store, closeLedger func(), err error,
) {
	rows, closeRows, err := g.OpenLedger(ctx, ledgerdynamo.WithLedger(o.Ledger.Kind()))
	if err != nil {
		return nil, nil, err
	}
	ledger, err := full.OpenValkey(sdkconfig.Load, o)
	if err != nil {
		closeRows()
		return nil, nil, err
	}
	return recordhandler.Stores{Ledger: ledger, Acks: rows, Consumers: rows}, func() {
		_ = ledger.Close() // every call has been answered
		closeRows()
	}, nil
}

// LogClient returns the client of a log ledger, which is in DynamoDB.
func (g Globals) LogClient(ctx context.Context) (*dynamodb.Client, error) {
	_, ok, err := g.SQLitePath()
	if err != nil {
		return nil, err
	}
	if ok {
		err := fmt.Errorf("the log ledger is in DynamoDB, and --store is %s", g.Store)
		return nil, BadUsage(err, "Use --store "+DynamoDBStore)
	}
	return DynamoClient(ctx)
}

// Create makes the store. In an AWS account it does so only with --yes.
func (g Globals) Create(ctx context.Context, yes bool) error {
	path, ok, err := g.SQLitePath()
	if err != nil {
		return err
	}
	if ok {
		return createFile(ctx, path)
	}
	client, err := NewDynamoClient(ctx)
	if err != nil {
		return err
	}
	if !dynamo.Local(client) && !yes {
		return BadUsage(
			fmt.Errorf("init would make the tables %s and %s in an AWS account, where they cost money",
				g.BankTable, g.DedupeTable),
			"Say --yes to do that, or set AWS_ENDPOINT_URL_DYNAMODB to use a local engine.",
		)
	}
	if err := CheckDynamoCredentials(ctx, client); err != nil {
		return err
	}
	return dynamostore.CreateTables(ctx, client, g.BankTable, g.DedupeTable)
}

// createFile makes the tables of all jobs in one file.
func createFile(ctx context.Context, path string) error {
	for _, create := range []func() (io.Closer, error){
		func() (io.Closer, error) { return sqlitestore.Create(ctx, path) },
		func() (io.Closer, error) { return ledgersqlite.Create(ctx, path) },
		func() (io.Closer, error) { return oncesqlite.Create(ctx, path) },
	} {
		store, err := create()
		if err != nil {
			return err
		}
		if err := store.Close(); err != nil {
			return err
		}
	}
	return nil
}

// OpenLog opens the log of a scope. It returns ErrNoLog if the scope has no log.
func (g Globals) OpenLog(ctx context.Context, scope string) (logledger.Storage, error) {
	client, err := g.LogClient(ctx)
	if err != nil {
		return nil, err
	}
	log := ledgerdynamo.NewLog(client, g.DedupeTable)
	first, err := log.Epochs(ctx, logledger.LaneID{Scope: scope}, 1, 1)
	if err == nil && len(first) == 0 {
		err = fmt.Errorf("%w in the scope %s", ErrNoLog, scope)
	}
	return log, err
}

// RefuseLog refuses a scope with a log ledger, because a log does not see entries with one row a key.
func (g Globals) RefuseLog(ctx context.Context, scope string) error {
	if g.Store != DynamoDBStore {
		return nil
	}
	_, err := g.OpenLog(ctx, scope)
	switch {
	case errors.Is(err, ErrNoLog):
		return nil
	case err != nil:
		return err
	}
	return BadUsage(
		fmt.Errorf("the scope %s has a log ledger, which does not see one row a key: copies would be delivered", scope),
		"Choose another scope, or enter into the log: `oncebox ledger import --ledger log`, or ONCEBOX_LEDGER=log of `oncebox redrive run`.",
	)
}
