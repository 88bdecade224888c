package stack

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testengine"
)

// TestContextIsRefused checks that an error names the context value that is wrong, and says what to do.
func TestContextIsRefused(t *testing.T) {
	source24h := values("source-stream-arn", theirStream, "source-retention", "24h")
	for _, tc := range []struct {
		values map[string]any
		says   []string
	}{
		// Unknown names and values.
		{values("id-pth", "id"), []string{"oncebox:id-pth", "did you mean oncebox:id-path?"}},
		{values("ID-PATH", "id"), []string{"oncebox:ID-PATH", "did you mean oncebox:id-path?"}},
		{values("failure-bucket", "letters"), []string{"oncebox:failure-bucket is now oncebox:dead-letter-bucket"}},
		{values("bell-queue-arn", theirQueue), []string{"oncebox:bell-queue-arn is now oncebox:notify-queue-arn"}},
		{values("jobs", "claim"), []string{`oncebox:jobs is "claim"; choose claims, records, or claims,records`}},
		{values("architecture", "amd64"), []string{`oncebox:architecture is "amd64"; choose arm64 or x86_64`}},
		{values("auth", "none"), []string{`oncebox:auth is "none"; choose iam, jwt or open`}},
		{values("disposable", "yes"), []string{"oncebox:disposable is neither on nor off"}},
		{map[string]any{"disposable": true}, []string{"oncebox:disposable is neither on nor off"}},
		{values("natural", "no"), []string{"oncebox:natural is neither on nor off"}},
		{values("synthetic", "no"), []string{"oncebox:synthetic is neither on nor off"}},
		{values("aggregation", "no"), []string{"oncebox:aggregation is neither on nor off"}},
		{values("batch-size", "many"), []string{"oncebox:batch-size", "a whole number from 1"}},
		{values("window", "2 days"), []string{"oncebox:window is not a duration", "24h or 7d"}},
		{map[string]any{"scope": map[string]any{"a": "b"}}, []string{"oncebox:scope is an object; write a text, a number"}},
		{map[string]any{"volatile": []any{"a", []any{map[string]any{}}}}, []string{"oncebox:volatile is an object; write a text"}},
		{values("id-path", "${Token[x.1]}"), []string{"oncebox:id-path contains ${Token["}},
		{values("endpoint-url", "localhost:8000"), []string{`oncebox:endpoint-url is "localhost:8000"; it must be an http or https URL`}},

		// Only an empty value means "not set".
		{values("rate-limit", "0"), []string{"oncebox:rate-limit"}},
		{values("burst-limit", "0"), []string{"oncebox:burst-limit"}},
		{values("concurrency", "0"), []string{"oncebox:concurrency"}},
		{values("batch-size", "0"), []string{"oncebox:batch-size"}},
		{values("parallelization", "0"), []string{"oncebox:parallelization"}},
		{values("log-retention-days", "0"), []string{"oncebox:log-retention-days"}},
		{values("window", "0"), []string{"oncebox:window"}},
		{values("horizon", "0"), []string{"oncebox:horizon"}},
		{values("source-retention", "0"), []string{"oncebox:source-retention"}},
		{values("record-age", "0"), []string{"oncebox:record-age"}},

		// Names of existing resources. The CDK panics over most of these.
		{values("stack", "my stack"), []string{`oncebox:stack is "my stack"; the name of a stack has 1 to 128`}},
		{values("stack", "1st"), []string{"oncebox:stack"}},
		{values("stack", strings.Repeat("x", 129)), []string{"oncebox:stack"}},
		{values("bank-table", "a/b"), []string{"oncebox:bank-table is not a table name"}},
		{values("bank-table", strings.Repeat("x", 256)), []string{"oncebox:bank-table is not a table name"}},
		{values("jobs", "claims", "dedupe-table", "x"), []string{"oncebox:dedupe-table is not a table name"}},
		{values("jobs", "records", "dedupe-table", "a b"), []string{"oncebox:dedupe-table is not a table name"}},
		{values("bank-table", "same", "dedupe-table", "same"), []string{"oncebox:dedupe-table is the table of oncebox:bank-table"}},
		{values("key-arn", "alias/theirs"), []string{`oncebox:key-arn is "alias/theirs"; write an ARN, arn:aws:kms:REGION:ACCOUNT:key/NAME`}},
		{values("key-arn", "arn:aws:kms:eu-west-1:123456789012:theirs"), []string{"oncebox:key-arn"}},
		{values("key-arn", "arn:aws:kms:eu-west-1:123456789012:alias/theirs"), []string{"oncebox:key-arn"}},
		{values("key-arn", "arn:aws:kms:::key/theirs"), []string{"oncebox:key-arn"}},
		{values("alarm-topic-arn", theirQueue), []string{"oncebox:alarm-topic-arn", "arn:aws:sns:REGION:ACCOUNT:NAME"}},
		{values("alarm-topic-arn", "arn::sns:eu-west-1:123456789012:theirs"), []string{"oncebox:alarm-topic-arn"}},
		{values("alarm-topic-arn", "arn:aws:sns:eu-west-1:123456789012:a b"), []string{"oncebox:alarm-topic-arn"}},
		{with(source24h, "source-stream-arn", "theirs"), []string{"oncebox:source-stream-arn", ":stream/NAME"}},
		{with(source24h, "source-stream-arn", "arn:aws:kinesis:eu-west-1:123456789012:theirs"), []string{"oncebox:source-stream-arn", ":stream/NAME"}},
		{with(source24h, "source-stream-arn", theirStream+"/consumer/fast:1"), []string{"oncebox:source-stream-arn", ":stream/NAME"}},
		{with(source24h, "source-stream-arn", "arn:aws:kinesis:eu-west-1:123456789012:stream/"), []string{"oncebox:source-stream-arn"}},
		{values("destination-stream-arn", "arn::kinesis:eu-west-1:123456789012:stream/theirs"), []string{"oncebox:destination-stream-arn"}},
		{values("destination-stream-arn", "arn:aws:kinesis:eu-west-1:123456789012:theirs"), []string{"oncebox:destination-stream-arn", ":stream/NAME"}},
		{values("notify-queue-arn", "https://sqs.eu-west-1.amazonaws.com/123456789012/theirs"), []string{"oncebox:notify-queue-arn", "arn:aws:sqs:REGION:ACCOUNT:NAME"}},
		{values("notify-queue-arn", "arn::sqs:eu-west-1:123456789012:theirs"), []string{"oncebox:notify-queue-arn"}},
		{values("notify-queue-arn", theirQueue+".fifo"), []string{"oncebox:notify-queue-arn is a FIFO queue; choose a standard queue"}},
		{values("dead-letter-bucket", "Their_Bucket"), []string{`oncebox:dead-letter-bucket is "Their_Bucket"; the name of a bucket has 3 to 63`}},
		{values("dead-letter-bucket", "a..b"), []string{`oncebox:dead-letter-bucket is "a..b"`, "dots only between letters or digits"}},

		// Limits of AWS.
		{values("log-retention-days", "2"), []string{`oncebox:log-retention-days is "2"; CloudWatch Logs offers [1 3 5 7 14 30 `}},
		{values("warm-read-units", "12000"), []string{"oncebox:warm-read-units is 12000 and oncebox:warm-write-units is 0"}},
		{values("warm-read-units", "11999", "warm-write-units", "4000"), []string{"choose at least 12000 and 4000, or set neither"}},
		{values("warm-read-units", "12000", "warm-write-units", "-1"), []string{"oncebox:warm-write-units", "a whole number from 0"}},
		{values("batch-size", "10001"), []string{"oncebox:batch-size is 10001; choose 1 to 10000"}},
		{values("batch-window", "301s"), []string{"oncebox:batch-window is 5m1s; choose whole seconds up to 5m"}},
		{values("batch-window", "1500ms"), []string{"oncebox:batch-window is 1.5s"}},
		{values("parallelization", "11", "aggregation", "off"), []string{"oncebox:parallelization is 11; choose 1 to 10"}},
		{values("retries", "-2"), []string{"oncebox:retries", "a whole number from -1"}},
		{values("retries", "10001"), []string{"oncebox:retries is 10001; choose -1 to 10000"}},
		{values("record-age", "59s"), []string{"oncebox:record-age is 59s; choose whole seconds from 1m to 7d"}},
		{values("record-age", "61500ms"), []string{"oncebox:record-age is 1m1.5s"}},
		{values("record-age", "169h", "source-retention", "200h"), []string{"oncebox:record-age is 169h"}},
		{values("source-retention", "23h"), []string{"oncebox:source-retention is 23h; choose whole hours from 1d to 365d"}},
		{values("source-retention", "8761h", "horizon", "9000h"), []string{"oncebox:source-retention is 8761h"}},
		{values("source-retention", "24h30m"), []string{"oncebox:source-retention is 24h30m"}},
		{values("volatile", strings.Repeat("a_member_of_some_length,", 200)+"b"), []string{"variables of the function have", "Lambda takes at most 4096"}},

		// Settings that need others.
		{values("jwt-audience", "web"), []string{`oncebox:jwt-audience is "web"; it needs oncebox:auth=jwt, and oncebox:auth is iam`}},
		{with(jwt, "auth", "open"), []string{"oncebox:jwt-issuer", "it needs oncebox:auth=jwt, and oncebox:auth is open"}},
		{with(jwt, "jwt-issuer", ""), []string{"oncebox:auth=jwt needs oncebox:jwt-issuer"}},
		{with(jwt, "jwt-issuer", "http://issuer.example"), []string{`oncebox:auth=jwt needs oncebox:jwt-issuer that is an https URL, not "http://issuer.example"`}},
		{with(jwt, "jwt-issuer", "https:"), []string{`oncebox:jwt-issuer that is an https URL, not "https:"`}},
		{with(jwt, "jwt-audience", ""), []string{"oncebox:auth=jwt needs oncebox:jwt-audience", "every token of the issuer"}},
		{with(jwt, "jwt-audience", "web,"), []string{"oncebox:auth=jwt needs oncebox:jwt-audience without empty names"}},
		{with(jwt, "claimant-from", "body"), []string{"oncebox:claimant-from=body with oncebox:auth=jwt", "for a back end choose oncebox:auth=iam"}},
		{with(jwt, "claimant-from", "iam"), []string{"oncebox:claimant-from=iam needs oncebox:auth=iam: oncebox:auth=jwt verifies no IAM identity"}},
		{values("claimant-from", "jwt:sub"), []string{"oncebox:claimant-from=jwt:sub needs oncebox:auth=jwt: oncebox:auth=iam verifies no token"}},
		{values("auth", "open", "claimant-from", "jwt:sub"), []string{"oncebox:claimant-from=jwt:sub needs oncebox:auth=jwt: oncebox:auth=open verifies no token"}},
		{values("auth", "open", "claimant-from", "iam"), []string{"oncebox:claimant-from=iam needs oncebox:auth=iam"}},
		{values("parallelization", "2"), []string{"oncebox:parallelization=2 needs oncebox:aggregation=off", "KPL aggregates"}},
		{values("source-stream-arn", theirStream), []string{"oncebox:source-stream-arn needs oncebox:source-retention"}},

		// Combinations that break a guarantee.
		{values("parallelization", "2", "aggregation", "off", "checkpoint", "on"), []string{`oncebox:checkpoint is "on"; with oncebox:parallelization=2`}},
		{values("horizon", "167h"), []string{"oncebox:horizon is 167h, shorter than oncebox:source-retention, which is 7d", "delivered twice"}},
		{values("source-retention", "15d"), []string{"oncebox:horizon is 14d, shorter than oncebox:source-retention, which is 15d"}},
		{values("record-age", "7d"), []string{"oncebox:record-age is 7d, not shorter than oncebox:source-retention, which is 7d", "Kinesis would delete"}},
		{values("record-age", "24h", "source-retention", "24h"), []string{"oncebox:record-age is 1d, not shorter than oncebox:source-retention"}},
		{with(source24h, "destination-stream-arn", theirStream), []string{"oncebox:source-stream-arn and oncebox:destination-stream-arn are the same stream"}},
		{with(source24h, "destination-stream-arn", "arn:aws:kinesis:us-west-2:123456789012:stream/others"),
			[]string{"oncebox:destination-stream-arn is arn:aws:kinesis:us-west-2:123456789012:stream/others, in another account or region"}},
		{values("key-arn", theirKey, "destination-stream-arn", "arn:aws:kinesis:eu-west-1:999999999999:stream/others"),
			[]string{"oncebox:destination-stream-arn is arn:aws:kinesis:eu-west-1:999999999999:stream/others, in another account or region"}},
		{with(source24h, "key-arn", theirKey, "source-stream-arn", "arn:aws:kinesis:us-west-2:123456789012:stream/theirs"),
			[]string{"oncebox:source-stream-arn is in us-west-2 and the stack in eu-west-1"}},

		// What the functions would refuse.
		{values("claimant-from", "header"), []string{"oncebox:claimant-from ", "jwt:CLAIM"}},
		{values("campaign-cache", "-1s"), []string{"oncebox:campaign-cache "}},
		{values("campaign-cache", "6s"), []string{"oncebox:campaign-cache is longer than 5s"}},
		{values("log-level", "loud"), []string{"oncebox:log-level "}},
		{values("id-path", ""), []string{"oncebox:id-path is missing"}},
		{values("id-path", "a..b"), []string{"oncebox:id-path has an empty part"}},
		{values("fingerprint-path", "id"), []string{"oncebox:fingerprint-path"}},
		{values("volatile", "a,,b"), []string{"oncebox:volatile"}},
		{values("contexts-path", "a.0"), []string{"oncebox:contexts-path"}},
		{values("ids", "derived"), []string{"oncebox:ids "}},
		{values("scope", "Orders"), []string{"oncebox:scope ", "1 to 63"}},
		{values("scope", strings.Repeat("a", 64)), []string{"oncebox:scope "}},
		{values("window", "999ms"), []string{"oncebox:window "}},
		{values("window", "876001h"), []string{"oncebox:window is longer than"}},
		{values("horizon", "876001h"), []string{"oncebox:horizon is longer than"}},
		{values("source-retention", "24h", "horizon", "23h"), []string{"oncebox:horizon "}},
		{values("concurrency", "1001"), []string{"oncebox:concurrency ", "1 to 1000"}},

		// Everything at once.
		{
			with(jwt, "jwt-issuer", "http://x", "jwt-audience", "", "parallelization", "3", "scope", "A", "horizon", "100h", "record-age", "200h", "retries", "10001"),
			[]string{
				"oncebox:jwt-issuer", "oncebox:jwt-audience", "oncebox:parallelization=3", "oncebox:scope", "oncebox:horizon is 100h",
				"oncebox:record-age is 200h", "oncebox:retries is 10001",
			},
		},
		{
			values("jobs", "claim", "no-such", "1", "architecture", "arm", "natural", "no", "key-arn", "x", "dead-letter-bucket", "A", "warm-read-units", "1"),
			[]string{
				"oncebox:jobs", "oncebox:no-such", "oncebox:architecture", "oncebox:natural", "oncebox:key-arn", "oncebox:dead-letter-bucket",
				"oncebox:warm-read-units is 1",
			},
		},
	} {
		t.Run(fmt.Sprintf("%.100v", tc.values), func(t *testing.T) {
			message := refused(t, tc.values)
			says(t, message, tc.says...)
			if i := slices.IndexFunc(propNames, func(name string) bool { return strings.Contains(message, name) }); i >= 0 {
				t.Errorf("it names %s, which the user does not know:\n%s", propNames[i], message)
			}
		})
	}
}

