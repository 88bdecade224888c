package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/internal/suggest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgerdynamo "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// These are the forms of --store.
const (
	sqlitePrefix  = "sqlite:"
	dynamodbStore = "dynamodb:"
)

// sqlitePath returns the file of --store; ok is false for DynamoDB.
func (g globals) sqlitePath() (path string, ok bool, err error) {
	path, ok = strings.CutPrefix(g.Store, sqlitePrefix)
	if ok && path != "" || g.Store == dynamodbStore {
		return path, ok, nil
	}
	var hint string
	switch {
	case strings.TrimSuffix(g.Store, ":") == strings.TrimSuffix(dynamodbStore, ":"):
		hint = "Did you mean " + dynamodbStore + "?"
	case g.Store != "" && !strings.Contains(g.Store, ":"):
		hint = "Did you mean " + sqlitePrefix + g.Store + "?"
	}
	return "", false, &usageError{fmt.Errorf("--store %q: must be %sPATH or %s", g.Store, sqlitePrefix, dynamodbStore), hint}
}

// missingStore returns the error for a SQLite store that does not exist, with advice how to make one.
func (g globals) missingStore(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &usageError{
		&plainError{fmt.Sprintf("--store %s: there is no such file", g.Store), sqlite.ErrNotStore, err},
		fmt.Sprintf("`oncebox --store %s init` makes the store.", g.Store),
	}
}

// open opens the store, which must exist. Call closeStore after use.
func (g globals) open(ctx context.Context) (store engine.Store, closeStore func(), err error) {
	path, ok, err := g.sqlitePath()
	if err != nil {
		return nil, nil, err
	}
	if ok {
		store, err := sqlitestore.Open(ctx, path)
		if err != nil {
			return nil, nil, g.missingStore(err)
		}
		return store, func() { _ = store.Close() }, nil // every write is on the disk already
	}
	client, err := dynamoClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	return dynamostore.New(client, g.BankTable, g.DedupeTable), func() {}, nil
}

// newBank makes a Bank over a store.
func newBank(store engine.Store, options ...itembank.Option) *itembank.Operator {
	if _, ok := store.(*sqlitestore.Store); ok {
		options = append(options, itembank.WithSweepLanes(1))
	}
	return itembank.NewOperator(store, options...)
}

// withBank runs a command on a Bank over the store. campaign is the command's campaign, or "".
func (g globals) withBank(
	ctx context.Context, campaign string, run func(*itembank.Operator) error, options ...itembank.Option,
) error {
	store, closeStore, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	bank := newBank(store, options...)
	err = run(bank)
	if errors.Is(err, itembank.ErrNoCampaign) {
		return noSuchCampaign(ctx, bank, campaign, err)
	}
	return err
}

