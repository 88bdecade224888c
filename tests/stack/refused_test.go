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

// TestContextIsRefused: what is wrong, where, and what to do.
func TestContextIsRefused(t *testing.T) {
	for _, tc := range []struct {
		values map[string]any
		says   []string
	}{
		// Values that are none.
		{values("no-such", "1"), []string{"oncebox:no-such is ", "known here", "oncebox:id-path, "}},
		{values("endpoint-url", "localhost:8000"), []string{`the EndpointURL is "localhost:8000"`}},
		{values("auth", "jwt", "jwt-issuer", "https://login.example", "jwt-audience", "web", "claimant-from", "body"),
			[]string{"a ClaimantFrom of body with AuthJWT"}},
		{values("jwt-audience", "web"), []string{"oncebox:jwt-audience is set, and oncebox:auth is iam"}},
		{values("auth", "open", "jwt-issuer", "https://login.example"), []string{"oncebox:jwt-issuer is set, and oncebox:auth is open"}},
		{values("id-path", "${Token[x.1]}"), []string{"oncebox:id-path holds ${Token["}},
		{values("dead-letter-bucket", "a..b"), []string{"oncebox:dead-letter-bucket is not the name of a bucket"}},
		{values("volatile", strings.Repeat("a_member_of_some_length,", 200)+"b"), []string{"variables have", "Lambda takes 4096"}},
		{values("campaign-cache", "6s"), []string{"ONCEBOX_CAMPAIGN_CACHE is longer than 5s"}},
		{values("source-stream-arn", theirStream, "source-retention", "24h", "destination-stream-arn", "arn:aws:kinesis:us-west-2:123456789012:stream/others"),
			[]string{"the Destination is in another account or region"}},
		{values("key-arn", theirKey, "destination-stream-arn", "arn:aws:kinesis:eu-west-1:999999999999:stream/others"),
			[]string{"the Destination is in another account or region"}},
		{values("key-arn", theirKey, "source-stream-arn", "arn:aws:kinesis:us-west-2:123456789012:stream/theirs", "source-retention", "24h"),
			[]string{"the Source is in us-west-2 and the stack in eu-west-1"}},
		{values("ID-PATH", "id"), []string{"oncebox:ID-PATH is ", "known here"}},
		{values("jobs", "claim"), []string{"oncebox:jobs has an unknown job", "claims, records"}},
		{values("architecture", "amd64"), []string{"oncebox:architecture is none of its values", "arm64, x86_64"}},
		{values("auth", "none"), []string{"oncebox:auth is none of its values", "iam, jwt, open"}},
		{values("disposable", "yes"), []string{"oncebox:disposable is neither on nor off"}},
		{values("natural", "no"), []string{"oncebox:natural is neither on nor off"}},
		{values("synthetic", "no"), []string{"oncebox:synthetic is neither on nor off"}},
		{values("aggregation", "no"), []string{"oncebox:aggregation is neither on nor off"}},
		{values("batch-size", "many"), []string{"oncebox:batch-size is not such a number"}},
		{values("window", "2 days"), []string{"oncebox:window is not a duration", "90s or 48h"}},
		{map[string]any{"scope": map[string]any{"a": "b"}}, []string{"oncebox:scope is neither a text, a number"}},
		{map[string]any{"volatile": []any{"a", []any{map[string]any{}}}}, []string{"oncebox:volatile is neither a text, a number"}},

		// Nothing is taken for "not set" but an empty value.
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

		// Names of what exists. The CDK panics over most of these.
		{values("stack", "my stack"), []string{"oncebox:stack"}},
		{values("stack", "1st"), []string{"oncebox:stack"}},
		{values("stack", strings.Repeat("x", 129)), []string{"oncebox:stack"}},
		{values("bank-table", "a/b"), []string{"ONCEBOX_BANK_TABLE is not a table name"}},
		{values("bank-table", strings.Repeat("x", 256)), []string{"ONCEBOX_BANK_TABLE is not a table name"}},
		{values("jobs", "claims", "dedupe-table", "x"), []string{"ONCEBOX_DEDUPE_TABLE is not a table name"}},
		{values("jobs", "records", "dedupe-table", "a b"), []string{"ONCEBOX_DEDUPE_TABLE is not a table name"}},
		{values("bank-table", "same", "dedupe-table", "same"), []string{"ONCEBOX_DEDUPE_TABLE is the table of ONCEBOX_BANK_TABLE"}},
		{values("key-arn", "alias/theirs"), []string{"oncebox:key-arn is not an ARN of kms"}},
		{values("key-arn", "arn:aws:kms:eu-west-1:123456789012:theirs"), []string{"oncebox:key-arn", ":key/"}},
		{values("key-arn", "arn:aws:kms:eu-west-1:123456789012:alias/theirs"), []string{"oncebox:key-arn", ":key/"}},
		{values("key-arn", "arn:aws:kms:::key/theirs"), []string{"oncebox:key-arn", ":key/"}},
		{values("alarm-topic-arn", theirQueue), []string{"oncebox:alarm-topic-arn is not an ARN of sns"}},
		{values("alarm-topic-arn", "arn::sns:eu-west-1:123456789012:theirs"), []string{"oncebox:alarm-topic-arn"}},
		{values("alarm-topic-arn", "arn:aws:sns:eu-west-1:123456789012:a b"), []string{"oncebox:alarm-topic-arn"}},
		{values("source-stream-arn", "theirs"), []string{"oncebox:source-stream-arn is not an ARN of kinesis"}},
		{values("source-stream-arn", "arn:aws:kinesis:eu-west-1:123456789012:theirs", "source-retention", "24h"), []string{"oncebox:source-stream-arn", ":stream/"}},
		{values("source-stream-arn", theirStream+"/consumer/fast:1", "source-retention", "24h"), []string{"oncebox:source-stream-arn", ":stream/"}},
		{values("source-stream-arn", "arn:aws:kinesis:eu-west-1:123456789012:stream/", "source-retention", "24h"), []string{"oncebox:source-stream-arn"}},
		{values("destination-stream-arn", "arn::kinesis:eu-west-1:123456789012:stream/theirs"), []string{"oncebox:destination-stream-arn"}},
		{values("destination-stream-arn", "arn:aws:kinesis:eu-west-1:123456789012:theirs"), []string{"oncebox:destination-stream-arn", ":stream/"}},
		{values("notify-queue-arn", "https://sqs.eu-west-1.amazonaws.com/123456789012/theirs"), []string{"oncebox:notify-queue-arn is not an ARN of sqs"}},
		{values("notify-queue-arn", "arn::sqs:eu-west-1:123456789012:theirs"), []string{"oncebox:notify-queue-arn"}},
		{values("notify-queue-arn", theirQueue+".fifo"), []string{"the NotifyQueue", "FIFO"}},
		{values("dead-letter-bucket", "Their_Bucket"), []string{"oncebox:dead-letter-bucket is not the name of a bucket", "3 to 63"}},

		// Limits of AWS's.
		{values("log-retention-days", "2"), []string{"oncebox:log-retention-days", "1 3 5 7 14 30"}},
		{values("warm-read-units", "12000"), []string{"the WarmReadUnits are 12000 and the WarmWriteUnits 0"}},
		{values("warm-read-units", "11999", "warm-write-units", "4000"), []string{"want at least 12000 and 4000"}},
		{values("warm-read-units", "12000", "warm-write-units", "-1"), []string{"oncebox:warm-write-units is not such a number", "from 0"}},
		{values("batch-size", "10001"), []string{"the BatchSize is 10001, want 1 to 10000"}},
		{values("batch-window", "301s"), []string{"the BatchWindow is 5m1s, want whole seconds up to 5m0s"}},
		{values("batch-window", "1500ms"), []string{"the BatchWindow is 1.5s"}},
		{values("parallelization", "11", "aggregation", "off"), []string{"the Parallelization is 11, want 1 to 10"}},
		{values("retries", "-2"), []string{"oncebox:retries is not such a number", "from -1"}},
		{values("retries", "10001"), []string{"the Retries are 10001, want -1 to 10000"}},
		{values("record-age", "59s"), []string{"the RecordAge is 59s, want whole seconds from 1m0s to 168h0m0s"}},
		{values("record-age", "61500ms"), []string{"the RecordAge is 1m1.5s"}},
		{values("record-age", "169h", "source-retention", "200h"), []string{"the RecordAge is 169h0m0s"}},
		{values("source-retention", "23h"), []string{"the SourceRetention is 23h0m0s, want whole hours from 24h0m0s to 8760h0m0s"}},
		{values("source-retention", "8761h", "horizon", "9000h"), []string{"the SourceRetention is 8761h0m0s"}},
		{values("source-retention", "24h30m"), []string{"the SourceRetention is 24h30m0s"}},

		// Combinations that break a guarantee.
		{values("parallelization", "2"), []string{"a Parallelization of 2 needs NoAggregation", "KPL aggregates"}},
		{values("parallelization", "2", "aggregation", "off", "checkpoint", "on"), []string{"oncebox:checkpoint is on, and oncebox:parallelization is more than 1", "allowed: off"}},
		{values("horizon", "167h"), []string{"a Horizon of 167h0m0s is shorter than the source's retention 168h0m0s", "delivered twice"}},
		{values("source-retention", "360h"), []string{"a Horizon of 336h0m0s is shorter than the source's retention 360h0m0s"}},
		{values("record-age", "168h"), []string{"a RecordAge of 168h0m0s is not shorter than the source's retention 168h0m0s", "Kinesis would delete"}},
		{values("record-age", "24h", "source-retention", "24h"), []string{"a RecordAge of 24h0m0s is not shorter"}},
		{values("source-stream-arn", theirStream), []string{"the SourceRetention is missing", "does not tell"}},
		{values("source-stream-arn", theirStream, "source-retention", "24h", "destination-stream-arn", theirStream), []string{"the Source is the Destination", "for ever"}},
		{values("auth", "jwt", "jwt-issuer", "https://issuer.example"), []string{"the AuthJWT has no audience", "every token of the issuer"}},
		{values("auth", "jwt", "jwt-issuer", "https://issuer.example", "jwt-audience", "web,"), []string{"audience"}},
		{values("auth", "jwt", "jwt-audience", "web"), []string{`the issuer of AuthJWT is "", want an https URL`}},
		{values("auth", "jwt", "jwt-issuer", "http://issuer.example", "jwt-audience", "web"), []string{`the issuer of AuthJWT is "http://issuer.example"`}},
		{values("auth", "jwt", "jwt-issuer", "https:", "jwt-audience", "web"), []string{`the issuer of AuthJWT is "https:"`}},
		{values("claimant-from", "jwt:sub"), []string{"a ClaimantFrom of jwt:sub needs AuthJWT, not AuthIAM"}},
		{values("auth", "open", "claimant-from", "jwt:sub"), []string{"a ClaimantFrom of jwt:sub needs AuthJWT, not AuthOpen"}},
		{values("auth", "open", "claimant-from", "iam"), []string{"a ClaimantFrom of iam needs AuthIAM, not AuthOpen"}},
		{with(jwt, "claimant-from", "iam"), []string{"a ClaimantFrom of iam needs AuthIAM, not AuthJWT"}},

		// What the functions would refuse.
		{values("claimant-from", "header"), []string{"ONCEBOX_CLAIMANT_FROM is none of its forms", "jwt:CLAIM"}},
		{values("campaign-cache", "-1s"), []string{"oncebox:campaign-cache is not a duration of at least 0s"}},
		{values("log-level", "loud"), []string{"claim API Claims: settings: ONCEBOX_LOG_LEVEL", "record dedup Records: settings: ONCEBOX_LOG_LEVEL"}},
		{values("id-path", ""), []string{"ONCEBOX_ID_PATH is missing"}},
		{values("id-path", "a..b"), []string{"ONCEBOX_ID_PATH has an empty part"}},
		{values("fingerprint-path", "id"), []string{"ONCEBOX_FINGERPRINT_PATH"}},
		{values("volatile", "a,,b"), []string{"ONCEBOX_VOLATILE"}},
		{values("contexts-path", "a.0"), []string{"ONCEBOX_CONTEXTS_PATH"}},
		{values("ids", "derived"), []string{"ONCEBOX_IDS has a policy that comes later"}},
		{values("scope", "Orders"), []string{"ONCEBOX_SCOPE is not a scope", "1 to 63"}},
		{values("scope", strings.Repeat("a", 64)), []string{"ONCEBOX_SCOPE is not a scope"}},
		{values("window", "999ms"), []string{"oncebox:window is not a duration of at least 1s"}},
		{values("window", "876001h"), []string{"ONCEBOX_WINDOW is longer than 876000h0m0s"}},
		{values("horizon", "876001h"), []string{"ONCEBOX_HORIZON is longer than 876000h0m0s"}},
		{values("source-retention", "24h", "horizon", "23h"), []string{"ONCEBOX_HORIZON is not a duration of at least 24h0m0s"}},
		{values("concurrency", "1001"), []string{"ONCEBOX_CONCURRENCY is not such a number", "1 to 1000"}},

		// Several at once.
		{
			values("auth", "jwt", "jwt-issuer", "http://x", "parallelization", "3", "scope", "A", "horizon", "100h", "record-age", "200h", "retries", "10001"),
			[]string{
				"the issuer of AuthJWT", "no audience", "a Parallelization of 3", "ONCEBOX_SCOPE", "a Horizon of 100h0m0s",
				"the RecordAge is 200h0m0s", "the Retries are 10001",
			},
		},
		{
			values("jobs", "claim", "no-such", "1", "architecture", "arm", "natural", "no", "key-arn", "x", "dead-letter-bucket", "A", "warm-read-units", "1"),
			[]string{"oncebox:jobs", "oncebox:no-such", "oncebox:architecture", "oncebox:natural", "oncebox:key-arn", "oncebox:dead-letter-bucket", "the WarmReadUnits are 1"},
		},
	} {
		t.Run(fmt.Sprint(tc.values), func(t *testing.T) {
			defer noPanic(t)
			message := refused(t, tc.values)
			for _, part := range tc.says {
				if !strings.Contains(message, part) {
					t.Errorf("it says\n%s\nand not %q", message, part)
				}
			}
		})
	}
}

