package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/lambdatest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

func TestDoctorOfAFile(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "doctor").saying(t, "a store of this version", "0 failures, 0 warnings")
	s.file("other.db", "not a database")
	for _, file := range []string{"none.db", "other.db"} {
		s.run(exitLook, "--store", "sqlite:"+file, "doctor").saying(t, "failure     store", "1 failure")
	}
	var report doctorJSON
	s.json(&report, "doctor")
	if report.Failures != 0 || len(report.Checks) < 4 {
		t.Errorf("the report is %+v", report)
	}
}

// TestDoctorOfVariables checks that the doctor reports wrong variables that other commands refuse, and variables that
// a function would refuse.
func TestDoctorOfVariables(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	for want, variables := range map[string][]string{
		"did you mean ONCEBOX_WINDOW?":    {"ONCEBOX_WINDW=1h"},
		"ONCEBOX_DEAD_LETTERS is missing": {"ONCEBOX_SINK=kinesis:out", "ONCEBOX_ID_PATH=id"},
		"ONCEBOX_LINK_KEYS is missing":    {"ONCEBOX_CLAIMANT_FROM=link"},
		"ONCEBOX_SINK is the table of": {
			"ONCEBOX_SINK=dynamodb:t?key=id", "ONCEBOX_DEDUPE_TABLE=t", "ONCEBOX_ID_PATH=id",
			"ONCEBOX_DEAD_LETTERS=dir:d",
		},
	} {
		s.env = variables
		s.run(exitLook, "doctor").saying(t, want)
	}
	s.env = []string{
		"ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam", "ONCEBOX_SINK=kinesis:out", "ONCEBOX_ID_PATH=id", "ONCEBOX_DEAD_LETTERS=dir:d",
	}
	s.run(exitDone, "doctor").saying(t, "claim function: would start", "dedupe function: would start")
	for _, needsClient := range []string{"ONCEBOX_SINK=firehose:out", "ONCEBOX_LEDGER=valkey://cache:6379"} {
		s.env = []string{"ONCEBOX_SINK=kinesis:out", "ONCEBOX_ID_PATH=id", "ONCEBOX_DEAD_LETTERS=dir:d", needsClient}
		s.run(exitDone, "doctor").saying(t, "dedupe function of dist/dedupe-full: would start")
	}
}

func TestDoctorOfFlagsWithoutEffect(t *testing.T) {
	s := newShell(t)
	for _, flag := range []string{"--records", "--clean", "--function=f", "--link-key=k", "--expected-rate=5"} {
		s.run(exitUsage, "doctor", flag).saying(t, "needs --deployed")
	}
}

// onTables runs oncebox on two tables of its own.
func onTables(t *testing.T) (s *shell, client *dynamodb.Client, tables string) {
	t.Helper()
	s, tables = newShell(t), rand.Text()
	endpoint := testengine.Dynoxide(t)
	s.env = append(localEngine(endpoint), "ONCEBOX_BANK_TABLE=bank-"+tables, "ONCEBOX_DEDUPE_TABLE=dedupe-"+tables)
	return s, itembankengines.Client(endpoint, nil), tables
}

func TestDoctorOfTables(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitLook, "doctor").saying(t,
		"bank-"+tables+": there is no such table at http", "dedupe-"+tables+": there is no such table", "2 failures")
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "doctor").saying(t, "with the index due", "on purge_at", "of all campaigns (1)", "clock:")

	// Rows of a later version.
	row := map[string]types.AttributeValue{"pk": text("campaign#spring"), "sk": text("meta")}
	_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("bank-" + tables), Key: row, UpdateExpression: aws.String("SET layout = :later"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":later": &types.AttributeValueMemberN{Value: "99"}},
	})
	must(t, err)
	s.run(exitLook, "doctor").saying(t, "failure     tables    layout", "Use the version of oncebox")
}

func text(value string) types.AttributeValue { return &types.AttributeValueMemberS{Value: value} }

