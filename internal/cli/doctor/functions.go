package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// Kind is one of the three functions.
type Kind string

// These are the functions of oncebox.
const (
	Claim  Kind = "claim"
	Sweep  Kind = "sweep"
	Dedupe Kind = "dedupe"
)

// Function is a deployed function, as its callers call it.
type Function struct {
	Kind        Kind
	Name        string            // its name, without an alias
	Alias       string            // the alias that callers call, such as live; "": they call the function or a version
	Version     string            // the version that the alias points to, or $LATEST
	Canary      []string          // the other versions that the alias points to, such as "8 (10 % of the calls)"
	Unlike      []string          // the variables that decide what a record is and differ
	Invoked     string            // the ARN to invoke: the alias, or without an alias the function or its version
	Log         string            // its log group
	Timeout     time.Duration     // of an invocation of Version
	Env         map[string]string // the variables of Version
	Description string            // the description of Version
	DeadLetters string            // the ARN of the dead-letter queue or topic of Version; "": it has none
}

// Environ returns the variables in the form of os.Environ, with the variables that Lambda sets.
func (f Function) Environ() []string {
	environ := []string{"AWS_LAMBDA_FUNCTION_NAME=" + f.Name}
	for name, value := range f.Env {
		environ = append(environ, name+"="+value)
	}
	slices.Sort(environ)
	return environ
}

// records returns the settings of a dedupe function that CheckSettings has accepted.
func (f Function) records() recordhandler.Options {
	_, options, _ := recordhandler.ParseSettings(f.Environ())
	return options
}

// SharesTables reports whether two functions of claims use the same tables.
func (f Function) SharesTables(other Function) bool {
	const bank, dedupe = "ONCEBOX_BANK_TABLE", "ONCEBOX_DEDUPE_TABLE"
	return f.Env[bank] == other.Env[bank] && f.Env[dedupe] == other.Env[dedupe]
}

// Lambda is the part of *lambda.Client that this package calls.
type Lambda interface {
	GetFunctionConfiguration(
		context.Context, *lambda.GetFunctionConfigurationInput, ...func(*lambda.Options),
	) (*lambda.GetFunctionConfigurationOutput, error)
	GetAlias(context.Context, *lambda.GetAliasInput, ...func(*lambda.Options)) (*lambda.GetAliasOutput, error)
	ListEventSourceMappings(
		context.Context, *lambda.ListEventSourceMappingsInput, ...func(*lambda.Options),
	) (*lambda.ListEventSourceMappingsOutput, error)
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
	GetPolicy(context.Context, *lambda.GetPolicyInput, ...func(*lambda.Options)) (*lambda.GetPolicyOutput, error)
	GetFunctionEventInvokeConfig(
		context.Context, *lambda.GetFunctionEventInvokeConfigInput, ...func(*lambda.Options),
	) (*lambda.GetFunctionEventInvokeConfigOutput, error)
	GetFunctionConcurrency(
		context.Context, *lambda.GetFunctionConcurrencyInput, ...func(*lambda.Options),
	) (*lambda.GetFunctionConcurrencyOutput, error)
	GetAccountSettings(
		context.Context, *lambda.GetAccountSettingsInput, ...func(*lambda.Options),
	) (*lambda.GetAccountSettingsOutput, error)
}

// CloudFormation is the part of *cloudformation.Client that this package calls.
type CloudFormation interface {
	ListStackResources(
		context.Context, *cloudformation.ListStackResourcesInput, ...func(*cloudformation.Options),
	) (*cloudformation.ListStackResourcesOutput, error)
}

// Stack holds the resources of a stack that doctor looks at, under the names that their services know.
type Stack struct {
	// Functions are names. A function with an alias is the ARN of the alias, which API Gateway, the schedule and the event
	// source mapping call.
	Functions []string
	APIs      []string // the ids of HTTP APIs
	Domains   []string // the host names of API Gateway
	Alarms    []string
}

// Find reads the settings of the functions of the stack, as the function Find does. The functions in others have the
// variables of a sweep, but not its description. Such a function may be the user's own, on the same tables. The operator
// has not named these functions, so do not invoke them.
func (s *Stack) Find(ctx context.Context, client Lambda) (found, others []Function, err error) {
	all, err := Find(ctx, client, s.Functions)
	for _, f := range all {
		if f.Kind == Sweep && !strings.HasPrefix(f.Description, sweephandler.Description) {
			others = append(others, f)
		} else {
			found = append(found, f)
		}
	}
	return found, others, err
}

// InStack returns the resources of a stack.
func InStack(ctx context.Context, client CloudFormation, stack string) (*Stack, error) {
	s := &Stack{}
	var aliases []string
	in := &cloudformation.ListStackResourcesInput{StackName: &stack}
	for pages := cloudformation.NewListStackResourcesPaginator(client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.StackResourceSummaries {
			id := aws.ToString(r.PhysicalResourceId)
			if id == "" || r.ResourceStatus == cloudformationtypes.ResourceStatusDeleteComplete {
				continue // no such resource
			}
			switch aws.ToString(r.ResourceType) {
			case "AWS::Lambda::Function":
				s.Functions = append(s.Functions, id)
			case "AWS::Lambda::Alias":
				aliases = append(aliases, id)
			case "AWS::ApiGatewayV2::Api":
				s.APIs = append(s.APIs, id)
			case "AWS::ApiGatewayV2::DomainName":
				s.Domains = append(s.Domains, id)
			case "AWS::CloudWatch::Alarm":
				s.Alarms = append(s.Alarms, id)
			}
		}
	}
	for i, name := range s.Functions {
		of := slices.IndexFunc(aliases, func(alias string) bool { return strings.Contains(alias, ":function:"+name+":") })
		if of >= 0 {
			s.Functions[i] = aliases[of]
		}
	}
	return s, nil
}

