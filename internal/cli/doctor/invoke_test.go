package doctor

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
)

const deniedChain = "dynamodb: close claim: operation error DynamoDB: TransactWriteItems, https response error " +
	"StatusCode: 400, RequestID: 1, api error AccessDeniedException: User: function is not authorized"

// TestErrorInTheLog checks that the report has the error of the function, whatever else is in the last 4 KB of its
// log.
func TestErrorInTheLog(t *testing.T) {
	t.Parallel()
	const (
		started  = `{"time":"2026-11-23T00:00:00.000Z","type":"platform.start","record":{"requestId":"1","version":"7"}}`
		reported = `{"time":"2026-11-23T00:00:00.010Z","type":"platform.report","record":{"status":"success"}}`
		request  = `{"level":"INFO","msg":"request","status":409}`
		first    = `{"level":"ERROR","msg":"request","error":"the first"}`
		last     = `{"level":"ERROR","msg":"request","error":"the last"}`
		denied   = `{"level":"ERROR","msg":"request","error":"` + deniedChain + `"}`
		answer   = "AccessDeniedException: User: function is not authorized"
	)
	for name, c := range map[string]struct {
		log  []string
		want string
	}{
		"JSON lines of Lambda":        {[]string{started, first, reported}, "the first"},
		"text lines of Lambda":        {[]string{"START RequestId: 1 Version: 7", first, "REPORT RequestId: 1"}, "the first"},
		"the last error":              {[]string{first, last, request}, "the last"},
		"a permission counts more":    {[]string{denied, last}, answer},
		"cut in the first line":       {[]string{`ror":"cut"}`, last}, "the last"},
		"no error":                    {[]string{started, request, reported}, ""},
		"another member named error":  {[]string{`{"error":{"code":1}}`, last}, "the last"},
		"nothing, as with no LogType": {nil, ""},
	} {
		tail := base64.StdEncoding.EncodeToString([]byte(strings.Join(c.log, "\n")))
		if got := errorIn(tail); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}

func TestErrorIsSaidOnce(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"it failed": &invocationError{"it failed", ""},
		"the sweep function failed: AccessDeniedException: no": &invocationError{
			"the sweep function failed: AccessDeniedException: no", "AccessDeniedException: no",
		},
		"the claim function answered 500; its log says: no": &invocationError{"the claim function answered 500", "no"},
	} {
		if err.Error() != want {
			t.Errorf("want %q, got %q", want, err)
		}
	}
}

// TestWhoseError checks that an error of Lambda about the function does not count as a permission that the operator
// lacks.
func TestWhoseError(t *testing.T) {
	t.Parallel()
	f := Function{Kind: Claim, Name: "claims"}
	for code, operators := range map[string]bool{
		"AccessDeniedException": true, "ResourceNotFoundException": true, "ExpiredTokenException": true,
		"TooManyRequestsException": false, "KMSAccessDeniedException": false, "SubnetIPAddressLimitReachedException": false,
		"EC2AccessDeniedException": false, "ENILimitReachedException": false,
	} {
		err := f.invokeError(&smithy.GenericAPIError{Code: code, Message: "no"})
		if _, ok := errors.AsType[*ownError](err); ok != operators {
			t.Errorf("%s: is the operator's: %t, want %t", code, ok, operators)
		}
		if text := err.Error(); !strings.Contains(text, code) {
			t.Errorf("%s: %s", code, text)
		}
	}
	err := f.invokeError(&smithy.GenericAPIError{Code: "TooManyRequestsException"})
	if !strings.Contains(err.Error(), "reserved concurrency") {
		t.Errorf("got %v", err)
	}
}

func TestWhatToDo(t *testing.T) {
	t.Parallel()
	needs := may(Claim, bankTable, "bank", "Query")
	const row = "The step needs claim: dynamodb:Query on the bank table, leading keys `bank#*`."
	for err, want := range map[error]string{
		errors.New(deniedChain): "Compare the policy of the function's role with docs/iam.md. " + row,
		errNotExpected: "If the log of the function has AccessDenied, " +
			"compare the policy of its role with docs/iam.md. " + row,
		operatorError(errNotExpected): "Doctor sent this request with your credentials. " +
			`docs/iam.md, "Try the permissions", lists what it needs.`,
	} {
		if got := doOf(err, needs); got != want {
			t.Errorf("%v:\nwant %s\ngot  %s", err, want, got)
		}
	}
}
