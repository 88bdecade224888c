package snowplowmanifest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/internal/records/snowplowmanifest"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

const (
	old       = "c6ef3124-b53a-4b13-a233-0088f79dcbcb" // an event of the batch job
	twin      = "0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d" // two events with this id
	unprinted = "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44" // an event without a fingerprint
	fresh     = "ecdff4d0-9175-40ac-a8bb-325c49733607" // not in the manifest

	scope = "enriched" // the scope of the function
)

var (
	batchTime = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	now       = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	retention = dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour}
)

// manifest lists the rows that the batch job has stored.
var manifest = []snowplowmanifest.Row{
	{old, "fp1", batchTime}, {twin, "fp1", batchTime}, {twin, "fp2", batchTime.Add(time.Hour)},
	{unprinted, "8f14e45f-ceea-467f-a8f1-2a1f0f3b6c1e", batchTime}, // with a random fingerprint from the batch job
}

func rowsOf(rows []snowplowmanifest.Row, end error) iter.Seq2[snowplowmanifest.Row, error] {
	return func(yield func(snowplowmanifest.Row, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
		if end != nil {
			yield(snowplowmanifest.Row{}, end)
		}
	}
}

// bench is a ledger, and a stream whose function uses it.
type bench struct {
	*testing.T
	store   history.Store
	decider *dedupe.Decider
}

func newBench(t *testing.T, store history.Store) *bench {
	return &bench{t, store, &dedupe.Decider{Ledger: store, Scope: scope, Retention: retention}}
}

// importOf returns an import of rows into the ledger of the function.
func importOf(rows iter.Seq2[snowplowmanifest.Row, error], store history.Store) *history.Import {
	return &history.Import{
		Source: snowplowmanifest.Past(func(context.Context) iter.Seq2[snowplowmanifest.Row, error] { return rows }),
		Store:  store, Scope: scope, Retention: retention, Now: func() time.Time { return now },
	}
}

func (b *bench) imported(derive bool, rows iter.Seq2[snowplowmanifest.Row, error]) history.Report {
	b.Helper()
	i := importOf(rows, b.store)
	i.Derive = derive
	report, err := i.Run(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return report
}

// event returns an event that the function reads at a position of the stream.
func event(position int, id, fingerprint string) dedupe.Candidate {
	return dedupe.Candidate{
		ID: id, Fingerprint: fingerprint, Version: "p1", Arrival: now.Add(time.Duration(position) * time.Second),
		Owner: dedupe.Owner{Source: "123456789012/eu-west-1/enriched/shardId-0", Sequence: fmt.Sprint(position), Sub: dedupe.Plain},
	}
}

func (b *bench) want(c dedupe.Candidate, outcome dedupe.Outcome, id string) {
	b.Helper()
	d := b.decider.Decide(b.Context(), []dedupe.Candidate{c})[0]
	if d.Outcome != outcome || outcome != dedupe.Natural && d.ID != id {
		b.Errorf("%s at %s: want %v under %s, got %+v", c.ID, c.Owner, outcome, id, d)
	}
}

// wantThePast checks that no old duplicate goes through, and that nothing else is dropped. Each event comes twice, as
// after a crash.
func (b *bench) wantThePast() {
	b.Helper()
	for range 2 {
		b.want(event(1, old, "fp1"), dedupe.Natural, "")
		b.want(event(2, strings.ToUpper(old), "fp1"), dedupe.Natural, "")
		b.want(event(3, twin, "fp1"), dedupe.Natural, "")
		b.want(event(4, twin, "fp2"), dedupe.Natural, "")
	}
	b.want(event(5, old, "fp9"), dedupe.Synthetic, format.DerivedID(old, "fp9"))
	b.want(event(5, old, "fp9"), dedupe.Retry, format.DerivedID(old, "fp9"))
	b.want(event(6, old, "fp9"), dedupe.Natural, "")
	// Without a fingerprint the manifest cannot recognise a copy. So the event is kept under another id, and not
	// lost.
	b.want(event(7, unprinted, "computed"), dedupe.Synthetic, format.DerivedID(unprinted, "computed"))
	b.want(event(8, fresh, "fp1"), dedupe.New, fresh)
	b.want(event(8, fresh, "fp1"), dedupe.Retry, fresh)
}

func TestImport(t *testing.T) {
	t.Parallel()
	b := newBench(t, memstore.NewRecords())
	if got, want := b.imported(false, rowsOf(manifest, nil)), (history.Report{Read: 4, Entered: 4}); got != want {
		t.Errorf("want %+v, got %+v", want, got)
	}
	again := slices.Clone(manifest)
	slices.Reverse(again)
	if got, want := b.imported(false, rowsOf(again, nil)), (history.Report{Read: 4, Known: 4}); got != want {
		t.Errorf("again: want %+v, got %+v", want, got)
	}
	b.wantThePast()
}

// TestImportInterrupted checks that an import that ends early and runs again enters every row once.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t, memstore.NewRecords())
	var many []snowplowmanifest.Row
	for i := range 2500 {
		many = append(many, snowplowmanifest.Row{fmt.Sprintf("c6ef3124-b53a-4b13-a233-%012d", i), "fp", batchTime})
	}
	down := errors.New("down")
	report, err := importOf(rowsOf(many[:2200], down), b.store).Run(t.Context())
	if !errors.Is(err, down) || report.Entered != 2000 {
		t.Errorf("got %+v, %v", report, err)
	}
	if got, want := b.imported(false, rowsOf(many, nil)), (history.Report{Read: 2500, Entered: 500, Known: 2000}); got != want {
		t.Errorf("want %+v, got %+v", want, got)
	}
}

// TestLedgerDown checks that an import gives up after a while, and returns the reason.
func TestLedgerDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := importOf(rowsOf(manifest, nil), refusing{}).Run(t.Context())
		if !errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("a ledger that is down: %v", err)
		}
	})
}

