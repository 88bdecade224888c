package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// deadLetter returns a poison record of the scope orders. Its id is not at the path where the function looked.
func deadLetter(n int, arrival time.Time) dedupe.DeadLetter {
	p := dedupe.Position{
		Stream: dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"}, Shard: "shardId-000000000000",
		Sequence: fmt.Sprintf("%056d", n), Sub: dedupe.Plain,
	}
	return dedupe.DeadLetter{
		Owner: p.Owner().String(), Scope: "orders", Position: p, Reason: "the id is missing", PartitionKey: "pk",
		Arrival: arrival, Data: fmt.Appendf(nil, `{"order":{"id":"order-%d"}}`, n),
	}
}

// deadLetters writes n letters into a folder quickly. Their records all arrived at one time.
func (s *shell) deadLetters(folder string, n int, arrival time.Time) {
	s.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, folder), 0o700); err != nil {
		s.Fatal(err)
	}
	for i := range n {
		l := deadLetter(i, arrival)
		content, err := deadletter.Encode(l)
		if err != nil {
			s.Fatal(err)
		}
		s.file(folder+"/"+deadletter.Name(l.Scope, l.Owner, l.Data), string(content))
	}
}

func (s *shell) delivered() (ids map[string]int) {
	s.Helper()
	out, err := os.ReadFile(filepath.Join(s.dir, "out.ndjson"))
	if err != nil {
		s.Fatal(err)
	}
	ids = map[string]int{}
	for line := range bytes.Lines(out) {
		var record struct{ Order struct{ ID string } }
		if err := json.Unmarshal(line, &record); err != nil {
			s.Fatal(err)
		}
		ids[record.Order.ID]++
	}
	return ids
}

func newRedriveShell(t *testing.T, letters int) *shell {
	s := newShell(t)
	s.run(exitDone, "init")
	s.deadLetters("failed", letters, time.Now())
	s.env = []string{"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:out.ndjson", "ONCEBOX_DEAD_LETTERS=dir:failed"}
	return s
}

// TestRedriveRunbook: the commands of docs/redrive.md, on a folder.
func TestRedriveRunbook(t *testing.T) {
	s := newRedriveShell(t, 3)
	s.run(exitDone, "redrive", "list").saying(t, "pending\tpoison\t", "the id is missing", "pending 3")
	first := deadLetter(0, time.Time{})
	name := deadletter.Name(first.Scope, first.Owner, first.Data)
	s.run(exitDone, "redrive", "show", name).saying(t, `{"order":{"id":"order-0"}}`, "a JSON object", "pending", "orders")

	s.run(exitLook, "redrive", "run", "--dry-run").saying(t, "ready 0, still-poison 3", "3: the id is missing", "3 letters not redriven")
	s.run(exitDone, "redrive", "run", "--dry-run", "--set", "id-path=order.id").saying(t, "ready 3", "3 would be read")
	if ids := s.delivered(); len(ids) != 0 {
		t.Errorf("a dry run delivered %v", ids)
	}
	s.run(exitDone, "redrive", "run", "--dry-run", "--jq", `.id = "one"`).
		saying(t, "ready 3", `same id "one", with another payload: `, "same ids: 0 with the same payload, 2 with another payload")
	s.run(exitDone, "redrive", "run", "--set", "id-path=order.id", "--name", name, "--reason", "a test").
		saying(t, "letters: done 1\nrecords: delivered 1, dropped 0, done before 0, dead-lettered 0")
	s.run(exitDone, "redrive", "run", "--jq", ".id = .order.id", "--rate", "1000").saying(t, "done 2, already-done 1")
	s.run(exitDone, "redrive", "list", "--status", "done").saying(t, "pending 0, done 3")
	s.run(exitDone, "redrive", "show", name).saying(t, "delivered", "a test", "id-path=order.id")
	if ids := s.delivered(); len(ids) != 3 || ids["order-0"] != 1 || ids["order-1"] != 1 || ids["order-2"] != 1 {
		t.Errorf("delivered %v", ids)
	}
	var summary redriveSummary
	s.json(&summary, "redrive", "run")
	if summary.Letters["already-done"] != 3 || summary.Delivered != 0 {
		t.Errorf("%+v", summary)
	}

	// A new ledger and store: the letters of a file.
	s.run(exitDone, "redrive", "export", "letters.ndjson", "--why", "the id")
	s.run(exitUsage, "redrive", "export", "letters.ndjson").saying(t, "does not exist")
	s.env = append(s.env, "ONCEBOX_DEAD_LETTERS=dir:failed2", "ONCEBOX_STORE=sqlite:2.db")
	s.run(exitDone, "init")
	s.deadLetters("failed2", 0, time.Now())
	for _, want := range []string{"done 3", "done 0, already-done 3"} {
		s.run(exitDone, "redrive", "run", "letters.ndjson", "--set", "id-path=order.id").saying(t, want)
	}
}

