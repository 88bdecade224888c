package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// trace makes Lambda send traces of some invocations to X-Ray.
func (p FunctionProps) trace(function awslambda.CfnFunction) {
	if p.Tracing {
		function.SetTracingConfig(&awslambda.CfnFunction_TracingConfigProperty{Mode: jsii.String("Active")})
	}
}