// createTable makes a table without an index. sort and the TTL attribute may be "".
func createTable(t *testing.T, client *dynamodb.Client, name, partition, sort, ttl string) {
	t.Helper()
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest}
	for n, key := range []string{partition, sort} {
		if key == "" {
			continue
		}
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema,
			types.KeySchemaElement{AttributeName: &key, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[n]})
	}
	_, err := client.CreateTable(t.Context(), in)
	must(t, err)
	if ttl == "" {
		return
	}
	_, err = client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &ttl, Enabled: aws.Bool(true)},
	})
	must(t, err)
}

// TestDoctorOfTablesThatLackSomething: a table without the index, with another TTL attribute, and of another program.
func TestDoctorOfTablesThatLackSomething(t *testing.T) {
	s, client, tables := onTables(t)
	createTable(t, client, "bank-"+tables, "a", "b", "ends_at")
	createTable(t, client, "dedupe-"+tables, "pk", "sk", "")
	s.run(exitLook, "doctor").saying(t,
		"other keys than pk and sk", "is on the attribute ends_at", "the index due is missing",
		"warning     tables    dedupe-"+tables+", TTL: is off",
		"aws dynamodb update-time-to-live --table-name dedupe-"+tables)
}

// TestDoctorOfKeysOfAnotherType: a table, or an index, with keys of the right names and another type takes no row.
func TestDoctorOfKeysOfAnotherType(t *testing.T) {
	s, client, tables := onTables(t)
	attribute := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	keys := func(partition, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: &partition, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange},
		}
	}
	bank, dedupe := "bank-"+tables, "dedupe-"+tables
	for _, table := range []*dynamodb.CreateTableInput{
		{
			TableName: &bank, KeySchema: keys("pk", "sk"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{attribute("pk", "S"), attribute("sk", "N")},
		},
		{
			TableName: &dedupe, KeySchema: keys("pk", "sk"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{
				attribute("pk", "S"), attribute("sk", "S"), attribute("due", "S"), attribute("ends_at", "S"),
			},
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
				IndexName: aws.String("due"), KeySchema: keys("due", "ends_at"),
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			}},
		},
	} {
		_, err := client.CreateTable(t.Context(), table)
		must(t, err)
	}
	s.run(exitLook, "doctor").saying(t,
		bank+": the table has other keys than pk and sk, both strings", dedupe+": the index due is missing")
}

