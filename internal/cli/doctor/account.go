package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// Account looks at the parts around the functions, with the operator's credentials. It changes nothing.
type Account struct {
	Lambda     Lambda
	Gateway    *apigatewayv2.Client
	Limits     *apigateway.Client // tells the throttle of all APIs of the account; apigatewayv2 does not
	Events     *eventbridge.Client
	CloudWatch *cloudwatch.Client
	Kinesis    *kinesis.Client
	Tables     *dynamodb.Client
	HTTP       http.RoundTripper  // sends requests without credentials to the addresses of APIs
	Stack      *Stack             // nil: the operator has named the functions
	Explain    func(error) string // puts an error of the SDK into plain words
	Report     *Report
}

// mayInvoke reports whether the resource policy of a function allows a service to invoke it for an ARN, or if that is
// empty, for any.
func (c Account) mayInvoke(ctx context.Context, f Function, service, source string) (bool, error) {
	in := &lambda.GetPolicyInput{FunctionName: &f.Name}
	if qualifier := qualifierOf(f.Invoked); qualifier != "" {
		in.Qualifier = &qualifier
	}
	out, err := c.Lambda.GetPolicy(ctx, in)
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var policy struct {
		Statement []struct {
			Effect    string                                `json:"Effect"`
			Principal json.RawMessage                       `json:"Principal"`
			Condition map[string]map[string]json.RawMessage `json:"Condition"`
		} `json:"Statement"`
	}
	if err := json.Unmarshal([]byte(aws.ToString(out.Policy)), &policy); err != nil {
		return false, errors.New("the policy of " + f.Name + " is not understood")
	}
	for _, s := range policy.Statement {
		if s.Effect != "Allow" || !strings.Contains(string(s.Principal), `"`+service+`"`) {
			continue
		}
		allowed := true
		for _, values := range s.Condition {
			for key, value := range values {
				if source != "" && strings.EqualFold(key, "aws:SourceArn") {
					allowed = allowed && matchesARN(value, source)
				}
			}
		}
		if allowed {
			return true, nil
		}
	}
	return false, nil
}

// matchesARN reports whether an ARN matches the value of a condition, which is one pattern or a list of them.
func matchesARN(value json.RawMessage, arn string) bool {
	var patterns []string
	if json.Unmarshal(value, &patterns) != nil {
		patterns = make([]string, 1)
		_ = json.Unmarshal(value, &patterns[0]) // another type matches nothing
	}
	for _, pattern := range patterns {
		if matches(pattern, arn) {
			return true
		}
	}
	return false
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