// Find reads the settings of functions. A function is a name or an ARN, with or without an alias or a version, and
// exactly that is invoked. A function with the variables of a sweep counts as the sweep. Find leaves out functions
// that do not belong to oncebox, such as the functions that the CDK adds to a stack.
func Find(ctx context.Context, client Lambda, functions []string) (found []Function, err error) {
	for _, name := range functions {
		f, err := find(ctx, client, name)
		if err != nil {
			return nil, err
		}
		if f.Kind != "" {
			found = append(found, f)
		}
	}
	return found, nil
}

func find(ctx context.Context, client Lambda, name string) (f Function, err error) {
	// If the name has an alias, this is the configuration of the version that the alias points to.
	out, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return f, err
	}
	f = Function{
		Name: aws.ToString(out.FunctionName), Version: aws.ToString(out.Version), Invoked: aws.ToString(out.FunctionArn),
		Description: aws.ToString(out.Description), Timeout: time.Duration(aws.ToInt32(out.Timeout)) * time.Second,
	}
	if out.DeadLetterConfig != nil {
		f.DeadLetters = aws.ToString(out.DeadLetterConfig.TargetArn)
	}
	f.Log = "/aws/lambda/" + f.Name
	if out.LoggingConfig != nil {
		f.Log = cmp.Or(aws.ToString(out.LoggingConfig.LogGroup), f.Log)
	}
	if e := out.Environment; e != nil {
		if e.Error != nil { // the variables are encrypted with a key that the operator may not use
			return f, &VariablesError{f.Name, aws.ToString(e.Error.Message)}
		}
		f.Env = e.Variables
	}
	f.Kind = kindOf(f.Env)
	if qualifier := qualifierOf(name); f.Kind != "" && qualifier != "" && !isVersion(qualifier) {
		return f.withAlias(ctx, client, strings.TrimSuffix(name, ":"+qualifier), qualifier)
	}
	return f, nil
}

// VariablesError says that the operator may not read the variables of a function.
type VariablesError struct{ Function, Reason string }

func (e *VariablesError) Error() string {
	return fmt.Sprintf("the variables of the function %s cannot be read: %s", e.Function, e.Reason)
}

// qualifierOf returns the alias or version in NAME:QUALIFIER or in an ARN of that form.
func qualifierOf(name string) string {
	if _, rest, isARN := strings.Cut(name, ":function:"); isARN {
		name = rest
	}
	_, qualifier, _ := strings.Cut(name, ":")
	return qualifier
}

// isVersion reports whether a qualifier is a version and not an alias, whose name cannot be a number (Lambda API
// reference, "CreateAlias").
func isVersion(qualifier string) bool {
	return qualifier == "$LATEST" || strings.Trim(qualifier, "0123456789") == ""
}

// withAlias reads the versions that an alias of the function points to.
func (f Function) withAlias(ctx context.Context, client Lambda, name, alias string) (Function, error) {
	out, err := client.GetAlias(ctx, &lambda.GetAliasInput{FunctionName: &name, Name: &alias})
	if err != nil {
		return f, err
	}
	f.Alias, f.Version, f.Invoked = alias, aws.ToString(out.FunctionVersion), aws.ToString(out.AliasArn)
	if out.RoutingConfig != nil {
		for version, weight := range out.RoutingConfig.AdditionalVersionWeights {
			f.Canary = append(f.Canary, fmt.Sprintf("%s (%g %% of the calls)", version, 100*weight))
			other, err := find(ctx, client, name+":"+version)
			if err != nil {
				return f, err
			}
			f.Unlike = append(f.Unlike, f.unlike(other)...)
		}
		slices.Sort(f.Canary)
	}
	return f, nil
}

// unlike returns the variables that decide what a record is and in which two versions differ.
func (f Function) unlike(other Function) (names []string) {
	one, two := recordhandler.Identity(f.Env), recordhandler.Identity(other.Env)
	all := maps.Clone(one)
	maps.Copy(all, two)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if one[name] != two[name] {
			names = append(names, name)
		}
	}
	return names
}

// kindOf recognises the functions by their variables. The claim and the dedupe function require variables that the
// other functions refuse. The sweep has only the names of the tables, which other programs may have, too.
func kindOf(env map[string]string) Kind {
	switch {
	case env["ONCEBOX_CLAIMANT_FROM"] != "":
		return Claim
	case env["ONCEBOX_SINK"] != "":
		return Dedupe
	case env["ONCEBOX_BANK_TABLE"] != "":
		return Sweep
	}
	return ""
}

// Mappings returns the event source mappings that call the ARN to invoke: the alias, if the function has one.
func Mappings(ctx context.Context, client Lambda, f Function) (all []types.EventSourceMappingConfiguration, err error) {
	in := &lambda.ListEventSourceMappingsInput{FunctionName: &f.Invoked}
	for pages := lambda.NewListEventSourceMappingsPaginator(client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.EventSourceMappings...)
	}
	return all, nil
}