// deployClaims serves the claim and the sweep function of a stack from their handlers, over the tables of the shell.
// Only the claim function has an alias.
func deployClaims(
	t *testing.T, s *shell, client *dynamodb.Client, tables string, settings ...string,
) map[string]*lambdatest.Function {
	t.Helper()
	bank, dedupe := "bank-"+tables, "dedupe-"+tables
	env := map[string]string{"ONCEBOX_BANK_TABLE": bank, "ONCEBOX_DEDUPE_TABLE": dedupe}
	sweepEnv := map[string]string{"ONCEBOX_BANK_TABLE": bank, "ONCEBOX_DEDUPE_TABLE": dedupe}
	for _, v := range settings {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	_, options, err := claimapi.ParseSettings(append(settings, "ONCEBOX_BANK_TABLE="+bank, "ONCEBOX_DEDUPE_TABLE="+dedupe))
	must(t, err)
	items, log := itembank.NewOperator(dynamostore.New(client, bank, dedupe)), slog.New(slog.NewJSONHandler(io.Discard, nil))
	claims := claimapi.New(items.Bank, options.ClaimantFrom, log, options.HandlerOptions(nil)...)
	sweep := sweephandler.New(items, log)
	authorizer := map[string]string{"jwt": "JWT", "iam": "AWS_IAM", "link": "NONE", "body": "AWS_IAM"}[strings.Split(
		env["ONCEBOX_CLAIMANT_FROM"], ":")[0]]
	if env["ONCEBOX_CALLER"] == "any" {
		authorizer = "NONE"
	}
	functions := map[string]*lambdatest.Function{
		"shop-claims": {Env: env, Alias: "live", Parts: lambdatest.Parts{Alarm: "OK", Routes: map[string]string{
			"POST /campaigns/{campaign}/claims":            authorizer,
			"GET /campaigns/{campaign}/claims/{claimant+}": authorizer,
			"GET /c/{campaign}":                            "NONE",
		}}, Invoke: func(event []byte) (reply, log []byte) {
			var e events.APIGatewayV2HTTPRequest
			if json.Unmarshal(event, &e) != nil {
				return []byte(`{"errorMessage":"not an event"}`), nil
			}
			r, err := claims.Handle(context.Background(), e)
			return replyOf(r, err), nil
		}},
		"shop-sweep": {Env: sweepEnv, Description: sweephandler.Description, Parts: lambdatest.Parts{
			Rule: "ENABLED",
		}, Invoke: func([]byte) (reply, log []byte) {
			r, err := sweep.Handle(context.Background())
			return replyOf(r, err), nil
		}},
		"custom-resource": {Env: map[string]string{}}, // of the CDK
	}
	s.env = append(s.env, "AWS_ENDPOINT_URL="+lambdatest.Serve(t, "shop", functions))
	return functions
}

// TestDoctorOfAnAlias plays the middle of a deployment: the function itself does not start, and callers of the alias
// see no error. So the doctor sees no error, either, unless it must invoke the function itself.
func TestDoctorOfAnAlias(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	functions := deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	functions["shop-claims"].Latest = map[string]string{"ONCEBOX_CLAIMANT_FROM": "body", "ONCEBOX_OLD": "variable"}
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t,
		"ok          alias     claim function shop-claims: live is version 7",
		"info        alias     sweep function shop-sweep: none: doctor invokes version $LATEST", "0 failures, 0 warnings")
	s.run(exitDone, "doctor", "--deployed", "--function", "shop-claims:live", "--function", "shop-sweep").saying(t,
		"live is version 7", "0 failures")
	s.run(exitLook, "doctor", "--deployed", "--function", "shop-claims").saying(t,
		"failure     settings  claim function shop-claims: ONCEBOX_OLD is not a known setting", "1 failure")

	functions["shop-claims"].Canary = map[string]float64{"8": 0.1}
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t,
		"live is version 7, and also version 8 (10 % of the calls)", "0 failures, 1 warning")
	functions["shop-claims"].Hidden = "no kms:Decrypt"
	s.run(exitFailed, "doctor", "--deployed", "--stack", "shop").saying(t,
		"the variables of the function shop-claims cannot be read: no kms:Decrypt", "you need kms:Decrypt")
}

// backups is the HTTP client of a doctor. The engine has no backups, so it answers the requests about them with a status,
// or refuses them if that is "".
type backups string

func (b backups) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeContinuousBackups") {
		return http.DefaultClient.Do(r)
	}
	answer := httptest.NewRecorder()
	if b == "" {
		answer.Code = http.StatusBadRequest
		answer.Body.WriteString(`{"__type": "com.amazon.coral.service#AccessDeniedException", "message": "not authorized"}`)
		return answer.Result(), nil
	}
	fmt.Fprintf(answer, `{"ContinuousBackupsDescription": {"ContinuousBackupsStatus": "ENABLED",
		"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "%s"}}}`, string(b))
	return answer.Result(), nil
}

