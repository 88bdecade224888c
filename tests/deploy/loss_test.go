package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// backupAccount is the account of the vault and of the bucket.
const backupAccount = "210987654321"

// TestLosingAnAccount plays docs/operations.md, "Lose an account": a stack exports its tables to a bucket of another
// account, and is lost. Its tables are imported in the other account, where the claim function goes on. A claim that
// was made after the export is replayed from its reply. In the end each customer has the code of the first reply, and
// no code has two owners.
//
// The emulator has no AWS Backup, so the test leaves the backups out. Their restore gives the same tables.
func TestLosingAnAccount(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	claim := built(t, builder("claim", runtime.GOARCH))
	bucket := stackName("exports")
	app := synth(t, stackName("loss"), `
architecture: `+lambdaArchitectures[runtime.GOARCH]+`
disposable: on
claims:
  auth: iam
  sweep: off
  backup-vault: arn:aws:backup:us-east-1:`+backupAccount+`:backup-vault:oncebox
  backup-bucket: `+bucket+`
records: none
`, map[string]string{"claim": claim})
	app = app.alter(t, func(resources map[string]resource) { remove(t, resources, "AWS::Backup::BackupVault") })
	app.deploy(t)
	d := describe(t, app.stack)
	other := inAccount(t, backupAccount)

	if status := d.export(t); status != sfntypes.ExecutionStatusFailed {
		t.Errorf("an export to a bucket that does not exist has %s", status)
	}
	_, err := other.s3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	must(t, err)

	bank := itembank.NewOperator(dynamostore.New(d.dynamodb, d.outputs["BankTable"], d.outputs["DedupeTable"]))
	_, _, err = bank.CreateCampaign(t.Context(), "spring", itembank.Settings{})
	must(t, err)
	_, err = bank.Load(t.Context(), "spring", itembank.Items("SPRING-1", "SPRING-2", "SPRING-3"), nil)
	must(t, err)
	function, variables := d.claimFunction(t)
	before := start(t, claim, function, variables)
	ann := before.claims(t, "ann", 201)
	if status := d.export(t); status != sfntypes.ExecutionStatusSucceeded {
		t.Fatalf("the export has %s", status)
	}
	bob := before.claims(t, "bob", 201)
	app.destroy(t)

	variables = maps.Clone(variables)
	maps.Copy(variables, other.variables)
	variables["ONCEBOX_BANK_TABLE"] = other.importTable(t, bucket, "bank")
	variables["ONCEBOX_DEDUPE_TABLE"] = other.importTable(t, bucket, "dedupe")
	store := dynamostore.New(other.dynamodb, variables["ONCEBOX_BANK_TABLE"], variables["ONCEBOX_DEDUPE_TABLE"])
	bank = itembank.NewOperator(store, itembank.WithClock(hurried{}))
	must(t, bank.CloseRestored(t.Context(), "spring"))
	start(t, claim, function, variables).claims(t, "carl", 503)
	if err := bank.OpenCampaign(t.Context(), "spring"); !errors.Is(err, itembank.ErrRestored) {
		t.Errorf("a restored campaign is opened: %v", err)
	}
	repaired, err := bank.Repair(t.Context(), "spring", itembank.RepairOptions{})
	must(t, err)
	if len(repaired.Inconsistencies) != 0 {
		t.Errorf("the export has %+v", repaired.Inconsistencies)
	}
	report, err := bank.Replay(t.Context(), "spring", func() iter.Seq2[itembank.ClaimLine, error] {
		return func(yield func(itembank.ClaimLine, error) bool) {
			yield(itembank.ClaimLine{Number: 1, Claim: bob}, nil)
		}
	})
	must(t, err)
	if report.Replayed != 1 {
		t.Errorf("the replay of bob's reply: %+v", report)
	}
	must(t, bank.CloseWithoutReplay(t.Context(), "spring"))
	must(t, bank.CloseUntilReconciled(t.Context(), "spring"))
	must(t, bank.OpenCampaign(t.Context(), "spring"))

	after := start(t, claim, function, variables)
	carl := after.claims(t, "carl", 201)
	for _, promised := range []itembank.Claim{ann, bob, carl} {
		if got := after.claims(t, promised.Claimant, 200); got.Items[0] != promised.Items[0] {
			t.Errorf("%s had %s, and gets %s", promised.Claimant, promised.Items[0], got.Items[0])
		}
	}
	items := slices.Concat(ann.Items, bob.Items, carl.Items)
	slices.Sort(items)
	if want := []string{"SPRING-1", "SPRING-2", "SPRING-3"}; !slices.Equal(items, want) {
		t.Errorf("the customers have %v", items)
	}
	after.claims(t, "dora", 409)
}

// hurried is a clock for commands that wait until functions have seen a change. No function runs meanwhile.
type hurried struct{}

func (hurried) Now() time.Time { return time.Now() }

func (hurried) Sleep(context.Context, time.Duration) error { return nil }

// remove deletes the resources of a type, and all that mention a deleted one.
func remove(t *testing.T, resources map[string]resource, kind string) {
	t.Helper()
	var deleted []string
	for id, r := range resources {
		if r.Type == kind {
			deleted = append(deleted, id)
		}
	}
	for i := 0; i < len(deleted); i++ { // it grows
		delete(resources, deleted[i])
		for id, r := range resources {
			text, err := json.Marshal(r)
			must(t, err)
			if !slices.Contains(deleted, id) && strings.Contains(string(text), `"`+deleted[i]+`"`) {
				deleted = append(deleted, id)
			}
		}
	}
}