// TestRedriveBegun: a letter that a killed run has begun is not called ready or pending.
func TestRedriveBegun(t *testing.T) {
	s := newRedriveShell(t, 2)
	l := deadLetter(0, time.Time{})
	name := deadletter.Name(l.Scope, l.Owner, l.Data)
	folder, err := deadletter.NewFolder(filepath.Join(s.dir, "failed"))
	if err != nil {
		t.Fatal(err)
	}
	killed := deadletter.Runner{Run: "abc", By: "a test"}
	if _, err := deadletter.NewArchive(folder).Begin(t.Context(), name, killed, time.Now()); err != nil {
		t.Fatal(err)
	}
	const says = "the run abc (a test) has begun it; if that run has ended, --take-over abc sends it"
	s.run(exitDone, "redrive", "list").saying(t, "pending 1, begun 1", says)
	s.run(exitDone, "redrive", "show", name).saying(t, "begun", says)
	s.env = append(s.env, "ONCEBOX_ID_PATH=order.id")
	s.run(exitLook, "redrive", "run", "--dry-run").saying(t, "ready 1, begun 1", says)
	s.run(exitDone, "redrive", "run", "--dry-run", "--take-over", "abc").saying(t, "ready 2")
	s.run(exitLook, "redrive", "run").saying(t, "done 1, begun 1", says)
	s.run(exitDone, "redrive", "run", "--take-over", "abc").saying(t, "done 1, already-done 1")
}

// TestRedriveFilters: letters are chosen by time, kind and reason.
func TestRedriveFilters(t *testing.T) {
	s := newRedriveShell(t, 0)
	for i, arrival := range []time.Time{time.Now().AddDate(0, -1, 0), time.Now().Add(-time.Hour), time.Now()} {
		content, err := deadletter.Encode(deadLetter(i, arrival))
		if err != nil {
			t.Fatal(err)
		}
		s.file(fmt.Sprint("failed/", i), string(content))
	}
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	s.run(exitDone, "redrive", "list", "--since", since).saying(t, "pending 1")
	s.run(exitDone, "redrive", "list", "--until", since).saying(t, "pending 1, past-horizon 1")
	s.run(exitDone, "redrive", "list", "--kind", "batch").saying(t, "pending 0")
	s.run(exitDone, "redrive", "list", "--why", "no such").saying(t, "pending 0")
	s.run(exitLook, "redrive", "run", "--set", "id-path=order.id").saying(t, "done 2, past-horizon 1", "1: past the horizon")
	s.run(exitDone, "redrive", "run", "--set", "id-path=order.id", "--past-horizon").saying(t, "done 1, already-done 2")
	s.env = append(s.env, "ONCEBOX_HORIZON=100d")
	s.run(exitDone, "redrive", "list").saying(t, "pending 0, done 3")
}

