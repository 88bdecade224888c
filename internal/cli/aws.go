package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/aws/s3files"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/awsclient"
)

var (
	errNoCredentials = errors.New("no AWS credentials")
	errDenied        = errors.New("AWS denies the request")
	errNoTable       = errors.New("no such table")
)

// DynamoClient makes the DynamoDB client. Without credentials every request would fail, so it looks for them first.
func DynamoClient(ctx context.Context) (*dynamodb.Client, error) {
	client, err := NewDynamoClient(ctx)
	if err != nil {
		return nil, err
	}
	return client, CheckDynamoCredentials(ctx, client)
}

// NewDynamoClient makes the DynamoDB client without a look at the credentials.
func NewDynamoClient(ctx context.Context) (*dynamodb.Client, error) {
	return awsclient.NewDynamoDB(ctx, sdkconfig.Load)
}

// CheckDynamoCredentials is CheckCredentials for a client of DynamoDB.
func CheckDynamoCredentials(ctx context.Context, client *dynamodb.Client) error {
	return CheckCredentials(ctx, client.Options().Credentials, dynamo.Local(client))
}

// S3Store makes the client of S3, and looks for credentials as DynamoClient does.
func S3Store(ctx context.Context) (*s3files.Store, error) {
	store, err := s3files.Open(ctx, sdkconfig.Load)
	if err != nil {
		return nil, err
	}
	return store, CheckCredentials(ctx, store.Credentials(), store.Local())
}

// CheckCredentials looks for credentials and says how to give them. local is a client of an engine on this machine.
func CheckCredentials(ctx context.Context, credentials aws.CredentialsProvider, local bool) error {
	_, err := credentials.Retrieve(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	hint := "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in, for example with `aws sso login`."
	if local {
		hint = "A local engine takes any: AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local."
	}
	return WithHint(Plain("there are no AWS credentials, or they cannot be read", errNoCredentials, err), hint)
}

// ExplainAWS puts an error of the SDK into plain words. It returns other errors unchanged.
func (g Globals) ExplainAWS(ctx context.Context, err error) error {
	var operation *smithy.OperationError
	var profile config.SharedConfigProfileNotExistError
	var explained *plainError
	switch {
	case errors.As(err, &explained) || ctx.Err() != nil:
		return err
	case errors.As(err, &profile):
		text := fmt.Sprintf("AWS_PROFILE: there is no profile %q", profile.Profile)
		return WithHint(Plain(text, awsconfig.ErrSettings, err), "`aws configure list-profiles` lists them.")
	case !errors.As(err, &operation):
		return err
	}
	why := g.explainOperation(ctx, operation)
	var cut *cutError
	plain := Plain(why.text, why.kind, err)
	switch {
	case errors.As(err, &cut):
		plain = Stopped(cut.done, plain)
	case errors.Is(err, offline.ErrStopped), operation.Service() == s3.ServiceID: // its text says more
		plain = Plain(strings.Replace(err.Error(), operation.Error(), why.text, 1), why.kind, err)
	}
	if why.hint == "" {
		return plain
	}
	return WithHint(plain, why.hint)
}

// explanation is the reason why a request failed.
type explanation struct {
	text string
	kind error  // one of the errors above, or nil
	hint string // what to do, as a sentence; may be empty
}

// explainOperation returns the reason why a request failed.
func (g Globals) explainOperation(ctx context.Context, operation *smithy.OperationError) explanation {
	request := operation.Service() + " " + operation.Operation()
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	var call *url.Error
	var network net.Error
	switch {
	case errors.As(operation, &missing):
		return g.explainMissingTable(ctx)
	case errors.As(operation, &api) && slices.Contains(expired, api.ErrorCode()):
		return explanation{"the AWS credentials have expired", errNoCredentials, "Get new ones, for example with `aws sso login`."}
	case errors.As(operation, &api) && slices.Contains(unknownKeys, api.ErrorCode()):
		text := fmt.Sprintf("AWS does not accept the credentials (%s)", api.ErrorCode())
		return explanation{text, errNoCredentials, "Check AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."}
	case errors.As(operation, &api) && slices.Contains(denied, api.ErrorCode()):
		text := fmt.Sprintf("AWS denies %s: %s", request, api.ErrorMessage())
		return explanation{text, errDenied, "Ask for the permission, or use other credentials (AWS_PROFILE)."}
	case errors.As(operation, &api):
		hint := ""
		if _, ok := g.Powertools(); ok && api.ErrorCode() == "ValidationException" {
			hint = "Check --store: the keys of the table are key-attr (default id), and sort-key-attr with static-pk-value."
		}
		return explanation{fmt.Sprintf("%s: %s: %s", request, api.ErrorCode(), api.ErrorMessage()), nil, hint}
	case errors.As(operation, &call):
		endpoint := strings.TrimSuffix(call.URL, "/")
		return explanation{fmt.Sprintf("%s at %s cannot be reached: %s", operation.Service(), endpoint, ReasonOf(call)), nil, ""}
	case errors.As(operation, &network) && network.Timeout(), errors.Is(operation, context.DeadlineExceeded):
		return explanation{request + ": no answer in time", nil, ""}
	}
	return explanation{request + " failed; --log-level debug shows the details", nil, ""}
}

// These are codes of errors that a repeated request cannot cure (IAM User Guide, "Troubleshoot access denied error
// messages"; "Common Errors" in the API references).
var (
	expired     = []string{"ExpiredTokenException", "ExpiredToken", "RequestExpired"}
	unknownKeys = []string{
		"UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "InvalidSignatureException",
		"SignatureDoesNotMatch", "IncompleteSignature", "IncompleteSignatureException", "MissingAuthenticationToken",
		"MissingAuthenticationTokenException",
	}
	denied = []string{"AccessDeniedException", "AccessDenied", "OptInRequired", "SubscriptionRequiredException"}
)

// ReasonOf returns the last error of a failed connection, such as "connection refused".
func ReasonOf(call *url.Error) string {
	if call.Timeout() {
		return "no answer in time"
	}
	err := call.Err
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// explainMissingTable finds out which of the tables is missing.
func (g Globals) explainMissingTable(ctx context.Context) explanation {
	tables, checkRegion := []string{g.BankTable, g.DedupeTable}, "Check --bank-table, --dedupe-table and AWS_REGION, or "+
		"make the tables: oncebox --store dynamodb: init."
	if _, ok := g.Powertools(); ok {
		table, _, _ := powertoolsTable(g.Store) // it was read before
		tables, checkRegion = []string{table}, "Check the table in --store, and AWS_REGION."
	}
	client, err := DynamoClient(ctx)
	if err != nil {
		return explanation{"a DynamoDB table does not exist", errNoTable, checkRegion}
	}
	var missing []string
	for _, table := range tables {
		_, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		if errors.As(err, new(*types.ResourceNotFoundException)) {
			missing = append(missing, table)
		}
	}
	where := "in the region " + client.Options().Region
	if endpoint := client.Options().BaseEndpoint; endpoint != nil {
		where = "at " + *endpoint
	}
	switch len(missing) {
	case 0:
		return explanation{"a DynamoDB table does not exist " + where, errNoTable, checkRegion}
	case 1:
		return explanation{fmt.Sprintf("the DynamoDB table %s does not exist %s", missing[0], where), errNoTable, checkRegion}
	}
	text := fmt.Sprintf("the DynamoDB tables %s do not exist %s", strings.Join(missing, " and "), where)
	return explanation{text, errNoTable, checkRegion}
}
