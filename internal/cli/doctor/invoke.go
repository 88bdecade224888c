package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
)

// invocationError is a failure of a function, or an unexpected answer.
type invocationError struct {
	what string
	log  string // the error in the log of the invocation; "" if the log has none
}

func (e *invocationError) Error() string {
	if strings.Contains(e.what, e.log) {
		return e.what
	}
	return e.what + "; its log says: " + e.log
}

// invoke invokes a function with an event. It returns the reply, and the error in the log of the invocation, or "".
func (f Function) invoke(ctx context.Context, client Lambda, event any) (reply []byte, log string, err error) {
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, "", err
	}
	out, err := client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &f.Invoked, Payload: payload, LogType: types.LogTypeTail,
	})
	if err != nil {
		return nil, "", f.invokeError(err)
	}
	log = errorIn(aws.ToString(out.LogResult))
	if out.FunctionError != nil {
		return nil, log, &invocationError{fmt.Sprintf("the %s function failed: %s", f.Kind, messageOf(out.Payload)), log}
	}
	return out.Payload, log, nil
}

// notRun lists the beginnings of the error codes that mean that Lambda cannot run a function (API reference,
// "Invoke"): it cannot decrypt the variables, cannot use the network, or runs too many functions at once.
var notRun = []string{"KMS", "EC2", "ENI", "Subnet", "ResourceNotReady", "TooManyRequests"}

// invokeError separates an error about the function from an error about the operator's request.
func (f Function) invokeError(err error) error {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || !slices.ContainsFunc(notRun, func(begin string) bool { return strings.HasPrefix(api.ErrorCode(), begin) }) {
		return operatorError(err)
	}
	what := fmt.Sprintf("Lambda did not run the %s function: %s: %s", f.Kind, api.ErrorCode(), api.ErrorMessage())
	if strings.HasPrefix(api.ErrorCode(), "TooManyRequests") {
		what += "; its reserved concurrency, or that of the account, is used up or 0"
	}
	return &invocationError{what: what}
}

// errorIn returns the last error in the log of an invocation. Lambda returns the last 4 KB of the log. An error about
// a permission comes first, because it causes others. Lambda's own lines are JSON, too, but have no member error.
func errorIn(tail string) (text string) {
	content, err := base64.StdEncoding.DecodeString(tail)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		var entry struct {
			Error string `json:"error"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Error != "" && !strings.Contains(text, denied) {
			text = withoutChain(entry.Error)
		}
	}
	return text
}

// withoutChain removes the SDK's own text in front of a service's answer.
func withoutChain(text string) string {
	if _, answer, ok := strings.Cut(text, "api error "); ok {
		return answer
	}
	return text
}

// denied is part of all services' codes for a request that a policy does not allow.
const denied = "AccessDenied"

// messageOf returns the message of a failed invocation.
func messageOf(payload []byte) string {
	var failure struct {
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal(payload, &failure) != nil || failure.Message == "" {
		return string(payload)
	}
	return withoutChain(failure.Message)
}

var errNotExpected = errors.New("not the answer that was expected")