type refusing struct{ dedupe.Runs }

func (refusing) Enter(context.Context, dedupe.Question) ([]dedupe.Answer, error) {
	return nil, dedupe.ErrTryAgain
}

// TestImportOfDerivedIDs checks that old copies are found under their derived ids if the function derives every id.
func TestImportOfDerivedIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t, memstore.NewRecords())
	b.imported(true, rowsOf(manifest, nil))
	for i, row := range manifest[:3] {
		c := event(i, row.EventID, row.Fingerprint)
		c.Derive = true
		b.want(c, dedupe.Natural, "")
	}
	c := event(9, old, "fp9")
	c.Derive = true
	b.want(c, dedupe.New, format.DerivedID(old, "fp9"))
}

// TestLate checks that events that the function has delivered before the import are counted as late.
func TestLate(t *testing.T) {
	t.Parallel()
	b := newBench(t, memstore.NewRecords())
	b.want(event(1, old, "fp1"), dedupe.New, old)
	b.want(event(2, twin, "fp3"), dedupe.New, twin)
	got := b.imported(false, rowsOf(manifest, nil))
	if want := (history.Report{Read: 4, Entered: 3, Late: 1}); got != want {
		t.Errorf("want %+v, got %+v", want, got)
	}
	b.want(event(1, old, "fp1"), dedupe.Retry, old)
	b.want(event(3, twin, "fp2"), dedupe.Natural, "")
	b.want(event(2, twin, "fp3"), dedupe.Retry, twin)
}

// TestSince checks that rows before Since count for no event that can still come, and that later rows are read.
func TestSince(t *testing.T) {
	t.Parallel()
	since := snowplowmanifest.Since(now, retention)
	for id, etlTime := range map[string]time.Time{old: since.Add(-time.Second), fresh: since} {
		r := snowplowmanifest.Row{EventID: id, Fingerprint: "fp1", ETLTime: etlTime}.Record()
		if counts := retention.PurgeAt(r.Time) >= now.Unix(); counts != (id == fresh) {
			t.Errorf("a row of %s counts at %s: %v", etlTime, now, counts)
		}
	}
	if got := snowplowmanifest.Since(now, dedupe.Retention{ForGood: true}); !got.IsZero() {
		t.Errorf("for ever: got %s", got)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	const line = `{"Item":{"eventId":{"S":"%s"},"etlTime":{"N":"%d"},"fingerprint":{"S":"%s"},"ttl":{"N":"1"}}}` + "\n"
	var file strings.Builder
	for _, row := range manifest {
		fmt.Fprintf(&file, line, row.EventID, row.ETLTime.Unix(), row.Fingerprint)
	}
	for name, test := range map[string]struct {
		file  string
		since time.Time
		want  []snowplowmanifest.Row
		fails bool
	}{
		"all":     {file.String(), batchTime, manifest, false},
		"later":   {file.String(), batchTime.Add(time.Second), manifest[2:3], false},
		"empty":   {"", batchTime, nil, false},
		"no JSON": {file.String() + "x\n", batchTime, manifest, true},
		"another": {`{"Item":{"pk":{"S":"a"}}}` + "\n", batchTime, nil, true},
		"no time": {strings.Replace(file.String(), `"N":"17`, `"S":"17`, 1), batchTime, nil, true},
	} {
		got, err := collect(snowplowmanifest.Export(strings.NewReader(test.file), test.since))
		if !slices.Equal(got, test.want) || errors.Is(err, snowplowmanifest.ErrNotManifest) != test.fails || !test.fails && err != nil {
			t.Errorf("%s: want %v, got %v, %v", name, test.want, got, err)
		}
	}
}

func collect(rows iter.Seq2[snowplowmanifest.Row, error]) (all []snowplowmanifest.Row, err error) {
	for row, err := range rows {
		if err != nil {
			return all, err
		}
		all = append(all, row)
	}
	return all, nil
}

func TestTable(t *testing.T) { testTable(t, testengine.Dynoxide(t)) }

func TestTableOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	testTable(t, testengine.DynamoDBLocal(t))
}