// TestDoctorOfUnprotectedTables checks that a table that can be deleted, or has no point-in-time recovery, is a warning.
// If doctor may not look at the backups, that is no OK. A local engine has no protection, so the doctor of the command
// line leaves that out there.
func TestDoctorOfUnprotectedTables(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	for status, c := range map[backups]struct {
		protected bool
		want      map[doctor.Status]int
	}{
		"ENABLED":  {true, map[doctor.Status]int{doctor.Info: 4}},
		"DISABLED": {false, map[doctor.Status]int{doctor.Warning: 4}},
		"":         {true, map[doctor.Status]int{doctor.Info: 2, doctor.NotPlayed: 2}},
	} {
		for _, table := range []string{"bank-" + tables, "dedupe-" + tables} {
			_, err := client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
				TableName: &table, DeletionProtectionEnabled: &c.protected,
			})
			must(t, err)
		}
		report := doctor.NewReport(nil)
		doctor.Tables{
			Client: dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.HTTPClient = status }),
			Bank:   "bank-" + tables, Dedupe: "dedupe-" + tables, Explain: error.Error,
		}.Check(t.Context(), report)
		got := map[doctor.Status]int{}
		for _, check := range report.Checks {
			if strings.HasSuffix(check.Name, ", deletion protection") || strings.HasSuffix(check.Name, ", point-in-time recovery") {
				got[check.Status]++
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("backups %q, protected %t: %+v", status, c.protected, report.Checks)
		}
	}
}

// TestDoctorInvokesNoOtherFunction uses a function of another program in the same stack, which has the variables of
// the sweep. The command line has the same variables. A sweep without the description must be named.
func TestDoctorInvokesNoOtherFunction(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	functions := deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	functions["a-nightly-draw"] = &lambdatest.Function{
		Env: functions["shop-sweep"].Env, Description: "draws the winners",
		Invoke: func([]byte) (reply, log []byte) {
			t.Error("the draw was invoked")
			return []byte("{}"), nil
		},
	}
	const told = "info        settings  %s: has the variables of a sweep function, and not its description"
	played := s.run(exitDone, "doctor", "--deployed", "--stack", "shop")
	played.saying(t, fmt.Sprintf(told, "a-nightly-draw"), "ok          claims    sweep:", "0 failures, 0 warnings")

	functions["shop-sweep"].Description = ""
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t,
		fmt.Sprintf(told, "shop-sweep"), "not played  claims    sweep: there is no sweep function", "0 failures, 0 warnings")
	s.run(exitLook, "doctor", "--deployed", "--stack", "shop", "--strict").saying(t, "not played  claims    sweep:", "0 failures")
	s.run(exitDone, "doctor", "--deployed", "--function", "shop-claims:live", "--function", "shop-sweep").saying(t,
		"ok          claims    sweep:", "0 failures, 0 warnings")
}

// TestDoctorOfASweepThatFailsElsewhere uses a sweep that fails because it cannot finish another campaign, whose rows
// contradict each other. If the sweep closed the scratch claim, the step is still ok.
func TestDoctorOfASweepThatFailsElsewhere(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	functions := deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	sweep, failure := functions["shop-sweep"].Invoke, errors.New("1 of 2 campaigns were not swept to their end")
	functions["shop-sweep"].Invoke = func(event []byte) (reply, log []byte) {
		sweep(event)
		return replyOf(nil, failure), nil
	}
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t,
		"ok          claims    sweep:", "ok          claims    sweep of a claim with several items:",
		"warning     claims    sweep of all campaigns: the sweep function failed: "+failure.Error(), "0 failures, 2 warnings")
	functions["shop-sweep"].Invoke = func([]byte) (reply, log []byte) { return replyOf(nil, failure), nil }
	s.run(exitLook, "doctor", "--deployed", "--stack", "shop").saying(t,
		"failure     claims    sweep: the sweep function failed: "+failure.Error(), "2 failures, 0 warnings")
}

// TestDoctorOfThrottledFunctions: the table of a function is throttled for a moment.
func TestDoctorOfThrottledFunctions(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	functions := deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	claims, calls := functions["shop-claims"].Invoke, 0
	functions["shop-claims"].Invoke = func(event []byte) (reply, log []byte) {
		if calls++; calls == 1 || calls == 3 { // the state of the campaign, and the claim
			return replyOf(events.APIGatewayV2HTTPResponse{StatusCode: 503, Body: "{}"}, nil), nil
		}
		return claims(event)
	}
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t, "0 failures, 0 warnings")
}

