package infra

import (
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"

	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

func (p RecordDedupeProps) hasValkey() bool { return strings.HasPrefix(p.Rules.Ledger, "valkey") }

// onlyInVPC matches the names of servers of ElastiCache and MemoryDB, which can be reached only from their VPC. Other
// servers may be anywhere.
var onlyInVPC = regexp.MustCompile(`\.(cache|memorydb\.[a-z0-9-]+)\.amazonaws\.com(\.cn)?:`)

// checkServers refuses servers that the function could not reach without a VPC. o holds the settings as the function
// reads them.
func (p RecordDedupeProps) checkServers(wrong *problems, o kinesishandler.Options) {
	subnets, groups := wrong.of("Subnets"), wrong.of("SecurityGroups")
	valkey := o.Ledger.Valkey
	if valkey == nil || len(p.Function.Subnets) > 0 {
		return
	}
	servers := valkey.Addresses
	if valkey.Previous != nil {
		servers = slices.Concat(servers, valkey.Previous.Addresses)
	}
	if i := slices.IndexFunc(servers, onlyInVPC.MatchString); i >= 0 {
		wrong.add("%s is missing: %s is reached from its VPC only; set %s and %s", subnets, servers[i], subnets, groups)
	}
}

// checkSecret refuses a secret whose complete ARN is not known, because a policy with a part of the ARN allows
// unset.
func (p RecordDedupeProps) checkSecret(wrong *problems) {
	if p.LedgerSecret != nil && p.LedgerSecret.SecretFullArn() == nil {
		wrong.add("%s has no complete ARN; import it with its six random characters", wrong.of("LedgerSecret"))
	}
}

// secretARN returns the ARN of a secret as the value of a variable, or "" without a secret.
func secretARN(secret awssecretsmanager.ISecret) string {
	if secret == nil {
		return ""
	}
	return *secret.SecretArn()
}

// secretToCheck is secretARN with a stand-in for an ARN that only the deployment knows.
func secretToCheck(secret awssecretsmanager.ISecret) string {
	arn := secretARN(secret)
	if *awscdk.Token_IsUnresolved(arn) {
		return "arn:aws:secretsmanager:us-east-1:123456789012:secret:stand-in-XXXXXX"
	}
	return arn
}