// testTable writes a table as the batch job writes it, reads it in pages, and enters it in a ledger of the engine.
func testTable(t *testing.T, endpoint string) {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	name := "manifest-" + rand.Text()
	createManifest(t, client, name)
	for _, row := range manifest {
		put(t, client, name, row)
	}
	tooOld := snowplowmanifest.Row{EventID: fresh, Fingerprint: "fp0", ETLTime: batchTime.Add(-time.Second)}
	put(t, client, name, tooOld)

	byKey := func(a, b snowplowmanifest.Row) int {
		return strings.Compare(a.EventID+a.Fingerprint, b.EventID+b.Fingerprint)
	}
	got, err := collect(snowplowmanifest.Table(t.Context(), onePerPage{client}, name, batchTime))
	slices.SortFunc(got, byKey)
	want := slices.SortedFunc(slices.Values(manifest), byKey)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("want %v, got %v, %v", want, got, err)
	}
	if _, err := collect(snowplowmanifest.Table(t.Context(), client, "none-"+name, batchTime)); err == nil {
		t.Error("a table that does not exist is empty")
	}

	table := "dedupe-" + rand.Text()
	if err := bank.CreateDedupeTable(t.Context(), client, table); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, dynamostore.New(client, table))
	rows := snowplowmanifest.Table(t.Context(), client, name, snowplowmanifest.Since(now, retention))
	b.want(event(8, fresh, "fp1"), dedupe.New, fresh)
	if got, want := b.imported(false, rows), (history.Report{Read: 5, Entered: 5}); got != want {
		t.Errorf("want %+v, got %+v", want, got)
	}
	if got, want := b.imported(false, rows), (history.Report{Read: 5, Known: 5}); got != want {
		t.Errorf("again: want %+v, got %+v", want, got)
	}
	b.want(event(1, old, "fp1"), dedupe.Natural, "")
	b.want(event(4, twin, "fp2"), dedupe.Natural, "")
	b.want(event(5, old, "fp9"), dedupe.Synthetic, format.DerivedID(old, "fp9"))
	b.want(event(8, fresh, "fp1"), dedupe.Retry, fresh)
}

// createManifest makes the table as DynamoDbManifest.createTable does.
func createManifest(t *testing.T, client *dynamodb.Client, name string) {
	t.Helper()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("eventId"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("fingerprint"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("eventId"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("fingerprint"), KeyType: types.KeyTypeRange},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a row as DynamoDbManifest.put does: ttl is 180 days later.
func put(t *testing.T, client *dynamodb.Client, table string, row snowplowmanifest.Row) {
	t.Helper()
	seconds := func(at time.Time) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: fmt.Sprint(at.Unix())}
	}
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
		"eventId":     &types.AttributeValueMemberS{Value: row.EventID},
		"fingerprint": &types.AttributeValueMemberS{Value: row.Fingerprint},
		"etlTime":     seconds(row.ETLTime), "ttl": seconds(row.ETLTime.AddDate(0, 0, 180)),
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// onePerPage reads pages of one row, some of them empty.
type onePerPage struct{ *dynamodb.Client }

func (c onePerPage) Scan(
	ctx context.Context, in *dynamodb.ScanInput, options ...func(*dynamodb.Options),
) (*dynamodb.ScanOutput, error) {
	in.Limit = aws.Int32(1)
	return c.Client.Scan(ctx, in, options...)
}

// TestAnotherTable checks that the rows of a table that is not a manifest are an error, and are not skipped.
func TestAnotherTable(t *testing.T) {
	t.Parallel()
	others := scanned{{"pk": &types.AttributeValueMemberS{Value: "a"}}}
	_, err := collect(snowplowmanifest.Table(t.Context(), others, "x", batchTime))
	if !errors.Is(err, snowplowmanifest.ErrNotManifest) {
		t.Errorf("got %v", err)
	}
}

type scanned []map[string]types.AttributeValue

func (s scanned) Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return &dynamodb.ScanOutput{Items: s}, nil
}
