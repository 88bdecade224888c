package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// checkConcurrency refuses values with which the function could not run.
func (p FunctionProps) checkConcurrency(wrong *problems) {
	if n := p.ReservedConcurrency; n != nil && *n < 1 {
		wrong.add("%s is %d, which stops the function; choose at least 1, or leave it out",
			wrong.of("ReservedConcurrency"), *n)
	}
}

func (p FunctionProps) reserve(function awslambda.CfnFunction) {
	if p.ReservedConcurrency != nil {
		function.SetReservedConcurrentExecutions(jsii.Number(*p.ReservedConcurrency))
	}
}
