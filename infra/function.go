package infra

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// bootstrap is the name that the runtime provided.al2023 gives a function's
// executable (Lambda Developer Guide, "Building Lambda functions with Go").
const bootstrap = "bootstrap"

// FunctionProps are the settings of a Lambda function. All are optional.
type FunctionProps struct {
	// Code is a folder with the function's executable, named bootstrap. By default
	// it is where `make zip` puts it: dist/claim or dist/dedupe below the current
	// folder.
	Code string

	// X86 is for functions built for x86_64. They run on arm64 otherwise, which
	// costs a fifth less per GB-second.
	X86 bool

	// MemoryMiB also sets the share of CPU: 1,769 MiB are one core. The default is
	// 512 for claims and 1,024 for records.
	MemoryMiB int

	// Timeout is in whole seconds. The default is 10 s for claims, at most 29 s
	// since an HTTP API waits for 30, and 1 minute for records, at most 15.
	Timeout time.Duration

	// LogLevel is ONCEBOX_LOG_LEVEL: debug, info (the default), warn or error.
	LogLevel string

	// LogRetention is how long log groups keep their lines; one month by default.
	LogRetention awslogs.RetentionDays

	// EndpointURL is set as AWS_ENDPOINT_URL: the AWS services are local engines.
	// For `sam local` only, which passes a function no variable that its template
	// does not declare.
	EndpointURL string
}

// functionKind is what the functions of the two jobs differ in.
type functionKind struct {
	code        string
	memoryMiB   int
	timeout     time.Duration
	mostTimeout time.Duration
}

// withDefaults fills in what is left out.
func (p FunctionProps) withDefaults(kind functionKind) FunctionProps {
	if p.Code == "" {
		p.Code = kind.code
	}
	if p.MemoryMiB == 0 {
		p.MemoryMiB = kind.memoryMiB
	}
	if p.Timeout == 0 {
		p.Timeout = kind.timeout
	}
	if p.LogRetention == "" {
		p.LogRetention = awslogs.RetentionDays_ONE_MONTH
	}
	return p
}

// Lambda's limits of memory (Developer Guide, "Lambda quotas").
const leastMemoryMiB, mostMemoryMiB = 128, 10240

// check says all that is wrong. The props have their defaults.
func (p FunctionProps) check(kind functionKind) error {
	var wrong []error
	if err := checkBootstrap(filepath.Join(p.Code, bootstrap), p.X86); err != nil {
		wrong = append(wrong, err)
	}
	if p.MemoryMiB < leastMemoryMiB || p.MemoryMiB > mostMemoryMiB {
		wrong = append(wrong, fmt.Errorf("the MemoryMiB are %d, want %d to %d", p.MemoryMiB, leastMemoryMiB, mostMemoryMiB))
	}
	if p.LogRetention != awslogs.RetentionDays_INFINITE && !slices.Contains(slices.Collect(maps.Values(logRetentions)), p.LogRetention) {
		wrong = append(wrong, fmt.Errorf("the LogRetention is %q, want a constant of awslogs, such as RetentionDays_ONE_YEAR", p.LogRetention))
	}
	if u, err := url.Parse(p.EndpointURL); p.EndpointURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong = append(wrong, fmt.Errorf("the EndpointURL is %q, want an http or https URL", p.EndpointURL))
	}
	if p.Timeout < time.Second || p.Timeout > kind.mostTimeout || p.Timeout%time.Second != 0 {
		wrong = append(wrong, fmt.Errorf("the Timeout is %v, want whole seconds from 1s to %v", p.Timeout, kind.mostTimeout))
	}
	return errors.Join(wrong...)
}

// checkBootstrap refuses an executable that Lambda could only fail to start.
func checkBootstrap(path string, x86 bool) error {
	machine, architecture, build := elf.EM_AARCH64, "arm64", "make zip"
	if x86 {
		machine, architecture, build = elf.EM_X86_64, "x86_64", "make zip ARCH=amd64"
	}
	file, err := elf.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no function at %s: build it with `%s`, or set Code to its folder", path, build)
	case err != nil:
		return fmt.Errorf("%s is not a Linux executable: build it with `%s`: %w", path, build, err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != machine {
		return fmt.Errorf("%s is not built for %s: build it with `%s`, or choose the other architecture", path, architecture, build)
	}
	if info, err := os.Stat(path); runtime.GOOS != "windows" && (err != nil || info.Mode()&0o111 == 0) {
		return fmt.Errorf("%s may not be executed: chmod +x it, or build it with `%s`", path, build)
	}
	return nil
}

// newFunction makes a function, its role and its log group. The role may do what
// is granted, and write to the log group.
func newFunction(scope constructs.Construct, p FunctionProps, env environment, granted []grant, disposable bool) awslambda.Function {
	logs := newLogGroup(scope, "FunctionLogs", p.LogRetention, disposable)
	role := awsiam.NewRole(scope, jsii.String("FunctionRole"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
	})
	for _, g := range append(granted, writeLogs(logs)) {
		role.AddToPrincipalPolicy(g.statement())
	}
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
		Code:         awslambda.Code_FromAsset(jsii.String(p.Code), nil),
		MemorySize:   jsii.Number(p.MemoryMiB),
		Timeout:      seconds(p.Timeout),
		Environment:  env.pointers(),
		Role:         role,
		LogGroup:     logs,
	})
	// A function that starts before its role has its policy is refused everything.
	function.Node().AddDependency(role)
	return function
}

func newLogGroup(scope constructs.Construct, id string, retention awslogs.RetentionDays, disposable bool) awslogs.LogGroup {
	return awslogs.NewLogGroup(scope, jsii.String(id), &awslogs.LogGroupProps{
		Retention: retention, RemovalPolicy: removalPolicy(disposable),
	})
}

func seconds(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(d.Seconds()))
}