// noPanic makes a panic of jsii's a failure of the test: users get errors.
func noPanic(t *testing.T) {
	t.Helper()
	if p := recover(); p != nil {
		t.Errorf("panic: %v", p)
	}
}

// TestHostileContextValues: whatever a value is, there is a template or an error, and
// no panic of jsii's.
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

// TestFunctionsAreChecked: an executable that Lambda could not start.
func TestFunctionsAreChecked(t *testing.T) {
	text := t.TempDir()
	must(t, os.WriteFile(filepath.Join(text, "bootstrap"), []byte("#!/bin/sh\n"), 0o700))
	arm, x86 := standIn(t, elf.EM_AARCH64), standIn(t, elf.EM_X86_64)
	locked := t.TempDir()
	executable, err := os.ReadFile(filepath.Join(arm, "bootstrap"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(locked, "bootstrap"), executable, 0o600))
	for _, code := range []string{"claim-code", "dedupe-code"} {
		for _, tc := range []struct {
			architecture, folder string
			says                 []string
		}{
			{"arm64", filepath.Join(text, "none"), []string{"there is no function at " + text + "/none/bootstrap", "`make zip`", "set Code"}},
			{"x86_64", filepath.Join(text, "none"), []string{"`make zip ARCH=amd64`"}},
			{"arm64", text, []string{"bootstrap is not a Linux executable"}},
			{"arm64", x86, []string{"bootstrap is not built for arm64", "`make zip`", "the other architecture"}},
			{"x86_64", arm, []string{"bootstrap is not built for x86_64", "`make zip ARCH=amd64`"}},
			{"arm64", locked, []string{"bootstrap may not be executed"}},
		} {
			message := refused(t, values("architecture", tc.architecture, code, tc.folder))
			for _, part := range tc.says {
				if !strings.Contains(message, part) {
					t.Errorf("%s: it says\n%s\nand not %q", code, message, part)
				}
			}
		}
	}
}