// propNames are names of Go and of functions, which users of context values do not know.
var propNames = []string{"ONCEBOX_", "Props", "AuthJWT", "AuthIAM", "Source", "Destination", "Retention", "Horizon", "BatchSize", "RecordAge"}

// says checks the parts of a message.
func says(t *testing.T, message string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("it says\n%s\nand not %q", message, part)
		}
	}
}

// TestOneProblemIsToldOnce checks a problem that both jobs have.
func TestOneProblemIsToldOnce(t *testing.T) {
	if message := refused(t, values("log-level", "loud")); strings.Count(message, "oncebox:log-level") != 1 {
		t.Errorf("it says\n%s", message)
	}
}

// TestHostileContextValues checks that every value makes a template or an error, and that jsii does not panic.
func TestHostileContextValues(t *testing.T) {
	testengine.CheckOnly(t)
	for _, name := range infra.ContextNames() {
		for _, value := range []string{"\x00", strings.Repeat("x", 300)} {
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("oncebox:%s: %.20q: panic: %v", name, value, p)
					}
				}()
				_, _ = trySynth(t, with(jwt, name, value))
			}()
		}
	}
}

// TestFunctionsAreChecked checks that executables which Lambda could not start are refused.
func TestFunctionsAreChecked(t *testing.T) {
	text := t.TempDir()
	must(t, os.WriteFile(filepath.Join(text, "bootstrap"), []byte("#!/bin/sh\n"), 0o700))
	arm, x86 := standIn(t, elf.EM_AARCH64), standIn(t, elf.EM_X86_64)
	locked := t.TempDir()
	executable, err := os.ReadFile(filepath.Join(arm, "bootstrap"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(locked, "bootstrap"), executable, 0o600))
	for _, code := range []string{"claim-code", "dedupe-code"} {
		for _, tc := range []struct{ architecture, folder, says string }{
			{"arm64", text + "/none", "there is no function at " + text + "/none/bootstrap; build it with `make zip`, or set oncebox:" + code},
			{"x86_64", text + "/none", "`make zip ARCH=amd64`"},
			{"arm64", text, "bootstrap is not a Linux executable; build it with `make zip`"},
			{"arm64", x86, "bootstrap is not built for arm64; build it with `make zip`, or choose the other architecture"},
			{"x86_64", arm, "bootstrap is not built for x86_64; build it with `make zip ARCH=amd64`"},
			{"arm64", locked, "bootstrap is not executable"},
		} {
			says(t, refused(t, values("architecture", tc.architecture, code, tc.folder)), tc.says)
		}
	}
}

