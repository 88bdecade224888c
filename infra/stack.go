package infra

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/address"
)

// defaultStack is the name of the stack if oncebox:stack is not set.
const defaultStack = "oncebox"

// NewStack makes the stack of infra/app. Context values, from cdk.json or `cdk deploy --context NAME=VALUE`, select
// its jobs and their settings. With both jobs, they share the dedupe table. The stack has no account and region of
// its own. It is deployed to the account and region of the caller, or of oncebox:key-arn.
//
// Its error lists all problems, by context value. It refuses unknown names with the prefix "oncebox:". It reads the
// values of a job that the stack does not have, but they have no effect.
func NewStack(app awscdk.App) (awscdk.Stack, error) {
	all, _ := app.Node().GetAllContext(nil).(map[string]any)
	return newContextStack(app, newContextReader(all), nil).fill()
}

// newContextStack makes an empty stack, and reads the settings of both jobs. A nil synthesizer means the default one.
func newContextStack(app awscdk.App, c contextReader, synthesizer awscdk.IStackSynthesizer) *contextStack {
	s := &contextStack{contextReader: c, keyARN: c.arn("key-arn", "kms")}
	s.stack = awscdk.NewStack(app, jsii.String(c.stackName()), &awscdk.StackProps{
		Description:        jsii.String("oncebox: exactly-once claims and records"),
		AnalyticsReporting: jsii.Bool(false), // otherwise a resource tells AWS which constructs are used
		Env:                placeOf(s.keyARN),
		Synthesizer:        synthesizer,
	})
	s.readShared()
	return s
}

// fill makes the jobs of the stack.
func (s *contextStack) fill() (awscdk.Stack, error) {
	withClaims, withRecords := s.jobs()
	claims, records := s.claimProps(), s.recordProps()
	err := errors.Join(s.err(), s.table.check(s.stack, contextNaming))
	if err != nil {
		return nil, err
	}
	dedupe := s.dedupeTable()
	claims.DedupeTable, records.DedupeTable = dedupe, dedupe
	if withClaims {
		err = errors.Join(err, s.addClaims(claims))
	}
	if withRecords {
		err = errors.Join(err, s.addRecords(records))
	}
	if err == nil && s.dashboard {
		_, err = NewDashboard(s.stack, "Dashboard", s.shown)
	}
	s.output("DedupeTable", "ONCEBOX_DEDUPE_TABLE of the command line", *dedupe.TableName())
	return s.stack, onceEach(err)
}