// TestDoctorOfADedupeTableOfItsOwn uses a dedupe function with a table that the functions of claims do not use. The
// table is checked, whichever function the stack lists first, and needs no index of claims. Errors name the
// functions' tables.
func TestDoctorOfADedupeTableOfItsOwn(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	functions := deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	ownTable := "records-" + tables
	functions["a-records"] = &lambdatest.Function{
		Stream: "arn:aws:kinesis:us-east-1:123456789012:stream/in",
		Env: map[string]string{
			"ONCEBOX_DEDUPE_TABLE": ownTable, "ONCEBOX_SINK": "kinesis:out", "ONCEBOX_ID_PATH": "id",
			"ONCEBOX_DEAD_LETTERS": "s3://letters",
		},
	}
	s.run(exitLook, "doctor", "--deployed", "--stack", "shop").saying(t,
		ownTable+": there is no such table", "1 failure, 0 warnings")
	createTable(t, client, ownTable, "pk", "sk", "purge_at")
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t,
		ownTable+": ACTIVE", ownTable+", TTL: on purge_at", "0 failures, 0 warnings")
}

// setCreated sets when a campaign was created.
func setCreated(t *testing.T, client *dynamodb.Client, tables, campaign string, created time.Time) {
	t.Helper()
	millis := strconv.FormatInt(created.UnixMilli(), 10)
	past, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName:        aws.String("bank-" + tables),
		Key:              map[string]types.AttributeValue{"pk": text("campaign#" + campaign), "sk": text("meta")},
		UpdateExpression: aws.String("SET created_at = :ago"), ReturnValues: types.ReturnValueUpdatedOld,
		ExpressionAttributeValues: map[string]types.AttributeValue{":ago": &types.AttributeValueMemberN{Value: millis}},
	})
	must(t, err)
	if past.Attributes["created_at"] == nil {
		t.Fatal("the row has no created_at")
	}
}

// TestDoctorsAtOnce checks that two doctors use different campaigns, and delete the campaigns that a third doctor
// left.
func TestDoctorsAtOnce(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	const left = "oncebox-doctor-0123456789ab-holds"
	s.run(exitDone, "campaign", "create", left, "--hold", "30s", "--shards", "1")
	deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	setCreated(t, client, tables, left, time.UnixMilli(1))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t, "0 failures, 0 warnings")
		})
	}
	all.Wait()
	if list := s.run(exitDone, "campaign", "list").stdout; strings.Contains(list, "oncebox-doctor") {
		t.Errorf("the campaigns are %s", list)
	}
}

func replyOf(value any, err error) []byte {
	if err != nil {
		value = map[string]string{"errorMessage": err.Error()}
	}
	reply, _ := json.Marshal(value) // replies are JSON
	return reply
}