// TestPropsAreRefused checks what context values cannot say, and that an error names props.
func TestPropsAreRefused(t *testing.T) {
	type (
		claims  = func(awscdk.Stack, *infra.ClaimAPIProps)
		records = func(awscdk.Stack, *infra.RecordDedupeProps)
	)
	stream := func(stack awscdk.Stack, hours int) awskinesis.Stream {
		return awskinesis.NewStream(stack, jsii.String("Orders"), &awskinesis.StreamProps{RetentionPeriod: awscdk.Duration_Hours(jsii.Number(hours))})
	}
	for says, change := range map[string]any{
		"Auth is missing; choose AuthIAM, AuthJWT, or AuthOpen for an API": claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Auth = infra.Auth{} }),
		"AuthJWT needs an audience without empty names": claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) {
			p.Auth = infra.AuthJWT("https://issuer.example", "")
		}),
		"ClaimantFrom=jwt:sub needs AuthJWT: AuthIAM verifies no token": claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.ClaimantFrom = "jwt:sub" }),
		"RateLimit is -1 and BurstLimit is 1000":                        claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.RateLimit = -1 }),
		"CampaignCache ":                                                claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.CampaignCache = new(-time.Second) }),
		"MemoryMiB is 127; choose 128 to 10240":                         claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Function.MemoryMiB = 127 }),
		"MemoryMiB is 10241":                                            records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Function.MemoryMiB = 10241 }),
		"Timeout is 30s; choose whole seconds from 1s to 29s":           claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Function.Timeout = 30 * time.Second }),
		"Timeout is 15m1s; choose whole seconds from 1s to 15m":         records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Function.Timeout = 901 * time.Second }),
		"Timeout is 1.5s":                                               records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Function.Timeout = 1500 * time.Millisecond }),
		"none/bootstrap; build it with `make zip`, or set Code":         records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Function.Code = "none" }),
		`LogRetention is "A_WHILE"`:                                     claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Function.LogRetention = "A_WHILE" }),
		"WarmReadUnits is 0 and WarmWriteUnits is 4000":                 records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Table.WarmWriteUnits = 4000 }),
		"IDPath is missing":                                             records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Rules.IDPath = "" }),
		"Parallelization=2 needs NoAggregation":                         records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Mapping.Parallelization = 2 }),
		"SourceRetention is 1d, but Source keeps its records for 2d": records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
			p.Source, p.SourceRetention = stream(stack, 48), 24*time.Hour
		}),
		"Horizon is 14d, shorter than SourceRetention, which is 60d": records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
			p.Source = stream(stack, 1440)
		}),
		"DedupeTable is the table of BankTable": claims(func(stack awscdk.Stack, p *infra.ClaimAPIProps) {
			p.BankTable = madeTable(t, stack)
			p.DedupeTable = p.BankTable
		}),
		"claim API Claims: DedupeTable is the table of BankTable": claims(func(stack awscdk.Stack, p *infra.ClaimAPIProps) {
			p.BankTable = awsdynamodb.TableV2_FromTableName(stack, jsii.String("Bank"), jsii.String("theirs"))
			p.DedupeTable = awsdynamodb.TableV2_FromTableArn(stack, jsii.String("Dedupe"),
				jsii.String("arn:aws:dynamodb:eu-west-1:123456789012:table/theirs"))
		}),
		"record dedup Records: NotifyQueue is a FIFO queue": records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
			p.NotifyQueue = awssqs.NewQueue(stack, jsii.String("Queue"), &awssqs.QueueProps{Fifo: jsii.Bool(true)})
		}),
		"Source and Destination are the same stream": records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
			p.Source = stream(stack, 24)
			p.Destination = p.Source
		}),
		"EncryptionKey of a table needs a stack with a region": records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
			p.Table.EncryptionKey = awskms.NewKey(stack, jsii.String("Key"), nil)
		}),
	} {
		t.Run(says, func(t *testing.T) {
			app := newApp(t, nil)
			stack := awscdk.NewStack(app, jsii.String("theirs"), nil)
			var err error
			switch change := change.(type) {
			case claims:
				p := infra.ClaimAPIProps{Auth: infra.AuthIAM(), Function: functionProps(t)}
				change(stack, &p)
				_, err = infra.NewClaimAPI(stack, "Claims", p)
			case records:
				p := infra.RecordDedupeProps{Rules: infra.RecordRules{IDPath: "id"}, Function: functionProps(t)}
				change(stack, &p)
				_, err = infra.NewRecordDedupe(stack, "Records", p)
			}
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "oncebox:") {
				t.Errorf("got %v", err)
			}
			for _, child := range *stack.Node().Children() {
				if slices.Contains([]string{"Claims", "Records"}, *child.Node().Id()) {
					t.Errorf("%s was made all the same", *child.Node().Id())
				}
			}
		})
	}
}