// TestRedriveBucket: a bucket with both kinds of letters, on DynamoDB.
func TestRedriveBucket(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	endpoint := testengine.S3(t, "dead")
	s.env = append(localEngine(testengine.Dynoxide(t)), "AWS_ENDPOINT_URL_S3="+endpoint, "ONCEBOX_STORE=dynamodb:",
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:out.ndjson")
	s.run(exitDone, "init")
	client := s3.New(s3.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	objects := deadletter.NewBucket(client, "dead", "")
	l := deadLetter(1, time.Now())
	content, err := deadletter.Encode(l)
	if err != nil {
		t.Fatal(err)
	}
	poison := "poison/orders/" + deadletter.Name(l.Scope, l.Owner, l.Data)
	arrival := time.Now()
	event := fmt.Sprintf(`{"Records":[{"eventSource":"aws:kinesis","eventID":"shardId-000000000000:7","eventSourceARN":`+
		`"arn:aws:kinesis:eu-west-1:123456789012:stream/orders","kinesis":{"sequenceNumber":"7","partitionKey":"k",`+
		`"data":"eyJpZCI6ImIiLCJvcmRlciI6eyJpZCI6ImIifX0=","approximateArrivalTimestamp":%d}}]}`, arrival.Unix())
	discard := eventsource.Discard{
		FunctionARN: "arn:aws:lambda:eu-west-1:123456789012:function:f", Shard: "shardId-000000000000",
		StreamARN: "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", Condition: eventsource.RetryAttemptsExhausted,
		Records: []types.Record{{SequenceNumber: aws.String("7"), ApproximateArrivalTimestamp: &arrival}},
		At:      arrival, Event: json.RawMessage(event), ObjectID: "x",
	}
	batch, body := discard.Object()
	for name, content := range map[string][]byte{poison: content, batch: body} {
		if _, err := objects.Create(t.Context(), name, content); err != nil {
			t.Fatal(err)
		}
	}
	s.run(exitDone, "redrive", "list", "s3://dead").saying(t, "pending 2", poison, batch, "RetryAttemptsExhausted")
	s.run(exitDone, "redrive", "list", "s3://dead/poison/orders").saying(t, "pending 1")
	s.run(exitDone, "redrive", "show", batch, "s3://dead").saying(t, `{"id":"b","order":{"id":"b"}}`, "function       f")
	s.run(exitNo, "redrive", "erase", batch, "s3://dead", "--yes").
		saying(t, "Say --undelivered if all records of the batch shall never be delivered")
	s.run(exitLook, "redrive", "run", "s3://dead/poison/orders").saying(t, "still-poison 1")
	s.run(exitLook, "redrive", "run", "s3://dead", "--set", "id-path=order.id").
		saying(t, "done 1, refused 1", "a batch of the function f; --function f runs it")
	// The batch runs from a file. Its marker is beside its object, although the function has another prefix.
	s.run(exitDone, "redrive", "export", "letters.ndjson", "s3://dead", "--status", "pending").saying(t, "exported 1 letter")
	s.env = append(s.env, "ONCEBOX_DEAD_LETTERS=s3://dead/poison/orders")
	s.run(exitDone, "redrive", "run", "letters.ndjson", "--function", "f").saying(t, "done 1")
	s.run(exitDone, "redrive", "run", "s3://dead", "--function", "f").saying(t, "done 0, already-done 2")
	s.run(exitDone, "redrive", "list", "s3://dead").saying(t, "pending 0, done 2")
	for _, letter := range []string{poison, batch} { // so a lifecycle rule can expire them
		tags, err := client.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: aws.String("dead"), Key: &letter})
		if err != nil || len(tags.TagSet) != 1 || *tags.TagSet[0].Key != deadletter.DoneTag {
			t.Errorf("%s has the tags %+v, %v", letter, tags, err)
		}
	}
	s.run(exitDone, "redrive", "list", "s3://dead/poison").saying(t, "pending 0, done 1")
	if ids := s.delivered(); len(ids) != 2 || ids["order-1"] != 1 || ids["b"] != 1 {
		t.Errorf("delivered %v", ids)
	}
	s.run(exitFailed, "redrive", "list", "s3://nowhere").saying(t, "bucket does not exist")

	// A message without a payload, whose stream is gone.
	s.file("message.json", string(discard.Message()))
	s.env = append(s.env, "AWS_ENDPOINT_URL_KINESIS="+testengine.Kinesis(t))
	s.run(exitLook, "redrive", "run", "message.json", "--function", "f").saying(t, "lost 1")
}

// TestRedriveUntagged: without the right to tag, a letter is done. The run warns, and its exit code is 0.
func TestRedriveUntagged(t *testing.T) {
	testengine.CheckOnly(t)
	endpoint := testengine.S3(t, "dead")
	at, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	allowed := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host})
	denying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("tagging") {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
			return
		}
		allowed.ServeHTTP(w, r)
	}))
	t.Cleanup(denying.Close)
	s := newShell(t)
	s.env = append(localEngine("")[1:], "AWS_ENDPOINT_URL_S3="+denying.URL+at.Path, "ONCEBOX_ID_PATH=order.id",
		"ONCEBOX_SINK=ndjson:out.ndjson", "ONCEBOX_DEAD_LETTERS=s3://dead")
	s.run(exitDone, "init")
	objects := deadletter.NewBucket(s3.New(s3.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}), "dead", "")
	for i := range 2 {
		l := deadLetter(i, time.Now())
		content, err := deadletter.Encode(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := objects.Create(t.Context(), deadletter.Name(l.Scope, l.Owner, l.Data), content); err != nil {
			t.Fatal(err)
		}
	}
	s.run(exitDone, "redrive", "run").
		saying(t, "letters: done 2", "delivered 2", "untagged: 2 of them, which do not expire", "s3:PutObjectTagging")
	s.run(exitDone, "redrive", "run").saying(t, "already-done 2")
}

