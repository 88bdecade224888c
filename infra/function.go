package infra

import (
	"debug/elf"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// bootstrap is the name of a function's executable in the runtime provided.al2023 (Lambda Developer Guide, "Building
// Lambda functions with Go").
const bootstrap = "bootstrap"

// FunctionProps are the settings of a Lambda function. All are optional.
type FunctionProps struct {
	// Code is the folder of the function's executable, which is named bootstrap. The default is the folder in which
	// `make zip` puts it: dist/claim or dist/dedupe in the current folder, or dist/dedupe-full with the Firehose sink or
	// the Valkey ledger.
	Code string

	// X86 is for executables built for x86_64. The default is arm64, which costs a fifth less per GB-second.
	X86 bool

	// Memory is in MiB. It also sets the share of CPU: 1,769 MiB are one core. The default is 512 for claims, 1,024 for records,
	// and 3,008 for records with the log ledger.
	Memory int

	// Timeout is in whole seconds. For claims the default is 10 s and the maximum 29 s, because an HTTP API waits for
	// 30 s. With less than the default, more claims get 503 while thousands of containers sell a bank out (ADR 0018:
	// 9 % with 5 s). For records the default is 1 minute, 5 minutes with the log ledger, and the maximum 15 minutes.
	Timeout time.Duration

	// Canary is how long a new version gets a tenth of the calls before it gets all: 10, 15 or 30 minutes. If an
	// alarm goes off in that time, the deployment fails and the old version gets all calls again. 0 is the default:
	// the new version gets all calls at once. The deployment takes longer by this time. The sweep has no canary.
	Canary time.Duration

	// SystemLogLevel is the lowest level of Lambda's own lines about an invocation: debug, info (the default) or
	// warn. With warn, successful invocations have no such lines, which saves a third of the log (docs/costs.md).
	SystemLogLevel string

	// LogRetention is how long log groups keep their lines. The default is one month.
	LogRetention awslogs.RetentionDays

	// Subnets and SecurityGroups put the function into a VPC, for example for a Valkey ledger. Set both. From there
	// the function needs a route to the services of AWS (docs/ledgers.md).
	Subnets        []awsec2.ISubnet
	SecurityGroups []awsec2.ISecurityGroup

	// ReservedConcurrency is the largest number of containers of the function. No other function of the account gets
	// these. Nil reserves none. The sweep never has one, because it runs once at a time.
	ReservedConcurrency *int

	// Tracing lets Lambda send traces of invocations to X-Ray, which charges for them (docs/costs.md). A trace shows
	// the start of a container, the invocation and its faults; the functions add nothing to it. The API sends no
	// traces, because HTTP APIs cannot.
	Tracing bool

	// EnvironmentKey encrypts the variables of the function instead of a key of AWS.
	EnvironmentKey awskms.IKey

	// LogKey encrypts the logs instead of a key of CloudWatch Logs. If the key is made in the app, its policy gets
	// the statement that CloudWatch Logs needs. The policy of an imported key must have the statement; the synthesis
	// warns about it.
	LogKey awskms.IKey

	// EndpointURL is set as AWS_ENDPOINT_URL, so that the function uses local engines. It is only for `sam local`,
	// which passes a variable to a function only if its template declares the variable.
	EndpointURL string

	// zips returns the code of a function in a bucket, by the last element of Code. It is for plain templates, which
	// have no assets.
	zips func(function string) awslambda.Code
}

// functionKind holds the values that differ between the functions.
type functionKind struct {
	code           string
	memoryMiB      int
	timeout        time.Duration
	longestTimeout time.Duration
}

func (p FunctionProps) withDefaults(kind functionKind) FunctionProps {
	if p.Code == "" {
		p.Code = kind.code
	}
	if p.Memory == 0 {
		p.Memory = kind.memoryMiB
	}
	if p.Timeout == 0 {
		p.Timeout = kind.timeout
	}
	if p.LogRetention == "" {
		p.LogRetention = awslogs.RetentionDays_ONE_MONTH
	}
	if p.SystemLogLevel == "" {
		p.SystemLogLevel = "info"
	}
	return p
}

// These are Lambda's limits of memory (Developer Guide, "Lambda quotas").
const minMemoryMiB, maxMemoryMiB = 128, 10240

// check returns all problems in props that have their defaults.
func (p FunctionProps) check(kind functionKind, names naming) error {
	wrong := problems{naming: names}
	p.checkOwn(&wrong, kind)
	known := append(slices.Collect(maps.Values(logRetentions)), awslogs.RetentionDays_INFINITE)
	if !slices.Contains(known, p.LogRetention) {
		wrong.add("LogRetention is %q; choose a constant of awslogs, for example RetentionDays_ONE_YEAR", p.LogRetention)
	}
	p.checkVPC(&wrong)
	p.checkConcurrency(&wrong)
	if _, ok := systemLogLevels[p.SystemLogLevel]; !ok {
		wrong.add("%s is %q; choose debug, info or warn", wrong.of("SystemLogLevel"), p.SystemLogLevel)
	}
	u, err := url.Parse(p.EndpointURL)
	if p.EndpointURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong.add("%s must be an http or https URL", wrong.of("EndpointURL")) // which may have a password
	}
	return wrong.err()
}

