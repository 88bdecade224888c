package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Account looks at the parts around the functions, with the operator's credentials. It changes nothing.
type Account struct {
	Lambda     Lambda
	Gateway    *apigatewayv2.Client
	Limits     *apigateway.Client // tells the throttle of all APIs of the account; apigatewayv2 does not
	Events     *eventbridge.Client
	CloudWatch *cloudwatch.Client
	Kinesis    *kinesis.Client
	Queues     *sqs.Client
	Logs       *cloudwatchlogs.Client
	Tables     *dynamodb.Client
	HTTP       http.RoundTripper  // sends requests without credentials to the addresses of APIs
	Stack      *Stack             // nil: the operator has named the functions
	Explain    func(error) string // puts an error of the SDK into plain words
	Report     *Report
}

// mayInvoke reports whether the resource policy of a function allows a service to invoke it for an ARN.
func (c Account) mayInvoke(ctx context.Context, f Function, service, source string) (bool, error) {
	permissions, err := c.permissions(ctx, f, service)
	return slices.ContainsFunc(permissions, func(p permission) bool {
		return !slices.ContainsFunc(p, func(patterns json.RawMessage) bool { return !matchesARN(patterns, source) })
	}), err
}

// permission holds the conditions about the ARN for which a service may invoke a function. Without conditions, it may do
// so for any.
type permission []json.RawMessage

// permissions returns what the resource policy of a function allows to a service.
func (c Account) permissions(ctx context.Context, f Function, service string) (all []permission, err error) {
	in := &lambda.GetPolicyInput{FunctionName: &f.Name}
	if qualifier := qualifierOf(f.Invoked); qualifier != "" {
		in.Qualifier = &qualifier
	}
	out, err := c.Lambda.GetPolicy(ctx, in)
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var policy struct {
		Statement []struct {
			Effect    string                                `json:"Effect"`
			Principal json.RawMessage                       `json:"Principal"`
			Condition map[string]map[string]json.RawMessage `json:"Condition"`
		} `json:"Statement"`
	}
	if err := json.Unmarshal([]byte(aws.ToString(out.Policy)), &policy); err != nil {
		return nil, errors.New("the policy of " + f.Name + " is not understood")
	}
	for _, s := range policy.Statement {
		if s.Effect != "Allow" || !strings.Contains(string(s.Principal), `"`+service+`"`) {
			continue
		}
		var p permission
		for _, values := range s.Condition {
			for key, value := range values {
				if strings.EqualFold(key, "aws:SourceArn") {
					p = append(p, value)
				}
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// matchesARN reports whether an ARN matches the value of a condition.
func matchesARN(value json.RawMessage, arn string) bool {
	return slices.ContainsFunc(patternsOf(value), func(pattern string) bool { return matches(pattern, arn) })
}

// patternsOf returns the patterns in the value of a condition, which is one or a list of them.
func patternsOf(value json.RawMessage) (patterns []string) {
	if json.Unmarshal(value, &patterns) != nil {
		patterns = make([]string, 1)
		_ = json.Unmarshal(value, &patterns[0]) // another type matches nothing
	}
	return patterns
}

// matches reports whether a text matches a pattern in which * stands for any text.
func matches(pattern, text string) bool {
	begin, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, found := strings.CutPrefix(text, begin)
	for ; found && len(text) > 0; text = text[1:] {
		if matches(rest, text) {
			return true
		}
	}
	return found && matches(rest, "")
}