func madeTable(t *testing.T, stack awscdk.Stack) awsdynamodb.ITableV2 {
	t.Helper()
	table, err := infra.NewTable(stack, "Table", infra.TableProps{})
	must(t, err)
	return table
}

func TestNewTableRefuses(t *testing.T) {
	stack := awscdk.NewStack(newApp(t, nil), jsii.String("stack"), nil)
	_, err := infra.NewTable(stack, "Table", infra.TableProps{WarmReadUnits: 1})
	if err == nil || !strings.Contains(err.Error(), "table Table: WarmReadUnits is 1") {
		t.Errorf("got %v", err)
	}
}

// TestSecondConsumerIsRefused checks two constructs with the same entries of the same stream: each would take the
// records of the other for its own retries.
func TestSecondConsumerIsRefused(t *testing.T) {
	const refusal = "theirs/First reads the same Source with the same DedupeTable and Scope, so both would deliver every record"
	type props = infra.RecordDedupeProps
	sources := map[string]func(awscdk.Stack) props{
		"made by the first": func(awscdk.Stack) props { return props{} },
		"made before": func(stack awscdk.Stack) props {
			return props{Source: awskinesis.NewStream(stack, jsii.String("Orders"), nil), DedupeTable: madeTable(t, stack)}
		},
		"imported": func(stack awscdk.Stack) props {
			return props{
				Source:      awskinesis.Stream_FromStreamArn(stack, jsii.String("Theirs"), jsii.String(theirStream)),
				DedupeTable: awsdynamodb.TableV2_FromTableName(stack, jsii.String("Table"), jsii.String("theirs")),
			}
		},
	}
	for name, tc := range map[string]struct {
		second  func(first *infra.RecordDedupe, p *props)
		refused bool
	}{
		"of the same":                        {func(*infra.RecordDedupe, *props) {}, true},
		"with another scope":                 {func(_ *infra.RecordDedupe, p *props) { p.Rules.Scope = "audit" }, false},
		"with another table":                 {func(_ *infra.RecordDedupe, p *props) { p.DedupeTable = nil }, false},
		"of another stream":                  {func(first *infra.RecordDedupe, p *props) { p.Source, p.Destination = first.Destination, nil }, false},
		"with the scope that is the default": {func(first *infra.RecordDedupe, p *props) { p.Rules.Scope = *first.Source.StreamName() }, true},
	} {
		for where, source := range sources {
			stack := awscdk.NewStack(newApp(t, nil), jsii.String("theirs"), nil)
			p := source(stack)
			p.Rules.IDPath, p.Function, p.SourceRetention = "id", functionProps(t), 24*time.Hour
			first, err := infra.NewRecordDedupe(stack, "First", p)
			must(t, err)
			p.Source, p.DedupeTable = first.Source, first.DedupeTable
			tc.second(first, &p)
			_, err = infra.NewRecordDedupe(stack, "Second", p)
			if tc.refused != (err != nil && strings.Contains(err.Error(), refusal)) || !tc.refused && err != nil {
				t.Errorf("%s, %s: got %v", name, where, err)
			}
		}
	}
}