// systemLogLevels are the levels that Lambda has (Developer Guide, "Log-level filtering").
var systemLogLevels = map[string]awslambda.SystemLogLevel{
	"debug": awslambda.SystemLogLevel_DEBUG, "info": awslambda.SystemLogLevel_INFO, "warn": awslambda.SystemLogLevel_WARN,
}

// checkOwn checks the props that each function has for itself.
func (p FunctionProps) checkOwn(wrong *problems, kind functionKind) {
	p.checkCode(wrong)
	if p.Memory < minMemoryMiB || p.Memory > maxMemoryMiB {
		wrong.add("%s is %d; choose %d to %d", wrong.of("Memory"), p.Memory, minMemoryMiB, maxMemoryMiB)
	}
	if p.Timeout < time.Second || p.Timeout > kind.longestTimeout || p.Timeout%time.Second != 0 {
		wrong.add("%s is %s; choose whole seconds from 1s to %s", wrong.of("Timeout"), text(p.Timeout),
			text(kind.longestTimeout))
	}
	if _, known := canaries[p.Canary]; !known && p.Canary != 0 {
		wrong.add("%s is %s; choose 10m, 15m or 30m, or leave it out", wrong.of("Canary"), text(p.Canary))
	}
}

// checkCode refuses an executable that Lambda could not start.
func (p FunctionProps) checkCode(wrong *problems) {
	if p.zips != nil {
		return
	}
	machine, architecture, build := elf.EM_AARCH64, "arm64", "make zip"
	if p.X86 {
		machine, architecture, build = elf.EM_X86_64, "x86_64", "make zip ARCH=amd64"
	}
	path := filepath.Join(p.Code, bootstrap)
	file, err := elf.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		wrong.add("there is no function at %s; build it with `%s`, or set %s to its folder", path, build, wrong.of("Code"))
		return
	case err != nil:
		wrong.add("%s is not a Linux executable; build it with `%s`", path, build)
		return
	}
	defer func() { _ = file.Close() }()
	if file.Machine != machine {
		wrong.add("%s is not built for %s; build it with `%s`, or choose the other architecture", path, architecture, build)
	} else if info, err := os.Stat(path); runtime.GOOS != "windows" && (err != nil || info.Mode()&0o111 == 0) {
		wrong.add("%s is not executable; run chmod +x on it, or build it with `%s`", path, build)
	}
}

// newFunction makes a function, its role and its log group. The role may do what the grants allow, and write to the
// log group. Callers use the alias that newLive makes for it.
func newFunction(
	scope constructs.Construct, p FunctionProps, env environment, granted []grant, disposable bool,
) awslambda.Function {
	logs := awslogs.NewLogGroup(scope, jsii.String("FunctionLogs"), &awslogs.LogGroupProps{
		Retention: p.LogRetention, EncryptionKey: p.LogKey, RemovalPolicy: keepUnlessRolledBack(disposable),
	})
	p.encryptLogs(scope)
	role := newRole(scope, "FunctionRole", "lambda.amazonaws.com", append(slices.Concat(granted, p.grants()), writeLogs(logs)))
	architecture := awslambda.Architecture_ARM_64()
	if p.X86 {
		architecture = awslambda.Architecture_X86_64()
	}
	if p.EndpointURL != "" {
		env["AWS_ENDPOINT_URL"] = p.EndpointURL
	}
	function := awslambda.NewFunction(scope, jsii.String("Function"), &awslambda.FunctionProps{
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture: architecture,
		Handler:      jsii.String(bootstrap),
		Code:         p.code(),
		MemorySize:   jsii.Number(p.Memory),
		Timeout:      seconds(p.Timeout),
		Environment:  env.pointers(),
		Role:         role,
		LogGroup:     logs,

		CurrentVersionOptions: &awslambda.VersionOptions{RemovalPolicy: keepUnlessRolledBack(disposable)},
		// Levels of system lines need the format JSON. The function leaves out lines below its own log level, except
		// for their metrics. Lambda must not leave out more lines.
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		SystemLogLevelV2:      systemLogLevels[p.SystemLogLevel],
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_DEBUG,
	})
	p.configure(function)
	// Without its policy the role has no permission, so the function must not start before.
	function.Node().AddDependency(role)
	return function
}

func (p FunctionProps) code() awslambda.Code {
	if p.zips != nil {
		return p.zips(filepath.Base(p.Code))
	}
	return awslambda.Code_FromAsset(jsii.String(p.Code), nil)
}

// configure sets properties that the CDK's own props would set together with permissions that grants.go does not
// list.
func (p FunctionProps) configure(function awslambda.Function) {
	resource := function.Node().DefaultChild().(awslambda.CfnFunction)
	p.joinVPC(resource)
	p.reserve(resource)
	p.trace(resource)
	p.encryptEnvironment(resource)
}

func seconds(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(d.Seconds()))
}