// TestRedriveRefuses checks that errors are found before anything is changed.
func TestRedriveRefuses(t *testing.T) {
	s := newRedriveShell(t, 1)
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--set", "id-pth=x"}, "Did you mean id-path?"},
		{[]string{"--set", "id-path"}, "must be NAME=VALUE"},
		{[]string{"--set", "scope=x"}, "use --scope"},
		{[]string{"--set", "window=soon"}, "ONCEBOX_WINDOW"},
		{[]string{"--jq", "|"}, "--jq: "},
		{[]string{"--scope", "A B"}, `--scope "A B"`},
		{[]string{"--parallel", "0"}, "--parallel 0"},
		{[]string{"--since", "friday"}, "is not a time"},
		{[]string{"dir:failed", "dir:failed"}, "more than one dead-letter store"},
		{[]string{"dir:failed", "file"}, "a dead-letter store and files"},
		{[]string{"file", "--name", "x"}, "--name is for letters of a store"},
		{[]string{"nothing.json"}, "nothing.json"},
		{[]string{"dir:nowhere"}, "nowhere"},
	} {
		s.run(exitUsage, append([]string{"redrive", "run"}, test.args...)...).saying(t, test.says)
	}
	s.env = s.env[:2]
	s.run(exitUsage, "redrive", "list").saying(t, "no dead-letter store was named", "ONCEBOX_DEAD_LETTERS")
	s.run(exitUsage, "redrive", "run").saying(t, "ONCEBOX_DEAD_LETTERS")
	// The sink is the source.
	s.env = []string{
		"ONCEBOX_ID_PATH=order.id", "ONCEBOX_SINK=kinesis:orders", "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=a",
		"AWS_SECRET_ACCESS_KEY=b", "AWS_ENDPOINT_URL_KINESIS=http://127.0.0.1:1",
	}
	s.run(exitLook, "redrive", "run", "dir:failed").saying(t, "refused 1", "the sink is the stream that it comes from")
	s.run(exitLook, "redrive", "run", "dir:failed", "--scope", "Orders_v2", "--set", "sink=ndjson:out.ndjson").
		saying(t, "it is of the scope orders, and this run has Orders_v2")
}

// TestRedriveTakesNoConsumer checks that the function stays the consumer of the stream, even if the variables of
// Lambda are set.
func TestRedriveTakesNoConsumer(t *testing.T) {
	s := newRedriveShell(t, 1)
	s.env = append(s.env, "AWS_LAMBDA_FUNCTION_NAME=somebody")
	s.run(exitDone, "redrive", "run", "--set", "id-path=order.id")
	s.until("SELECT NOT EXISTS (SELECT 1 FROM consumer)")
}

// TestRedriveIntoTable: the effects of dead letters are items of the sink's table, each in one transaction with its
// entry.
func TestRedriveIntoTable(t *testing.T) {
	endpoint := testengine.Dynoxide(t)
	s := newShell(t)
	s.env = append(localEngine(endpoint), "ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=dynamodb:items?key=id=order.id",
		"ONCEBOX_DEAD_LETTERS=dir:failed")
	s.run(exitDone, "init")
	s.deadLetters("failed", 3, time.Now())
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("items"), BillingMode: dynamotypes.BillingModePayPerRequest,
		AttributeDefinitions: []dynamotypes.AttributeDefinition{{
			AttributeName: aws.String("id"), AttributeType: dynamotypes.ScalarAttributeTypeS,
		}},
		KeySchema: []dynamotypes.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: dynamotypes.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.run(exitDone, "redrive", "run", "--set", "id-path=order.id").saying(t, "done 3")
	items, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("items")})
	if err != nil || items.Count != 3 {
		t.Errorf("%+v, %v", items, err)
	}
}

// TestKilledRedrive: a run that is killed at any point is repeated until it is done. No letter is sent twice until a run
// takes over the killed ones. Then no letter is left out, and each record has one id.
func TestKilledRedrive(t *testing.T) {
	testengine.CheckOnly(t)
	const letters = 1500
	s := newRedriveShell(t, letters)
	args := []string{"redrive", "run", "--set", "id-path=order.id"}
	markers := func() int {
		entries, err := os.ReadDir(filepath.Join(s.dir, "failed/done"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return len(entries)
	}
	kills := 0
	for until := 1; until < letters; until += letters / 6 {
		c := s.command(context.Background(), nil, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for markers() < until {
			time.Sleep(time.Millisecond) // before the next look
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			kills++
		}
	}
	left := s.runWith("", args...) // some letters may be begun
	for id, n := range s.delivered() {
		if n > 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
	again := slices.Clone(args)
	for _, found := range regexp.MustCompile(`--take-over (\w+)`).FindAllStringSubmatch(left.stdout+left.stderr, -1) {
		again = append(again, "--take-over", found[1])
	}
	s.run(exitDone, again...)
	s.run(exitDone, args...).saying(t, fmt.Sprintf("done 0, already-done %d", letters))
	ids, repeats := s.delivered(), 0
	for _, n := range ids {
		repeats += n - 1
	}
	if len(ids) != letters || kills < 3 || repeats > kills*32 {
		t.Errorf("%d ids, %d repeats, %d kills", len(ids), repeats, kills)
	}
	t.Logf("%d kills, %d repeats", kills, repeats)
}