// TestPropsAreRefused: what context values cannot say.
func TestPropsAreRefused(t *testing.T) {
	function := infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
	claims := func(change func(awscdk.Stack, *infra.ClaimAPIProps)) func(awscdk.Stack) error {
		return func(stack awscdk.Stack) error {
			p := infra.ClaimAPIProps{Auth: infra.AuthIAM(), Function: function}
			change(stack, &p)
			_, err := infra.NewClaimAPI(stack, "Claims", p)
			return err
		}
	}
	records := func(change func(awscdk.Stack, *infra.RecordDedupeProps)) func(awscdk.Stack) error {
		return func(stack awscdk.Stack) error {
			p := infra.RecordDedupeProps{Rules: infra.RecordRules{IDPath: "id"}, Function: function}
			change(stack, &p)
			_, err := infra.NewRecordDedupe(stack, "Records", p)
			return err
		}
	}
	for name, tc := range map[string]struct {
		make func(awscdk.Stack) error
		says []string
	}{
		"no auth": {
			claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Auth = infra.Auth{} }),
			[]string{"claim API Claims: ", "the Auth is missing", "AuthIAM, AuthJWT or", "AuthOpen"},
		},
		"an empty audience": {
			claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Auth = infra.AuthJWT("https://issuer.example", "") }),
			[]string{"audience"},
		},
		"negative rates": {
			claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.RateLimit = -1 }),
			[]string{"the RateLimit is -1 and the BurstLimit 1000, want positive numbers"},
		},
		"a negative cache": {
			claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.CampaignCache = new(-time.Second) }),
			[]string{"ONCEBOX_CAMPAIGN_CACHE"},
		},
		"too little memory": {
			claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Function.MemoryMiB = 127 }),
			[]string{"the MemoryMiB are 127, want 128 to 10240"},
		},
		"too much memory": {
			records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Function.MemoryMiB = 10241 }),
			[]string{"the MemoryMiB are 10241"},
		},
		"longer than the API waits": {
			claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Function.Timeout = 30 * time.Second }),
			[]string{"the Timeout is 30s, want whole seconds from 1s to 29s"},
		},
		"longer than Lambda waits": {
			records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Function.Timeout = 901 * time.Second }),
			[]string{"the Timeout is 15m1s, want whole seconds from 1s to 15m0s"},
		},
		"a part of a second": {
			records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Function.Timeout = 1500 * time.Millisecond }),
			[]string{"the Timeout is 1.5s"},
		},
		"cold warm tables": {
			records(func(_ awscdk.Stack, p *infra.RecordDedupeProps) { p.Table.WarmWriteUnits = 4000 }),
			[]string{"the WarmReadUnits are 0 and the WarmWriteUnits 4000"},
		},
		"a source that keeps records for another time": {
			records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
				p.Source = awskinesis.NewStream(stack, jsii.String("Orders"), &awskinesis.StreamProps{
					RetentionPeriod: awscdk.Duration_Hours(jsii.Number(48)),
				})
				p.SourceRetention = 24 * time.Hour
			}),
			[]string{"the SourceRetention is 24h0m0s, and the Source keeps its records for 48h0m0s"},
		},
		"a source that keeps records for longer than the horizon": {
			records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
				p.Source = awskinesis.NewStream(stack, jsii.String("Orders"), &awskinesis.StreamProps{
					RetentionPeriod: awscdk.Duration_Hours(jsii.Number(1440)),
				})
			}),
			[]string{"a Horizon of 336h0m0s is shorter than the source's retention 1440h0m0s"},
		},
		"log retention": {
			claims(func(_ awscdk.Stack, p *infra.ClaimAPIProps) { p.Function.LogRetention = "A_WHILE" }),
			[]string{`the LogRetention is "A_WHILE"`},
		},
		"one table for both": {
			claims(func(stack awscdk.Stack, p *infra.ClaimAPIProps) {
				p.BankTable = madeTable(t, stack)
				p.DedupeTable = p.BankTable
			}),
			[]string{"ONCEBOX_DEDUPE_TABLE is the table of ONCEBOX_BANK_TABLE"},
		},
		"one table under two names": {
			claims(func(stack awscdk.Stack, p *infra.ClaimAPIProps) {
				p.BankTable = awsdynamodb.TableV2_FromTableName(stack, jsii.String("Bank"), jsii.String("theirs"))
				p.DedupeTable = awsdynamodb.TableV2_FromTableArn(stack, jsii.String("Dedupe"),
					jsii.String("arn:aws:dynamodb:eu-west-1:123456789012:table/theirs"))
			}),
			[]string{"ONCEBOX_DEDUPE_TABLE is the table of ONCEBOX_BANK_TABLE"},
		},
		"a FIFO queue": {
			records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
				p.NotifyQueue = awssqs.NewQueue(stack, jsii.String("Queue"), &awssqs.QueueProps{Fifo: jsii.Bool(true)})
			}),
			[]string{"the NotifyQueue", "FIFO"},
		},
		"one stream for both": {
			records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
				p.Source = awskinesis.NewStream(stack, jsii.String("Stream"), nil)
				p.SourceRetention, p.Destination = 24*time.Hour, p.Source
			}),
			[]string{"the Source is the Destination"},
		},
		"a key in a stack without a region": {
			records(func(stack awscdk.Stack, p *infra.RecordDedupeProps) {
				p.Table.EncryptionKey = awskms.NewKey(stack, jsii.String("Key"), nil)
			}),
			[]string{"EncryptionKey", "region"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer noPanic(t)
			app := newApp(t, nil)
			stack := awscdk.NewStack(app, jsii.String("theirs"), nil)
			err := tc.make(stack)
			if err == nil {
				app.Synth(nil) // which may panic
				t.Fatal("it is not refused")
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("it says\n%v\nand not %q", err, part)
				}
			}
			for _, child := range *stack.Node().Children() {
				if slices.Contains([]string{"Claims", "Records"}, *child.Node().Id()) {
					t.Errorf("%s was made all the same", *child.Node().Id())
				}
			}
		})
	}
}