// export runs the state machine of the exports to its end.
func (d *deployed) export(t *testing.T) sfntypes.ExecutionStatus {
	t.Helper()
	begun, err := d.states.StartExecution(t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: &d.resources["AWS::StepFunctions::StateMachine"][0],
		Name:            aws.String(stackName("export")), // the emulator makes none up
	})
	must(t, err)
	for {
		got, err := d.states.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: begun.ExecutionArn})
		must(t, err)
		if got.Status != sfntypes.ExecutionStatusRunning {
			return got.Status
		}
		time.Sleep(100 * time.Millisecond) // the emulator has no call that waits for the end
	}
}

// claimFunction returns the name of the claim function, and the variables that callers of its alias get.
func (d *deployed) claimFunction(t *testing.T) (name string, variables map[string]string) {
	t.Helper()
	for _, function := range d.resources["AWS::Lambda::Function"] {
		got, err := d.lambda.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{
			FunctionName: &function, Qualifier: aws.String("live"),
		})
		must(t, err)
		if got.Environment.Variables["ONCEBOX_CLAIMANT_FROM"] != "" {
			return function, got.Environment.Variables
		}
	}
	t.Fatal("there is no claim function")
	return "", nil
}

// claims sends the function a claim, and returns what it answers.
func (r running) claims(t *testing.T, claimant string, status int) (claim itembank.Claim) {
	t.Helper()
	event, err := os.ReadFile(root + "/events/claim/claim-body.json")
	must(t, err)
	reply := r.invoke(t, strings.ReplaceAll(string(event), "customer-1", claimant))
	var answer struct {
		StatusCode int
		Body       string
	}
	must(t, json.Unmarshal([]byte(reply), &answer))
	if answer.StatusCode != status {
		t.Errorf("%s gets %s, want status %d", claimant, reply, status)
	}
	var body struct{ Item string }
	must(t, json.Unmarshal([]byte(answer.Body), &body))
	return itembank.Claim{Campaign: "spring", Claimant: claimant, Items: []string{body.Item}, ClaimedAt: time.Now()}
}

// An accountClient makes requests in another account.
type accountClient struct {
	s3        *s3.Client
	dynamodb  *dynamodb.Client
	variables map[string]string // of a function of that account
}

func inAccount(t *testing.T, account string) accountClient {
	t.Helper()
	cfg := aws.Config{
		Region: region, BaseEndpoint: aws.String(testengine.CloudFormation(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	assumed, err := sts.NewFromConfig(cfg).AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: aws.String("arn:aws:iam::" + account + ":role/restore"), RoleSessionName: aws.String("restore"),
	})
	must(t, err)
	key := assumed.Credentials
	cfg.Credentials = credentials.NewStaticCredentialsProvider(*key.AccessKeyId, *key.SecretAccessKey, *key.SessionToken)
	return accountClient{
		s3:       s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true }),
		dynamodb: dynamodb.NewFromConfig(cfg),
		variables: map[string]string{
			"AWS_ACCESS_KEY_ID": *key.AccessKeyId, "AWS_SECRET_ACCESS_KEY": *key.SecretAccessKey,
			"AWS_SESSION_TOKEN": *key.SessionToken,
		},
	}
}

// importTable makes a table from the only export in the bucket, with the parameters in docs/operations.md.
func (a accountClient) importTable(t *testing.T, bucket, name string) (table string) {
	t.Helper()
	objects, err := a.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
	must(t, err)
	var data []string
	for _, o := range objects.Contents {
		if strings.Contains(*o.Key, "/"+name+"/AWSDynamoDB/") && path.Base(path.Dir(*o.Key)) == "data" {
			data = append(data, path.Dir(*o.Key)+"/")
		}
	}
	if len(data) != 1 {
		t.Fatalf("the exports of %s are in %v", name, data)
	}
	text, err := os.ReadFile(root + "/docs/operations.md")
	must(t, err)
	_, block, _ := strings.Cut(string(text), "\n```json "+name+".json\n")
	block, _, _ = strings.Cut(block, "```")
	var parameters dynamodbtypes.TableCreationParameters
	must(t, json.Unmarshal([]byte(block), &parameters))
	begun, err := a.dynamodb.ImportTable(t.Context(), &dynamodb.ImportTableInput{
		S3BucketSource: &dynamodbtypes.S3BucketSource{S3Bucket: &bucket, S3KeyPrefix: &data[0]},
		InputFormat:    dynamodbtypes.InputFormatDynamodbJson, InputCompressionType: dynamodbtypes.InputCompressionTypeGzip,
		TableCreationParameters: &parameters,
	})
	must(t, err)
	for {
		got, err := a.dynamodb.DescribeImport(t.Context(), &dynamodb.DescribeImportInput{
			ImportArn: begun.ImportTableDescription.ImportArn,
		})
		must(t, err)
		switch got.ImportTableDescription.ImportStatus {
		case dynamodbtypes.ImportStatusCompleted:
			return *parameters.TableName
		case dynamodbtypes.ImportStatusInProgress:
			time.Sleep(100 * time.Millisecond) // as above
		default:
			t.Fatalf("the import of %s failed: %s", name, aws.ToString(got.ImportTableDescription.FailureMessage))
		}
	}
}
