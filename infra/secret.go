package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/shared/address"
)

// A secretAddress is a setting with an address that may need a secret: a secret of the app, in a prop of its own, or the
// one that the option secret-arn names.
type secretAddress struct {
	field, address string
	prop           string
	of             awssecretsmanager.ISecret
	takes          bool // an address of this kind may have a secret
}

// These are options of addresses.
const (
	optionSecret       = "secret-arn"
	optionSecretFile   = "secret-file"
	optionPasswordFile = "password-file"
)

// named returns the ARN of the secret that the address names, or "".
func (s secretAddress) named() string { return address.Parse(s.address).Text(optionSecret) }

// check refuses a secret whose complete ARN is not known, because a policy with a part of the ARN allows nothing, two
// secrets, a secret that nothing reads, and a file.
func (s secretAddress) check(wrong *problems) {
	if s.of != nil && !s.takes {
		wrong.add("%s is set, but %s names nothing that has a secret; leave it out", s.prop, wrong.of(s.field))
	} else if s.of != nil && s.of.SecretFullArn() == nil {
		wrong.add("%s has no complete ARN; import it with its six random characters", s.prop)
	}
	for _, option := range []string{optionPasswordFile, optionSecretFile} {
		if s.takes && address.Parse(s.address).Text(option) != "" {
			wrong.add("%s: option %s: a function on Lambda has only the files of its code; name a secret with %s",
				wrong.of(s.field), option, optionSecret)
		}
	}
	if s.named() != "" && s.of != nil {
		wrong.add("%s has the option %s, and %s is set; choose one", wrong.of(s.field), optionSecret, s.prop)
	}
}

// secret returns the secret, or nil. One that the address names is imported, with its key.
func (s secretAddress) secret(scope constructs.Construct, id string, key awskms.IKey) awssecretsmanager.ISecret {
	arn := s.named()
	if arn == "" {
		return s.of
	}
	return awssecretsmanager.Secret_FromSecretAttributes(scope, jsii.String(id),
		&awssecretsmanager.SecretAttributes{SecretCompleteArn: &arn, EncryptionKey: key})
}

// with returns the address, with the ARN of its secret.
func (s secretAddress) with(secretARN string) string {
	if secretARN == "" || s.named() != "" || !s.takes {
		return s.address
	}
	return address.With(s.address, optionSecret, secretARN)
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