// TestSecondConsumerIsRefused: two constructs over the same entries of the same
// stream would take each other's records for their own retries.
func TestSecondConsumerIsRefused(t *testing.T) {
	function := infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
	const refusal = "theirs/First reads the same Source with the same DedupeTable and Scope, and both would deliver every record"
	for name, tc := range map[string]struct {
		second  func(first *infra.RecordDedupe, p *infra.RecordDedupeProps)
		refused bool
	}{
		"of the same": {func(*infra.RecordDedupe, *infra.RecordDedupeProps) {}, true},
		"with another scope": {func(_ *infra.RecordDedupe, p *infra.RecordDedupeProps) {
			p.Rules.Scope = "audit"
		}, false},
		"with another table": {func(_ *infra.RecordDedupe, p *infra.RecordDedupeProps) {
			p.DedupeTable = nil
		}, false},
		"of another stream": {func(first *infra.RecordDedupe, p *infra.RecordDedupeProps) {
			p.Source, p.Destination = first.Destination, nil
		}, false},
		"with the scope that is the default": {func(first *infra.RecordDedupe, p *infra.RecordDedupeProps) {
			p.Rules.Scope = *first.Source.StreamName()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for where, p := range map[string]func(awscdk.Stack) infra.RecordDedupeProps{
				"made by the first": func(awscdk.Stack) infra.RecordDedupeProps { return infra.RecordDedupeProps{} },
				"made before": func(stack awscdk.Stack) infra.RecordDedupeProps {
					return infra.RecordDedupeProps{
						Source:      awskinesis.NewStream(stack, jsii.String("Orders"), nil),
						DedupeTable: madeTable(t, stack),
					}
				},
				"imported": func(stack awscdk.Stack) infra.RecordDedupeProps {
					return infra.RecordDedupeProps{
						Source:      awskinesis.Stream_FromStreamArn(stack, jsii.String("Theirs"), jsii.String(theirStream)),
						DedupeTable: awsdynamodb.TableV2_FromTableName(stack, jsii.String("Table"), jsii.String("theirs")),
					}
				},
			} {
				stack := awscdk.NewStack(newApp(t, nil), jsii.String("theirs"), nil)
				p := p(stack)
				p.Rules.IDPath, p.Function, p.SourceRetention = "id", function, 24*time.Hour
				first, err := infra.NewRecordDedupe(stack, "First", p)
				must(t, err)
				p.Source, p.DedupeTable = first.Source, first.DedupeTable
				tc.second(first, &p)
				_, err = infra.NewRecordDedupe(stack, "Second", p)
				if tc.refused != (err != nil && strings.Contains(err.Error(), refusal)) || !tc.refused && err != nil {
					t.Errorf("%s: got %v", where, err)
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
	if _, err := infra.NewTable(stack, "Table", infra.TableProps{WarmReadUnits: 1}); err == nil || !strings.Contains(err.Error(), "table Table: the WarmReadUnits are 1") {
		t.Errorf("got %v", err)
	}
}
