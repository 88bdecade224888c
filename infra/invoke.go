package infra

import (
	"errors"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"
)

// GrantInvoke allows a principal, for example the role of a back end, to call the API. The API must have [AuthIAM].
// Other APIs do not check policies, so GrantInvoke returns an error for them. The principal must be in the API's
// account: HTTP APIs have no resource policies (API Gateway Developer Guide, "Control access to HTTP APIs with IAM
// authorization"). Principals of other accounts must assume a role in that account.
func (c *ClaimAPI) GrantInvoke(grantee awsiam.IGrantable) (awsiam.Grant, error) {
	if c.auth != AuthIAM {
		return nil, errors.New("GrantInvoke needs Auth=iam; an API with Auth=" + string(c.auth) + " does not look at policies")
	}
	api := awscdk.Stack_Of(c.Construct).FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("execute-api"), Resource: c.API.ApiId(), ResourceName: jsii.String("$default/*"),
	})
	return awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{
		Grantee: grantee, Actions: jsii.Strings("execute-api:Invoke"), ResourceArns: &[]*string{api},
	}), nil
}
