package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

// checkVPC refuses subnets without security groups, and the reverse.
func (p FunctionProps) checkVPC(wrong *problems) {
	if (len(p.Subnets) == 0) != (len(p.SecurityGroups) == 0) {
		wrong.add("%s and %s belong together: Lambda needs both to put a function into a VPC; set both, or none",
			wrong.of("Subnets"), wrong.of("SecurityGroups"))
	}
}

// joinVPC puts the function into the VPC of the props. Without subnets it changes nothing.
func (p FunctionProps) joinVPC(function awslambda.CfnFunction) {
	if len(p.Subnets) == 0 {
		return
	}
	var subnets, groups []*string
	for _, s := range p.Subnets {
		subnets = append(subnets, s.SubnetId())
	}
	for _, g := range p.SecurityGroups {
		groups = append(groups, g.SecurityGroupId())
	}
	function.SetVpcConfig(&awslambda.CfnFunction_VpcConfigProperty{SubnetIds: &subnets, SecurityGroupIds: &groups})
}
