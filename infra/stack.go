package infra

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// unnamedStack is the name of a stack that is refused, and of the stack of a plain template.
const unnamedStack = "oncebox"

// NewStack makes the stack of infra/app from a settings file, which the context value oncebox:settings names
// (docs/configuration.md, "The settings file"). With both jobs, they share the dedupe table. The stack has no account
// and region of its own. It is deployed to the account and region of the caller, or of the key encryption-key. A tag and
// an output of the stack say which file it was made from.
//
// Its error lists all problems, by the path of the key in the file. It refuses unknown keys, and unknown context values
// with the prefix "oncebox:". What the constructs refuse, as limits and a missing auth, follows when the file itself has
// no problem.
func NewStack(app awscdk.App) (awscdk.Stack, error) {
	wrong := &problems{}
	context := readContext(app, wrong)
	file, err := context.settingsFile(wrong)
	if err != nil {
		return nil, errors.Join(wrong.err(), err)
	}
	s := newSettingsStack(app, newReader(file, wrong), nil)
	s.code = context
	return s.fill()
}

// newSettingsStack makes an empty stack, and reads the settings of both jobs. A nil synthesizer means the default one.
func newSettingsStack(app awscdk.App, r reader, synthesizer awscdk.IStackSynthesizer) *settingsStack {
	s := &settingsStack{reader: r, keyARN: r.arn("encryption-key", "kms")}
	props := &awscdk.StackProps{
		Description:        jsii.String("oncebox: exactly-once claims and records"),
		AnalyticsReporting: jsii.Bool(false), // otherwise a resource tells AWS which constructs are used
		Env:                placeOf(s.keyARN),
		Synthesizer:        synthesizer,
	}
	if r.file.name != "" {
		props.Tags = &map[string]*string{settingsContext: &r.file.name}
	}
	s.stack = awscdk.NewStack(app, jsii.String(r.stackName()), props)
	s.readShared()
	return s
}

// fill makes the jobs of the stack, if both have no problem.
func (s *settingsStack) fill() (awscdk.Stack, error) {
	var claims ClaimAPIProps
	var records RecordDedupeProps
	s.checkParts()
	if s.file.with["claims"] {
		claims = s.claimProps(s.of("claims"))
	}
	if s.file.with["records"] {
		records = s.recordProps(s.of("records"))
	}
	dedupeTable := s.text("dedupe-table")
	s.checkTogether(claims, records, dedupeTable)
	s.refuseOthers()
	err := errors.Join(s.problems.err(), s.table.check(s.stack, s.naming("")))
	if err != nil {
		return nil, err
	}
	dedupe := s.dedupeTable(dedupeTable)
	if s.file.with["claims"] {
		claims.DedupeTable = dedupe
		claims = claims.withDefaults()
		err = claims.check(s.stack)
	}
	if s.file.with["records"] {
		records.DedupeTable = dedupe
		records = records.withDefaults()
		err = errors.Join(err, records.check(s.stack))
	}
	if err != nil {
		return nil, onceEach(err)
	}
	if s.file.with["claims"] {
		s.addClaims(claims)
	}
	if s.file.with["records"] {
		s.addRecords(records)
	}
	if s.dashboard {
		_, err = NewDashboard(s.stack, "Dashboard", s.shown)
	}
	s.output("DedupeTable", "ONCEBOX_DEDUPE_TABLE of the command line", *dedupe.TableName())
	if s.file.name != "" {
		s.output("Settings", "The settings file that the stack was made from", s.file.name)
	}
	return s.stack, err
}

// checkParts refuses a file that does not mention a part: forgetting it would delete what the stack has of it.
func (s *settingsStack) checkParts() {
	claims, hasClaims := s.file.with["claims"]
	records, hasRecords := s.file.with["records"]
	if !hasClaims {
		s.problems.add("claims is missing in %s; write the settings of the claim API below claims:, or `claims: none`, which "+
			"deletes the API and its URL if the stack has one", s.file.name)
	}
	if !hasRecords {
		s.problems.add("records is missing in %s; write the settings of the dedupe function below records: (the two on-demand "+
			"streams that it makes cost about 58 USD a month without a record), or `records: none`, which deletes the function "+
			"if the stack has one", s.file.name)
	}
	if hasClaims && hasRecords && !claims && !records {
		s.problems.add("claims and records are both none in %s; a stack has one of them, or both", s.file.name)
	}
}

