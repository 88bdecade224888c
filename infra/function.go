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
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
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
	// Code is the folder of the function's executable, which is named bootstrap. The default is where `make zip` puts
	// it: dist/claim or dist/dedupe in the current folder.
	Code string

	// X86 is for executables built for x86_64. The default is arm64, which costs a fifth less per GB-second.
	X86 bool

	// MemoryMiB also sets the share of CPU: 1,769 MiB are one core. The default is 512 for claims, 1,024 for records, and
	// 3,008 for records with the log ledger.
	MemoryMiB int

	// Timeout is in whole seconds. For claims the default is 10 s and the maximum 29 s, because an HTTP API waits for 30
	// s. For records the default is 1 minute, 5 minutes with the log ledger, and the maximum 15 minutes.
	Timeout time.Duration

	// LogLevel is ONCEBOX_LOG_LEVEL: debug, info (the default), warn or error.
	LogLevel string

	// LogRetention is how long log groups keep their lines. The default is one month.
	LogRetention awslogs.RetentionDays

	// EndpointURL is set as AWS_ENDPOINT_URL, so that the function talks to local engines. It is for `sam local` only,
	// which passes a function no variable that its template does not declare.
	EndpointURL string
}

// functionKind holds what differs between the functions.
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
const minMemoryMiB, maxMemoryMiB = 128, 10240

// check returns everything that is wrong with props that have their defaults.
func (p FunctionProps) check(kind functionKind, names naming) error {
	wrong := problems{naming: names}
	p.checkOwn(&wrong, kind)
	known := append(slices.Collect(maps.Values(logRetentions)), awslogs.RetentionDays_INFINITE)
	if !slices.Contains(known, p.LogRetention) {
		wrong.add("LogRetention is %q; choose a constant of awslogs, for example RetentionDays_ONE_YEAR", p.LogRetention)
	}
	u, err := url.Parse(p.EndpointURL)
	if p.EndpointURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		wrong.add("%s is %q; it must be an http or https URL", wrong.of("EndpointURL"), p.EndpointURL)
	}
	return wrong.err()
}

// checkOwn checks what each function has for itself.
func (p FunctionProps) checkOwn(wrong *problems, kind functionKind) {
	p.checkCode(wrong)
	if p.MemoryMiB < minMemoryMiB || p.MemoryMiB > maxMemoryMiB {
		wrong.add("%s is %d; choose %d to %d", wrong.of("MemoryMiB"), p.MemoryMiB, minMemoryMiB, maxMemoryMiB)
	}
	if p.Timeout < time.Second || p.Timeout > kind.longestTimeout || p.Timeout%time.Second != 0 {
		wrong.add("%s is %s; choose whole seconds from 1s to %s", wrong.of("Timeout"), text(p.Timeout),
			text(kind.longestTimeout))
	}
}

// checkCode refuses an executable that Lambda could not start.
func (p FunctionProps) checkCode(wrong *problems) {
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

// newFunction makes a function, its role and its log group. The role may do what is granted, and write to the log
// group.
func newFunction(
	scope constructs.Construct, p FunctionProps, env environment, granted []grant, disposable bool,
) awslambda.Function {
	logs := awslogs.NewLogGroup(scope, jsii.String("FunctionLogs"), &awslogs.LogGroupProps{
		Retention: p.LogRetention, RemovalPolicy: removalPolicy(disposable),
	})
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
	// Without its policy the role may do nothing: the function must not start before.
	function.Node().AddDependency(role)
	return function
}

func seconds(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(d.Seconds()))
}