// onceEach removes problems that both jobs report twice.
func onceEach(err error) error {
	if err == nil {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// contextStack makes props from context values, and constructs from the names of existing resources.
type contextStack struct {
	contextReader
	stack    awscdk.Stack
	keyARN   string
	key      awskms.IKey // the key of all resources of the stack, made or existing; nil without a key
	former   []awskms.IKey
	table    TableProps
	function FunctionProps
	alarms   AlarmProps

	dashboard bool
	shown     DashboardProps // the contents of the dashboard
}

// placeOf returns the account and region of a key, where the stack must be: a TableV2 with a key needs to know its
// region. Without a key the stack may be anywhere.
func placeOf(keyARN string) *awscdk.Environment {
	parts := strings.Split(keyARN, ":")
	if keyARN == "" {
		return nil
	}
	return &awscdk.Environment{Region: &parts[3], Account: &parts[4]}
}

// readShared reads the settings of both jobs.
func (s *contextStack) readShared() {
	if s.keyARN != "" {
		s.key = awskms.Key_FromKeyArn(s.stack, jsii.String("Key"), &s.keyARN)
	}
	for i, arn := range s.formerKeys(s.keyARN) {
		s.former = append(s.former, awskms.Key_FromKeyArn(s.stack, jsii.String(fmt.Sprint("FormerKey", i+1)), &arn))
	}
	if arn := s.arn("alarm-topic-arn", "sns"); arn != "" {
		s.alarms.Topic = awssns.Topic_FromTopicArn(s.stack, jsii.String("AlarmTopic"), &arn)
	}
	s.alarms.RunbookURL = s.text("runbook-base-url")
	s.dashboard = s.onOff("dashboard", false)
	s.table = TableProps{
		EncryptionKey: s.key,
		WarmReadUnits: s.number("warm-read-units", 0), WarmWriteUnits: s.number("warm-write-units", 0),
		Disposable: s.onOff("disposable", false),
	}
	s.function = FunctionProps{
		X86:       s.oneOf("architecture", "arm64", "x86_64") == "x86_64",
		NoMetrics: !s.onOff("metrics", true), Canary: s.duration("canary", time.Minute),
		LogLevel: s.text("log-level"), SystemLogLevel: s.text("system-log-level"),
		LogRetention: s.logRetention(), EndpointURL: s.text("endpoint-url"),
		Subnets: s.subnets(), SecurityGroups: s.securityGroups(), Tracing: s.onOff("tracing", false),
		EnvironmentKey: s.keyFor("encrypt-environment"), LogKey: s.keyFor("encrypt-logs"),
	}
}

// keyFor returns the key for a resource that is encrypted with it only on request.
func (s *contextStack) keyFor(name string) awskms.IKey {
	if !s.onOff(name, false) {
		return nil
	}
	if s.keyARN == "" {
		s.refuse(name, "it needs oncebox:key-arn, the key to encrypt with")
	}
	return s.key
}

// reservedConcurrency returns the value, or nil if it is not set.
func (s *contextStack) reservedConcurrency(name string) *int {
	if s.text(name) == "" {
		return nil
	}
	return new(s.number(name, 1))
}

// domain returns nil if no value of a domain is set. The construct reports missing values.
func (s *contextStack) domain() *DomainProps {
	d := DomainProps{Name: s.text("domain-name")}
	if arn := s.arn("certificate-arn", "acm"); arn != "" {
		d.Certificate = awscertificatemanager.Certificate_FromCertificateArn(s.stack, jsii.String("Certificate"), &arn)
	}
	if d.Name == "" && d.Certificate == nil {
		return nil
	}
	return &d
}

func (s *contextStack) claimProps() ClaimAPIProps {
	p := ClaimAPIProps{
		Auth: s.auth(), ClaimantFrom: s.text("claimant-from"), ClaimantsConfirm: s.onOff("claimants-confirm", false),
		Challenge: s.challenge(), Domain: s.domain(),
		DisableExecuteAPIEndpoint: !s.onOff("execute-api-endpoint", true),
		Page:                      s.onOff("page", false), CORSOrigins: s.list("cors-origins"),
		BankTable: s.existingTable("BankTable", "bank-table"), Table: s.table, FormerKeys: s.former,
		RateLimit: s.number("rate-limit", 1), BurstLimit: s.number("burst-limit", 1),
		Function: s.function, Alarms: s.alarms, Disposable: s.table.Disposable,
		Sweep: SweepProps{
			Off: !s.onOff("sweep", true), Every: s.duration("sweep-every", time.Minute), Code: s.text("sweep-code"),
		},
		names: contextNaming.withFunction("claim"),
	}
	if s.text("nearly-empty") != "" { // 0 is a value, and not the default
		p.Sweep.NearlyEmpty = new(s.number("nearly-empty", 0))
	}
	p.Function.Code = s.text("claim-code")
	p.Function.ReservedConcurrency = s.reservedConcurrency("claim-reserved-concurrency")
	if s.text("campaign-cache") != "" { // 0 is a value, and not the default
		p.CampaignCache = new(s.duration("campaign-cache", 0))
	}
	return p
}

// challenge returns nil if no value of a challenge is set. The function reports missing values.
func (s *contextStack) challenge() *ChallengeProps {
	c := ChallengeProps{
		Provider: s.text("challenge"), SiteKey: s.text("challenge-site-key"), URL: s.text("challenge-url"),
		Secret: s.existingSecret("ChallengeSecret", "challenge-secret-arn"), Hosts: s.list("challenge-hosts"),
	}
	if c.Provider == "" && c.SiteKey == "" && c.URL == "" && c.Secret == nil && c.Hosts == nil {
		return nil
	}
	return &c
}

func (s *contextStack) auth() Auth {
	kind := s.oneOf("auth", "iam", "jwt", "link", "open")
	if s.text("link-keys") != "" && kind != "link" { // the value may be secret by mistake
		s.problems.add("oncebox:link-keys needs oncebox:auth=link, and oncebox:auth is %s", kind)
	}
	if kind == "jwt" {
		return AuthJWT(s.text("jwt-issuer"), s.list("jwt-audience")...).WithScopes(s.list("jwt-scopes")...)
	}
	for _, name := range []string{"jwt-issuer", "jwt-audience", "jwt-scopes"} {
		if s.text(name) != "" {
			s.refuse(name, "it needs oncebox:auth=jwt, and oncebox:auth is "+kind)
		}
	}
	switch kind {
	case "link":
		return AuthLink(s.linkKeys())
	case "open":
		return AuthOpen()
	}
	return AuthIAM()
}

// linkKeys returns the public keys of links: the text of a file, or the value itself.
func (s *contextStack) linkKeys() string {
	text := s.text("link-keys")
	path, isFile := strings.CutPrefix(text, "file:")
	if !isFile {
		return text
	}
	content, err := os.ReadFile(path)
	if err != nil {
		s.refuse("link-keys", "the file cannot be read; write file:PATH of a file that `oncebox links keygen` wrote, or the keys")
	}
	return string(content)
}

func (s *contextStack) recordProps() RecordDedupeProps {
	p := RecordDedupeProps{
		Rules: RecordRules{
			Format: s.text("format"), IDPath: s.text("id-path"), FingerprintPath: s.text("fingerprint-path"),
			Volatile: s.list("volatile"), ContextsPath: s.text("contexts-path"), IDs: s.text("ids"), Scope: s.text("scope"),
			Window: s.duration("window", time.Second), Horizon: s.duration("horizon", time.Second),
			PassNatural: !s.onOff("natural", true), PassSynthetic: !s.onOff("synthetic", true),
			NoAcks: !s.onOff("acks", true), PoisonLimit: s.text("poison-limit"),
			NoSourceAggregation: !s.onOff("source-aggregation", true),
			RawID:               s.text("raw-id"), SourceRecords: s.text("source-records"),
			Ledger: s.text("ledger"),
		},
		ExpectedRate:    s.number("expected-rate", 1),
		Source:          s.existingStream("SourceStream", "source-stream-arn"),
		SourceRetention: s.duration("source-retention", time.Second),
		Sink:            ToAddress(s.text("sink")),

		Table: s.table, DeadLetterBucket: s.existingBucket(), NotifyQueue: s.existingQueue("NotifyQueue", "notify-queue-arn"),
		EncryptionKey: s.key, FormerKeys: s.former,
		Mapping: MappingProps{
			BatchSize: s.number("batch-size", 1), BatchWindow: s.duration("batch-window", s.shortestBatchWindow()),
			Parallelization: s.number("parallelization", 1), RecordAge: s.duration("record-age", time.Second),
		},
		Function: s.function, Alarms: s.alarms, Disposable: s.table.Disposable,
		names: contextNaming.withFunction("dedupe"),
	}
	p.Function.Code, p.Function.MemoryMiB = s.text("dedupe-code"), s.number("dedupe-memory", 1)
	p.Function.ReservedConcurrency = s.reservedConcurrency("dedupe-reserved-concurrency")
	if s.text("retries") != "" { // 0 is a value, and not the default
		p.Mapping.Retries = new(s.number("retries", -1))
	}
	return p
}

// shortestBatchWindow refuses a 0 that the mapping would read as its default.
func (s *contextStack) shortestBatchWindow() time.Duration {
	if address.Scheme(s.text("ledger")) == logLedger {
		return time.Second
	}
	return 0
}

func (s *contextStack) dedupeTable() awsdynamodb.ITableV2 {
	if table := s.existingTable("DedupeTable", "dedupe-table"); table != nil {
		return table
	}
	return newDedupeTable(s.stack, "DedupeTable", s.table)
}

func (s *contextStack) existingTable(id, name string) awsdynamodb.ITableV2 {
	table := s.text(name)
	if table == "" {
		return nil
	}
	return awsdynamodb.TableV2_FromTableAttributes(s.stack, jsii.String(id), &awsdynamodb.TableAttributesV2{
		TableName: &table, EncryptionKey: s.key,
	})
}

func (s *contextStack) existingStream(id, name string) awskinesis.IStream {
	arn := s.arn(name, "kinesis")
	if arn == "" {
		return nil
	}
	return awskinesis.Stream_FromStreamAttributes(s.stack, jsii.String(id), &awskinesis.StreamAttributes{
		StreamArn: &arn, EncryptionKey: s.key,
	})
}

func (s *contextStack) existingBucket() awss3.IBucket {
	name := s.bucket("dead-letter-bucket")
	if name == "" {
		return nil
	}
	return awss3.Bucket_FromBucketAttributes(s.stack, jsii.String("DeadLetterBucket"), &awss3.BucketAttributes{
		BucketName: &name, EncryptionKey: s.key,
	})
}

func (s *contextStack) existingQueue(id, name string) awssqs.IQueue {
	arn := s.arn(name, "sqs")
	if arn == "" {
		return nil
	}
	attributes := &awssqs.QueueAttributes{QueueArn: &arn}
	if s.key != nil {
		attributes.KeyArn = s.key.KeyArn()
	}
	return awssqs.Queue_FromQueueAttributes(s.stack, jsii.String(id), attributes)
}

func (s *contextStack) existingSecret(id, name string) awssecretsmanager.ISecret {
	arn := s.arn(name, "secretsmanager")
	if arn == "" {
		return nil
	}
	return awssecretsmanager.Secret_FromSecretAttributes(s.stack, &id,
		&awssecretsmanager.SecretAttributes{SecretCompleteArn: &arn, EncryptionKey: s.key})
}

func (s *contextStack) subnets() (all []awsec2.ISubnet) {
	for _, id := range s.ids("subnet-ids", "subnet") {
		subnet := awsec2.Subnet_FromSubnetId(s.stack, &id, &id)
		awscdk.Annotations_Of(subnet).AcknowledgeWarning(jsii.String("@aws-cdk/aws-ec2:noSubnetRouteTableId"),
			jsii.String("nothing reads its route table"))
		all = append(all, subnet)
	}
	return all
}

func (s *contextStack) securityGroups() (all []awsec2.ISecurityGroup) {
	for _, id := range s.ids("security-group-ids", "sg") {
		all = append(all, awsec2.SecurityGroup_FromSecurityGroupId(s.stack, &id, &id, nil))
	}
	return all
}

func (s *contextStack) addClaims(p ClaimAPIProps) error {
	claims, err := NewClaimAPI(s.stack, "Claims", p)
	if err != nil {
		return err
	}
	s.shown.Claims = append(s.shown.Claims, claims)
	s.output("BankTable", "ONCEBOX_BANK_TABLE of the command line", *claims.BankTable.TableName())
	s.output("ApiUrl", "The claim API", claims.URL)
	if claims.Domain != nil {
		s.output("DomainTarget", "The name to which the DNS record of the API's domain points", *claims.Domain.RegionalDomainName())
	}
	return nil
}

func (s *contextStack) addRecords(p RecordDedupeProps) error {
	records, err := NewRecordDedupe(s.stack, "Records", p)
	if err != nil {
		return err
	}
	s.shown.Records = append(s.shown.Records, records)
	s.output("SourceStream", "The stream that the function reads", *records.Source.StreamName())
	if records.Destination != nil {
		s.output("DestinationStream", "The stream that gets every record once", *records.Destination.StreamName())
	}
	s.output("DeadLetterBucket", "Dead letters: records and batches that were not delivered",
		*records.DeadLetterBucket.BucketName())
	s.output("NotifyQueueUrl", "A message for each new dead letter of the function", *records.NotifyQueue.QueueUrl())
	return nil
}

func (s *contextStack) output(name, description, value string) {
	// The resource, imported or made, has the plain name as its id.
	output := awscdk.NewCfnOutput(s.stack, jsii.String(name+"Output"), &awscdk.CfnOutputProps{
		Description: &description, Value: &value,
	})
	output.OverrideLogicalId(&name)
}