// checkTogether refuses settings that other settings make useless, and a bank as the destination of records.
func (s *settingsStack) checkTogether(claims ClaimAPIProps, records RecordDedupeProps, dedupeTable string) {
	inClaims, hasClaims := s.of("claims"), s.file.with["claims"]
	if claims.Sweep == switchText(false) && claims.SweepEvery != 0 {
		s.problems.add("%s is %s, but %s leaves the sweep out; change one of the two",
			inClaims.path("sweep-every"), text(claims.SweepEvery), inClaims.path("sweep"))
	}
	makesTables := dedupeTable == "" || hasClaims && claims.BankTable == nil
	if !makesTables && (s.table.WarmReadUnits != 0 || s.table.WarmWriteUnits != 0) {
		s.problems.add("warm-read-units and warm-write-units are for tables that the stack makes, and it makes none; leave " +
			"them out")
	}
	sink := Sink{address: records.Settings.Sink}
	if claims.BankTable != nil && sink.scheme() == "dynamodb" && sink.named() == *claims.BankTable.TableName() {
		s.problems.add("%s is the table of %s; write another table", s.of("records").path("sink"), inClaims.path("bank-table"))
	}
}

// onceEach removes problems that both jobs report twice.
func onceEach(err error) error {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

// settingsStack makes props from settings, and constructs from the names of existing resources.
type settingsStack struct {
	reader
	code     contextValues
	stack    awscdk.Stack
	keyARN   string
	key      awskms.IKey // the key of all resources of the stack, made or existing; nil without a key
	former   []awskms.IKey
	table    TableProps
	function FunctionProps
	alarms   AlarmProps
	logLevel string // of all functions
	metrics  string // "on", "off" or ""

	existingSource Source // of a plain template; the zero value: the settings say it

	dashboard bool
	shown     DashboardProps // the contents of the dashboard
}

// placeOf returns the account and region of a key, where the stack must be: a TableV2 with a key needs to know its
// region. Without a key the stack may be anywhere.
func placeOf(keyARN string) *awscdk.Environment {
	key, ok := arn.Parse(keyARN)
	if !ok {
		return nil
	}
	return &awscdk.Environment{Region: &key.Region, Account: &key.Account}
}

// readShared reads the settings of both jobs.
func (s *settingsStack) readShared() {
	if s.keyARN != "" {
		s.key = awskms.Key_FromKeyArn(s.stack, jsii.String("Key"), &s.keyARN)
	}
	for i, arn := range s.formerKeys(s.keyARN) {
		s.former = append(s.former, awskms.Key_FromKeyArn(s.stack, jsii.String(fmt.Sprint("FormerKey", i+1)), &arn))
	}
	if arn := s.arn("alarm-topic", "sns"); arn != "" {
		s.alarms.Topic = awssns.Topic_FromTopicArn(s.stack, jsii.String("AlarmTopic"), &arn)
	}
	s.alarms.RunbookURL = s.text("runbook-url")
	s.dashboard = s.onOff("dashboard")
	s.table = TableProps{
		EncryptionKey: s.key,
		WarmReadUnits: s.number("warm-read-units", 0), WarmWriteUnits: s.number("warm-write-units", 0),
		Disposable: s.onOff("disposable"),
	}
	s.stack.SetTerminationProtection(jsii.Bool(s.terminationProtection()))
	s.logLevel, s.metrics = s.text("log-level"), s.switchWord("metrics")
	s.function = FunctionProps{
		X86:    s.oneOf("architecture", "arm64", "x86_64") == "x86_64",
		Canary: s.duration("canary", time.Minute), SystemLogLevel: s.text("system-log-level"),
		LogRetention: s.logRetention(), EndpointURL: s.text("endpoint-url"),
		Subnets: s.subnets(), SecurityGroups: s.securityGroups(), Tracing: s.onOff("tracing"),
		EnvironmentKey: s.keyFor("encrypt-environment"), LogKey: s.keyFor("encrypt-logs"),
	}
}

// terminationProtection is on without a word in the file, because `cdk diff` does not show that it goes off: a line that
// was lost would turn it off unseen. A disposable stack is made to be deleted.
func (s *settingsStack) terminationProtection() bool {
	const key = "termination-protection"
	on := s.onOff(key) || !s.has(key) && !s.table.Disposable
	if on && s.table.Disposable {
		s.refuse(key, "the stack cannot be deleted, and disposable is on; leave one of them out")
	}
	return on
}

// keyFor returns the key for a resource that is encrypted with it only on request.
func (s *settingsStack) keyFor(name string) awskms.IKey {
	if !s.onOff(name) {
		return nil
	}
	if s.keyARN == "" {
		s.refuse(name, "it needs encryption-key, the key to encrypt with")
	}
	return s.key
}

// reservedConcurrency returns the value, or nil if it is not set.
func (r reader) reservedConcurrency() *int {
	const key = "reserved-concurrency"
	if !r.has(key) {
		return nil
	}
	return new(r.number(key, 1))
}

func (s *settingsStack) claimProps(r reader) ClaimAPIProps {
	function := claimapi.Settings{LogLevel: s.logLevel, Metrics: s.metrics, LinkKeys: r.linkKeys()}
	r.fill(&function, "BankTable", "DedupeTable", "Caller", "LinkKeys", "LogLevel", "Metrics")
	p := ClaimAPIProps{
		Auth: Auth(r.text("auth")), JWTIssuer: r.text("jwt-issuer"), JWTAudience: r.list("jwt-audience"),
		JWTScopes: r.list("jwt-scopes"), Settings: function,
		DomainName: r.text("domain-name"), Certificate: s.certificate(r), ExecuteAPIEndpoint: r.switchWord("execute-api-endpoint"),
		BankTable: s.existingTable("BankTable", r.text("bank-table")), Table: s.table, FormerKeys: s.former,
		Backup: BackupProps{
			Vault: r.arn("backup-vault", "backup"), Days: r.number("backup-days", 1), Bucket: r.bucket("backup-bucket"),
		},
		RateLimit: r.number("rate-limit", 1), BurstLimit: r.number("burst-limit", 1),
		Function: s.function, Alarms: s.alarms, Disposable: s.table.Disposable,
		Sweep: r.switchWord("sweep"), SweepEvery: r.duration("sweep-every", time.Minute),
		SweepFunction: SweepFunctionProps{Code: s.code.codeOf("sweep")},
		names:         r.naming("claim"),
	}
	if r.has("nearly-empty") { // 0 is a value, and not the default
		p.NearlyEmpty = new(r.number("nearly-empty", 0))
	}
	p.Function.Code = s.code.codeOf("claim")
	p.Function.ReservedConcurrency = r.reservedConcurrency()
	return p
}

func (s *settingsStack) certificate(r reader) awscertificatemanager.ICertificate {
	arn := r.arn("certificate", "acm")
	if arn == "" {
		return nil
	}
	return awscertificatemanager.Certificate_FromCertificateArn(s.stack, jsii.String("Certificate"), &arn)
}

// linkKeys returns the public keys of links: the text of a file beside the settings file, or the value itself.
func (r reader) linkKeys() string {
	text := strings.Join(r.list("link-keys"), ",")
	path, isFile := strings.CutPrefix(text, "file:")
	if !isFile {
		return text
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.file.folder, path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		r.refuse("link-keys", "the file "+path+" cannot be read; write file:PATH of a file that `oncebox links keygen` wrote, "+
			"or the keys. A relative path begins in the folder of "+r.file.name)
	}
	return string(content)
}

func (s *settingsStack) recordProps(r reader) RecordDedupeProps {
	function := recordhandler.Settings{LogLevel: s.logLevel, Metrics: s.metrics}
	r.fill(&function, "DedupeTable", "DeadLetters", "LogLevel", "Metrics")
	p := RecordDedupeProps{
		Settings:        function,
		ExpectedRate:    r.number("expected-rate", 1),
		Source:          s.source(r),
		SourceRetention: r.duration("source-retention", time.Second),

		Table: s.table, DeadLetterBucket: s.existingBucket(r), NotifyQueue: s.existingQueue(r, "NotifyQueue", "notify-queue"),
		DoneLetterExpiry: r.duration("done-letter-expiry", day),
		EncryptionKey:    s.key, FormerKeys: s.former,
		Mapping: MappingProps{
			BatchSize: r.number("batch-size", 1), BatchWindow: r.duration("batch-window", r.shortestBatchWindow()),
			Parallelization: r.number("parallelization", 1), RecordAge: r.duration("record-age", time.Second),
		},
		Function: s.function, Alarms: s.alarms, Disposable: s.table.Disposable,
		names: r.naming("dedupe"),
	}
	p.Function.Code, p.Function.Memory = s.code.codeOf("dedupe"), r.number("memory", 1)
	p.Function.ReservedConcurrency = r.reservedConcurrency()
	if r.has("retries") { // 0 is a value, and not the default
		p.Mapping.Retries = new(r.number("retries", -1))
	}
	return p
}

// shortestBatchWindow refuses a 0 that the mapping would read as its default.
func (r reader) shortestBatchWindow() time.Duration {
	if address.Scheme(r.text("ledger")) == logLedger {
		return time.Second
	}
	return 0
}

func (s *settingsStack) dedupeTable(existing string) awsdynamodb.ITableV2 {
	if table := s.existingTable("DedupeTable", existing); table != nil {
		return table
	}
	return newDedupeTable(s.stack, "DedupeTable", s.table)
}

func (s *settingsStack) existingTable(id, table string) awsdynamodb.ITableV2 {
	if table == "" {
		return nil
	}
	return awsdynamodb.TableV2_FromTableAttributes(s.stack, jsii.String(id), &awsdynamodb.TableAttributesV2{
		TableName: &table, EncryptionKey: s.key,
	})
}

// newQueue is the value of source for a queue that the stack makes.
const newQueue = "sqs"

// source returns what the function reads. The service in its ARN says what it is.
func (s *settingsStack) source(r reader) Source {
	const name = "source"
	text := r.text(name)
	its, _ := arn.Parse(text)
	switch {
	case text == "":
		return s.existingSource
	case text == newQueue:
		return FromNewQueue()
	case its.Service == "sqs":
		if queue := s.existingQueue(r, "SourceQueue", name); queue != nil {
			return FromQueue(queue)
		}
	case its.Service == "kinesis":
		if arn := r.arn(name, "kinesis"); arn != "" {
			return FromStream(awskinesis.Stream_FromStreamAttributes(s.stack, jsii.String("SourceStream"),
				&awskinesis.StreamAttributes{StreamArn: &arn, EncryptionKey: s.key}))
		}
	case its.Service == "dynamodb":
		if arn := r.arn(name, "dynamodb"); arn != "" {
			table, _, _ := strings.Cut(arn, "/stream/")
			return FromTable(awsdynamodb.TableV2_FromTableAttributes(s.stack, jsii.String("SourceTable"),
				&awsdynamodb.TableAttributesV2{TableArn: &table, TableStreamArn: &arn, EncryptionKey: s.key}))
		}
	case its.Service == "logs":
		if arn := r.arn(name, "logs"); arn != "" {
			return FromLogGroup(awslogs.LogGroup_FromLogGroupArn(s.stack, jsii.String("SourceLogGroup"), &arn))
		}
	default:
		r.refuse(name, "write "+newQueue+" for a new queue, or the ARN of a Kinesis stream, a queue, the stream of a DynamoDB "+
			"table, or a log group, as in arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
	}
	return Source{}
}

func (s *settingsStack) existingBucket(r reader) awss3.IBucket {
	name := r.bucket("dead-letter-bucket")
	if name == "" {
		return nil
	}
	return awss3.Bucket_FromBucketAttributes(s.stack, jsii.String("DeadLetterBucket"), &awss3.BucketAttributes{
		BucketName: &name, EncryptionKey: s.key,
	})
}

func (s *settingsStack) existingQueue(r reader, id, name string) awssqs.IQueue {
	arn := r.arn(name, "sqs")
	if arn == "" {
		return nil
	}
	attributes := &awssqs.QueueAttributes{QueueArn: &arn}
	if s.key != nil {
		attributes.KeyArn = s.key.KeyArn()
	}
	return awssqs.Queue_FromQueueAttributes(s.stack, jsii.String(id), attributes)
}

func (s *settingsStack) subnets() (all []awsec2.ISubnet) {
	for _, id := range s.ids("subnets", "subnet") {
		subnet := awsec2.Subnet_FromSubnetId(s.stack, &id, &id)
		awscdk.Annotations_Of(subnet).AcknowledgeWarning(jsii.String("@aws-cdk/aws-ec2:noSubnetRouteTableId"),
			jsii.String("nothing reads its route table"))
		all = append(all, subnet)
	}
	return all
}

func (s *settingsStack) securityGroups() (all []awsec2.ISecurityGroup) {
	for _, id := range s.ids("security-groups", "sg") {
		all = append(all, awsec2.SecurityGroup_FromSecurityGroupId(s.stack, &id, &id, nil))
	}
	return all
}

func (s *settingsStack) addClaims(checked ClaimAPIProps) {
	claims := newClaimAPI(s.stack, "Claims", checked)
	s.shown.Claims = append(s.shown.Claims, claims)
	s.output("BankTable", "ONCEBOX_BANK_TABLE of the command line", *claims.BankTable.TableName())
	s.output("ApiUrl", "The claim API", claims.URL)
	if claims.Domain != nil {
		s.output("DomainTarget", "The name to which the DNS record of the API's domain points", *claims.Domain.RegionalDomainName())
	}
}

func (s *settingsStack) addRecords(checked RecordDedupeProps) {
	records := newRecordDedupe(s.stack, "Records", checked)
	s.shown.Records = append(s.shown.Records, records)
	for _, o := range records.Source.kind.outputs() {
		s.output(o.name, o.description, o.value)
	}
	if records.Destination != nil {
		s.output("DestinationStream", "The stream that gets every record once", *records.Destination.StreamName())
	}
	s.output("DeadLetterBucket", "Dead letters: records and batches that were not delivered",
		*records.DeadLetterBucket.BucketName())
	s.output("NotifyQueueUrl", "A message for each new dead letter of the function", *records.NotifyQueue.QueueUrl())
}

func (s *settingsStack) output(name, description, value string) {
	// The resource, imported or made, has the plain name as its id.
	output := awscdk.NewCfnOutput(s.stack, jsii.String(name+"Output"), &awscdk.CfnOutputProps{
		Description: &description, Value: &value,
	})
	output.OverrideLogicalId(&name)
}