// TestDoctorOfAStack plays with the functions of a stack for each source of claimants. It leaves the campaigns alone.
func TestDoctorOfAStack(t *testing.T) {
	keys := newShell(t)
	keys.run(exitDone, "links", "keygen", "link.key")
	public := strings.TrimSpace(keys.read("link.key.pub"))
	for name, c := range map[string]struct {
		settings, flags []string
		notPlayed       []string
	}{
		"body":     {[]string{"ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam"}, nil, nil},
		"open":     {[]string{"ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=any"}, nil, []string{"hold and its confirmation"}},
		"jwt":      {[]string{"ONCEBOX_CLAIMANT_FROM=jwt:sub"}, nil, []string{"hold and its confirmation"}},
		"confirms": {[]string{"ONCEBOX_CLAIMANT_FROM=jwt:sub", "ONCEBOX_CLAIMANTS_CONFIRM=on"}, nil, nil},
		"iam":      {[]string{"ONCEBOX_CLAIMANT_FROM=iam"}, nil, []string{"hold and its confirmation"}},
		"role":     {[]string{"ONCEBOX_CLAIMANT_FROM=iam:role"}, nil, []string{"hold and its confirmation"}},
		"link": {
			[]string{"ONCEBOX_CLAIMANT_FROM=link", "ONCEBOX_LINK_KEYS=" + public},
			[]string{"--link-key", filepath.Join(keys.dir, "link.key")},
			[]string{"hold and its confirmation"},
		},
		"no-key": {
			[]string{"ONCEBOX_CLAIMANT_FROM=link", "ONCEBOX_LINK_KEYS=" + public}, nil,
			[]string{
				"state of a campaign", "claim", "claim, read again", "release", "hold and its confirmation",
				"a claim that has ended, asked for by its claimant", "a claim that has ended, found by its index", "sold out",
				"an item that has ended", "sold out, in the row of the campaign",
			},
		},
		"challenge": {
			[]string{
				"ONCEBOX_CLAIMANT_FROM=link", "ONCEBOX_LINK_KEYS=" + public,
				"ONCEBOX_CHALLENGE=turnstile?site-key=site&secret-file=" + filepath.Join(keys.dir, "link.key"),
			},
			[]string{"--link-key", filepath.Join(keys.dir, "link.key")},
			[]string{
				"claim", "claim, read again", "release", "hold and its confirmation",
				"a claim that has ended, asked for by its claimant", "a claim that has ended, found by its index", "sold out",
				"an item that has ended", "sold out, in the row of the campaign",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, client, tables := onTables(t)
			s.run(exitDone, "init")
			s.run(exitDone, "campaign", "create", "spring")
			deployClaims(t, s, client, tables, c.settings...)
			var report doctorJSON
			s.json(&report, append([]string{"doctor", "--deployed", "--stack", "shop"}, c.flags...)...)
			var notPlayed []string
			for _, check := range report.Checks {
				switch check.Status {
				case doctor.NotPlayed:
					notPlayed = append(notPlayed, check.Name)
				case doctor.Failure, doctor.Warning:
					t.Errorf("%+v", check)
				}
			}
			if !slices.Equal(notPlayed, c.notPlayed) {
				t.Errorf("not played: want %q, got %q", c.notPlayed, notPlayed)
			}
			list := s.run(exitDone, "campaign", "list").stdout
			if strings.Contains(list, "oncebox-doctor") || !strings.Contains(list, "spring") {
				t.Errorf("the campaigns are %s", list)
			}
		})
	}
}

// TestDoctorOfOtherStacks checks that the doctor names the parts that it cannot check.
func TestDoctorOfOtherStacks(t *testing.T) {
	s, client, tables := onTables(t)
	deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	s.run(exitUsage, "doctor", "--deployed").saying(t, "--stack oncebox: there is no such stack in the region us-east-1")
	s.run(exitUsage, "doctor", "--deployed", "--function", "custom-resource").saying(t, "has no function of oncebox")
	s.run(exitUsage, "doctor", "--deployed", "--stack", "shop", "--records").saying(t, "there is no dedupe function")
	s.run(exitUsage, "doctor", "--deployed", "--link-key", "none.key").saying(t, "none.key")
	s.run(exitUsage, "doctor", "--deployed", "--stack", "shop", "--expected-rate=-1").saying(t, "must be a number of claims")
	s.run(exitUsage, "doctor", "--deployed", "--function", "shop-sweep", "--expected-rate", "5").saying(t, "there is no claim function")
	s.run(exitLook, "doctor", "--deployed", "--stack", "shop", "--expected-rate", "1001").saying(t,
		"failure     capacity  rate limit of the claim function shop-claims: 1000 requests a second and 1000 at once",
		"do: Set claims.rate-limit and claims.burst-limit to 1001 or more.",
		"ok          capacity  concurrency of the account: 400 of 1000 are not reserved", "may need 251 (1001 requests a second of 250ms)")
	s.run(exitLook, "doctor", "--deployed", "--function", "shop-claims:live").saying(t,
		"there is no such table", "there is no sweep function")
}