// noSuchCampaign returns an error that lists the existing campaigns.
func noSuchCampaign(ctx context.Context, bank *itembank.Operator, campaign string, err error) error {
	campaigns, listError := bank.Campaigns(ctx)
	if _, listError = skipUnreadable(listError); listError != nil {
		return errors.Join(err, listError)
	}
	err = fmt.Errorf("%w: %q", err, campaign)
	if len(campaigns) == 0 {
		hint := fmt.Sprintf("The store has no campaigns. `oncebox campaign create %s` makes this one.", campaign)
		return &hintError{err, hint}
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
	return &hintError{err, hint}
}

// skipUnreadable separates campaigns that cannot be read from other failures, for a command that goes on without them. The
// command returns skipped at its end.
func skipUnreadable(err error) (skipped, failed error) {
	if unreadable, ok := errors.AsType[*itembank.UnreadableError](err); ok {
		return &plainError{unreadable.Error(), errLook, unreadable}, nil
	}
	return nil, err
}

// checkScope checks a scope of records, for commands that use the scopes of functions.
func checkScope(scope string) error {
	if recordhandler.IsScope(scope) {
		return nil
	}
	err := fmt.Errorf("--scope %q: must be the scope of a function or of runs: letters, digits and : _ - / . #", scope)
	return &usageError{err, "Without ONCEBOX_SCOPE the scope is the name of the stream, or sqs:QUEUE, dynamodb:TABLE or logs:GROUP."}
}

// openLedger opens the store of record entries, which must exist. The options are for DynamoDB. Call closeLedger after
// fileUse.
func (g globals) openLedger(ctx context.Context, options ...ledgerdynamo.Option) (
	ledger dedupe.Store, closeLedger func(), err error,
) {
	return g.openLedgerBy(ctx, ledgersqlite.Open, options...)
}

// openLedgerToRead is openLedger for a command that only reads.
func (g globals) openLedgerToRead(ctx context.Context) (ledger dedupe.Store, closeLedger func(), err error) {
	return g.openLedgerBy(ctx, ledgersqlite.OpenToRead)
}

func (g globals) openLedgerBy(
	ctx context.Context, open func(context.Context, string, ...ledgersqlite.Option) (*ledgersqlite.Store, error),
	options ...ledgerdynamo.Option,
) (
	ledger dedupe.Store, closeLedger func(), err error,
) {
	path, ok, err := g.sqlitePath()
	if err != nil {
		return nil, nil, err
	}
	if ok {
		store, err := open(ctx, path)
		if err != nil {
			return nil, nil, g.missingStore(err)
		}
		return store, func() { _ = store.Close() }, nil // every write is on the disk already
	}
	client, err := dynamoClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	return ledgerdynamo.New(client, g.DedupeTable, options...), func() {}, nil
}

// openRows opens the ledger with one row a key, to enter records of a scope. It refuses a scope with a log ledger.
func (g globals) openRows(ctx context.Context, scope string) (ledger dedupe.Store, closeLedger func(), err error) {
	if err := g.refuseLog(ctx, scope); err != nil {
		return nil, nil, err
	}
	return g.openLedger(ctx)
}

// memoryOfLog is the memory for entries of a log ledger if the address of the ledger does not say. It has room for 67
// million entries. It is allocated only when it is needed.
const memoryOfLog = 2 << 30

// openRecords opens the parts of the store that the record handler needs: the ledger of the options, with acks and
// consumers. Call closeLedger after use.
func (g globals) openRecords(ctx context.Context, o recordhandler.Options) (
	store recordhandler.Store, closeLedger func(), err error,
) {
	switch {
	case o.Ledger.Log:
		client, err := g.logClient(ctx)
		if err != nil {
			return nil, nil, err
		}
		o.Ledger.Memory = cmp.Or(o.Ledger.Memory, memoryOfLog)
		store, err = recordhandler.NewStore(ctx, sdkconfig.Load, client, g.DedupeTable, o)
		return store, func() {}, err
	case o.Ledger.Valkey != nil:
		return g.openValkey(ctx, o)
	}
	return g.openLedger(ctx, ledgerdynamo.WithConcurrency(o.Concurrency))
}

// openValkey opens a Valkey ledger, with acks and consumers in the store.
func (g globals) openValkey(ctx context.Context, o recordhandler.Options) (
	store recordhandler.Store, closeLedger func(), err error,
) {
	rows, closeRows, err := g.openLedger(ctx, ledgerdynamo.WithLedger(o.Ledger.Kind()))
	if err != nil {
		return nil, nil, err
	}
	ledger, err := recordhandler.OpenValkey(sdkconfig.Load, o)
	if err != nil {
		closeRows()
		return nil, nil, err
	}
	return recordhandler.Stores{Ledger: ledger, Acks: rows, Consumers: rows}, func() {
		_ = ledger.Close() // every call has been answered
		closeRows()
	}, nil
}

// logClient returns the client of a log ledger, which is in DynamoDB.
func (g globals) logClient(ctx context.Context) (*dynamodb.Client, error) {
	_, ok, err := g.sqlitePath()
	if err != nil {
		return nil, err
	}
	if ok {
		err := fmt.Errorf("the log ledger is in DynamoDB, and --store is %s", g.Store)
		return nil, &usageError{err, "Use --store " + dynamodbStore}
	}
	return dynamoClient(ctx)
}

type initCommand struct {
	Yes bool `help:"Make the tables in an AWS account, where they cost money. Not needed for a local endpoint."`
}

func (initCommand) Help() string {
	return `Safe to repeat: a store that exists stays as it is.

Examples:
  oncebox init                                   # makes ./oncebox.db
  oncebox --store sqlite:/var/lib/codes.db init
  AWS_ENDPOINT_URL_DYNAMODB=http://localhost:8000 oncebox --store dynamodb: init`
}

func (c initCommand) Run(ctx context.Context, a *app) error {
	if err := a.create(ctx, c.Yes); err != nil {
		return err
	}
	return a.print(map[string]string{"store": a.Store}, "store ready: "+a.Store)
}

// create makes the store. In an AWS account it does so only with --yes.
func (g globals) create(ctx context.Context, yes bool) error {
	path, ok, err := g.sqlitePath()
	if err != nil {
		return err
	}
	if ok {
		return createFile(ctx, path)
	}
	client, err := newDynamoClient(ctx)
	if err != nil {
		return err
	}
	if !dynamo.Local(client) && !yes {
		return &usageError{
			fmt.Errorf("init would make the tables %s and %s in an AWS account, where they cost money",
				g.BankTable, g.DedupeTable),
			"Say --yes to do that, or set AWS_ENDPOINT_URL_DYNAMODB to use a local engine.",
		}
	}
	if err := checkDynamoCredentials(ctx, client); err != nil {
		return err
	}
	return dynamostore.CreateTables(ctx, client, g.BankTable, g.DedupeTable)
}

// createFile makes the tables of both jobs in one file.
func createFile(ctx context.Context, path string) error {
	bank, err := sqlitestore.Create(ctx, path)
	if err != nil {
		return err
	}
	ledger, err := ledgersqlite.Create(ctx, path)
	if err == nil {
		err = ledger.Close()
	}
	return errors.Join(err, bank.Close())
}
