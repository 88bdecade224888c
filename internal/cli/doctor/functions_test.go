package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/internal/testkit/lambdatest"
)

const (
	stream   = "arn:aws:kinesis:us-east-1:123456789012:stream/clicks"
	prefix   = "arn:aws:lambda:us-east-1:123456789012:function:"
	notFound = "ResourceNotFoundException"
)

// serve serves functions with and without an alias. The name of one is a part of the name of another.
func serve(t *testing.T) aws.Config {
	t.Helper()
	claims, sweep := map[string]string{"ONCEBOX_CLAIMANT_FROM": "body"}, map[string]string{"ONCEBOX_BANK_TABLE": "bank"}
	endpoint := lambdatest.Serve(t, "shop", map[string]*lambdatest.Function{
		"shop":       {Env: claims},
		"shop-claim": {Env: claims, Latest: map[string]string{"ONCEBOX_BANK_TABLE": "half"}, Alias: "live"},
		"shop-sweep": {Env: sweep, Alias: "live", Canary: map[string]float64{"8": 0.1}},
		"records":    {Env: map[string]string{"ONCEBOX_SINK": "kinesis:out"}, Alias: "live", Stream: stream},
		"updating":   {Env: map[string]string{"ONCEBOX_SINK": "kinesis:out"}, Stream: stream, State: "Updating"},
		"disabled":   {Env: map[string]string{"ONCEBOX_SINK": "kinesis:out"}, Stream: stream, State: "Disabled"},
		"old":        {Env: map[string]string{"ONCEBOX_SINK": "kinesis:out"}, Stream: stream},
		"cdk":        {Env: map[string]string{}},
		"split": {
			Env:   map[string]string{"ONCEBOX_SINK": "kinesis:out", "ONCEBOX_ID_PATH": "id", "ONCEBOX_VOLATILE": "sent_at"},
			Alias: "live", Canary: map[string]float64{"8": 0.1},
			CanaryEnv: map[string]string{"ONCEBOX_SINK": "kinesis:new", "ONCEBOX_ID_PATH": "event.id", "ONCEBOX_FORMAT": "json"},
		},
	})
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}

// TestFunctionsOfAStack checks that a function of a stack is called by its alias, if it has one.
func TestFunctionsOfAStack(t *testing.T) {
	t.Parallel()
	cfg := serve(t)
	stack, err := doctor.InStack(t.Context(), cloudformation.NewFromConfig(cfg), "shop")
	if err != nil {
		t.Fatal(err)
	}
	names := stack.Functions
	slices.Sort(names)
	want := []string{
		prefix + "records:live", prefix + "shop-claim:live", prefix + "shop-sweep:live", prefix + "split:live", "cdk",
	}
	want = append(want, "disabled", "old", "shop", "updating")
	if !slices.Equal(names, want) {
		t.Errorf("want %q, got %q", want, names)
	}
	found, err := doctor.Find(t.Context(), lambda.NewFromConfig(cfg), names)
	if err != nil || len(found) != 8 {
		t.Errorf("want all but the one of the CDK, got %v, %v", found, err)
	}
}

// TestNamesOfFunctions checks that the named version is invoked, with its variables.
func TestNamesOfFunctions(t *testing.T) {
	t.Parallel()
	client := lambda.NewFromConfig(serve(t))
	live := doctor.Function{
		Kind: doctor.Claim, Name: "shop-claim", Alias: "live", Version: "7", Invoked: prefix + "shop-claim:live",
	}
	for name, want := range map[string]doctor.Function{
		"shop-claim:live": live, prefix + "shop-claim:live": live,
		"shop-claim":    {Kind: doctor.Sweep, Name: "shop-claim", Version: "$LATEST", Invoked: prefix + "shop-claim"},
		prefix + "shop": {Kind: doctor.Claim, Name: "shop", Version: "$LATEST", Invoked: prefix + "shop"},
	} {
		found, err := doctor.Find(t.Context(), client, []string{name})
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", name, found, err)
		}
		got := found[0]
		got.Env, got.Log = nil, ""
		if got.Kind != want.Kind || got.Name != want.Name || got.Alias != want.Alias || got.Version != want.Version ||
			got.Invoked != want.Invoked {
			t.Errorf("%s: want %+v, got %+v", name, want, got)
		}
	}
	for _, name := range []string{"none", "shop-claim:blue", prefix + "none:live"} {
		_, err := doctor.Find(t.Context(), client, []string{name})
		if err == nil || !strings.Contains(err.Error(), notFound) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAliasInTheReport checks that a canary is a warning, that one with another identity of records is a
// failure, and that the report names a function without an alias.
func TestAliasInTheReport(t *testing.T) {
	t.Parallel()
	client := lambda.NewFromConfig(serve(t))
	for name, want := range map[string]struct {
		status doctor.Status
		text   string
	}{
		"shop-claim:live": {doctor.OK, "live is version 7"},
		"shop-sweep:live": {doctor.Warning, "live is version 7, and also version 8 (10 % of the calls)"},
		"shop":            {doctor.Info, "none: doctor invokes version $LATEST"},
		"split:live":      {doctor.Failure, "with another ONCEBOX_ID_PATH, ONCEBOX_VOLATILE: a record that both get is delivered twice"},
	} {
		found, err := doctor.Find(t.Context(), client, []string{name})
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", name, found, err)
		}
		report := doctor.NewReport(nil)
		doctor.CheckAlias(found[0], report)
		if c := report.Checks[0]; c.Status != want.status || !strings.Contains(c.Detail, want.text) {
			t.Errorf("%s: got %+v", name, c)
		}
	}
}

// TestContradictionIsTold: settings with which every record would be a dead letter fail, as at the start of the
// function.
func TestContradictionIsTold(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"ONCEBOX_DEDUPE_TABLE": "dedupe", "ONCEBOX_FORMAT": "snowplow",
		"ONCEBOX_DEAD_LETTERS": "s3://bad",
	}
	for format, valid := range map[string]bool{"": true, "?format=raw": true, "?format=ndjson": false} {
		env["ONCEBOX_SINK"] = "s3://lake/enriched" + format
		report := doctor.NewReport(nil)
		ok := doctor.CheckSettings(doctor.Function{Kind: doctor.Dedupe, Name: "records", Env: env}, report)
		if ok != valid || !valid && !strings.Contains(report.Checks[0].Detail, "ONCEBOX_SINK has format=ndjson") {
			t.Errorf("object format %q: %+v", format, report.Checks)
		}
	}
}

// TestNeededFunctionIsTold: no setting shows which of the two dedupe functions is deployed, so the check names the one
// that can start.
func TestNeededFunctionIsTold(t *testing.T) {
	t.Parallel()
	for sink, told := range map[string]bool{"kinesis:unique": false, "firehose:unique": true} {
		report := doctor.NewReport(nil)
		ok := doctor.CheckSettings(doctor.Function{Kind: doctor.Dedupe, Name: "records", Env: map[string]string{
			"ONCEBOX_DEDUPE_TABLE": "dedupe", "ONCEBOX_ID_PATH": "id", "ONCEBOX_DEAD_LETTERS": "s3://bad", "ONCEBOX_SINK": sink,
		}}, report)
		if !ok || strings.Contains(report.Checks[0].Detail, "dist/dedupe-full") != told {
			t.Errorf("%s: %+v", sink, report.Checks)
		}
	}
}
