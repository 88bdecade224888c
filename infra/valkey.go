package infra

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/address"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

func (p RecordDedupeProps) hasValkey() bool {
	return slices.Contains([]string{"valkey", "valkeys"}, address.Scheme(p.Settings.Ledger))
}

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

// optionSecret is the option of a Valkey ledger that names the secret with its password.
const optionSecret = "secret-arn"

// namedSecret returns the ARN of the secret that the address of the ledger names, or "".
func (p RecordDedupeProps) namedSecret() string {
	return address.Parse(p.Settings.Ledger).Text(optionSecret)
}

// checkSecret refuses a secret whose complete ARN is not known, because a policy with a part of the ARN allows nothing,
// and two secrets.
func (p RecordDedupeProps) checkSecret(wrong *problems) {
	if p.LedgerSecret != nil && p.LedgerSecret.SecretFullArn() == nil {
		wrong.add("%s has no complete ARN; import it with its six random characters", wrong.of("LedgerSecret"))
	}
	if address.Parse(p.Settings.Ledger).Text("password-file") != "" {
		wrong.add("%s: option password-file: a function on Lambda has only the files of its code; name a secret with %s",
			wrong.of("Ledger"), optionSecret)
	}
	if p.namedSecret() != "" && p.LedgerSecret != nil {
		wrong.add("%s has the option %s, and %s is set; choose one", wrong.of("Ledger"), optionSecret, wrong.of("LedgerSecret"))
	}
}

// ledgerSecret returns the secret with the password, or nil. One that the address names is imported.
func (p RecordDedupeProps) ledgerSecret(scope constructs.Construct) awssecretsmanager.ISecret {
	arn := p.namedSecret()
	if arn == "" {
		return p.LedgerSecret
	}
	return awssecretsmanager.Secret_FromSecretAttributes(scope, jsii.String("LedgerSecret"),
		&awssecretsmanager.SecretAttributes{SecretCompleteArn: &arn, EncryptionKey: p.EncryptionKey})
}

// ledgerAddress returns the value of ONCEBOX_LEDGER: the address of the ledger, with the ARN of its secret.
func (p RecordDedupeProps) ledgerAddress(secretARN string) string {
	if secretARN == "" || p.namedSecret() != "" {
		return p.Settings.Ledger
	}
	return address.With(cmp.Or(p.Settings.Ledger, dynamostore.OwnLedger), optionSecret, secretARN)
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