// TestDoctorCleansUp checks that a later run deletes the campaigns of a killed run, and nothing else.
func TestDoctorCleansUp(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	const left, mine = "oncebox-doctor-0123456789ab-holds", "oncebox-doctor-of-mine"
	for _, name := range []string{left, mine} {
		s.run(exitDone, "campaign", "create", name, "--hold", "30s", "--shards", "1")
		s.file("items", left+"-1\n"+left+"-2\n")
		s.run(exitDone, "load", name, "items")
		s.run(exitDone, "claim", name, "oncebox-doctor-b")
	}
	deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop") // because the other run may still be running
	s.run(exitDone, "campaign", "show", left)
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop", "--clean").saying(t, "deleted 1 of interrupted runs")
	s.run(exitNo, "campaign", "show", left)
	s.run(exitDone, "claim", "show", mine, "oncebox-doctor-b")
	out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("dedupe-" + tables)})
	must(t, err)
	if len(out.Items) != 1 {
		t.Errorf("want one claim, got %v", out.Items)
	}
}

// TestDoctorWhoseCampaignIsDeleted: another doctor, with --clean, deletes the campaign of a run between two steps.
func TestDoctorWhoseCampaignIsDeleted(t *testing.T) {
	s, client, tables := onTables(t)
	s.run(exitDone, "init")
	functions := deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	claims := functions["shop-claims"].Invoke
	functions["shop-claims"].Invoke = func(event []byte) (reply, log []byte) {
		reply, log = claims(event)
		var e events.APIGatewayV2HTTPRequest
		must(t, json.Unmarshal(event, &e))
		if campaign, ended := strings.CutSuffix(e.RawPath, "-ended/claims"); ended {
			key := "campaign#" + strings.TrimPrefix(campaign, "/campaigns/") + "-ended"
			_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
				TableName: aws.String("bank-" + tables),
				Key:       map[string]types.AttributeValue{"pk": text(key), "sk": text("meta")},
			})
			must(t, err)
		}
		return reply, log
	}
	s.run(exitLook, "doctor", "--deployed", "--stack", "shop").saying(t,
		"ok          claims    an item that has ended:",
		"failure     claims    sold out, in the row of the campaign: ", "1 failure, 0 warnings")
}

// TestDoctorOnAFastClock checks that DynamoDB's clock decides about the age of a campaign. A machine whose clock is
// ahead does not delete the campaigns of a run that has just begun, and its own campaigns get the time of DynamoDB's
// clock.
func TestDoctorOnAFastClock(t *testing.T) {
	s, client, tables := onTables(t)
	engine, err := url.Parse(*client.Options().BaseEndpoint)
	must(t, err)
	const ahead = 20*time.Minute + 30*time.Second
	behind := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(engine) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(-ahead).UTC().Format(http.TimeFormat))
			return nil
		},
	})
	t.Cleanup(behind.Close)
	s.run(exitDone, "init")
	const running = "oncebox-doctor-0123456789ab-holds"
	s.run(exitDone, "campaign", "create", running, "--hold", "30s", "--shards", "1")
	setCreated(t, client, tables, running, time.Now().Add(-ahead))
	functions := deployClaims(t, s, client, tables, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=iam")
	sweep := functions["shop-sweep"].Invoke
	functions["shop-sweep"].Invoke = func(event []byte) (reply, log []byte) {
		campaigns, err := dynamostore.New(client, "bank-"+tables, "dedupe-"+tables).Campaigns(t.Context())
		if err != nil || len(campaigns) != 3 {
			t.Errorf("the campaigns are %v, %v", campaigns, err)
		}
		for _, c := range campaigns {
			if age := time.Since(c.CreatedAt); age < ahead {
				t.Errorf("%s was created %s ago by this machine's clock, want at least %s", c.Name, age, ahead)
			}
		}
		return sweep(event)
	}
	s.env = append(s.env, "AWS_ENDPOINT_URL_DYNAMODB="+behind.URL)
	s.run(exitDone, "doctor", "--deployed", "--stack", "shop").saying(t, "this machine's clock is 20m")
	s.run(exitDone, "campaign", "show", running)
}
