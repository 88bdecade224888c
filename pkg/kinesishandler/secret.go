package kinesishandler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/oncebox/oncebox/internal/awsconfig"
	"github.com/oncebox/oncebox/internal/awserror"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/valkeystore"
)

const (
	// secretTimeout limits an attempt to read a secret. Two attempts fit into valkeystore's time for a connection.
	secretTimeout = 2 * time.Second
	// secretLife is how long a password that was read is used for further connections. A process opens many
	// connections at once, and must soon use the new password after a rotation.
	secretLife = 10 * time.Second
)

// secretForm is the form of an ARN of Secrets Manager. It ends in six characters that are not part of the name. A
// policy for an ARN without them allows nothing.
const secretForm = "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-XXXXXX"

// regionOfSecret returns the region in the ARN of a secret, or "" if a text is not such an ARN.
func regionOfSecret(arn string) string {
	const random = len("-XXXXXX")
	secret, ok := resourceARN(arn, "secretsmanager")
	name, isSecret := strings.CutPrefix(secret.Name, "secret:")
	if !ok || !isSecret || secret.Account == "" || len(name) <= random || name[len(name)-random] != '-' {
		return ""
	}
	return secret.Region
}

// secretPassword is a password of Valkey in AWS Secrets Manager.
type secretPassword struct {
	client *secretsmanager.Client
	arn    string
	now    func() time.Time

	mu    sync.Mutex
	value valkeystore.Credentials
	until time.Time // when value expires
}

func openSecret(
	ctx context.Context, load func(context.Context) (aws.Config, error), arn string, clock dedupe.Clock,
) (*secretPassword, error) {
	cfg, err := awsconfig.Load(ctx, load, secretTimeout, nil)
	if err != nil {
		return nil, err
	}
	client := secretsmanager.NewFromConfig(cfg, func(o *secretsmanager.Options) { o.Region = regionOfSecret(arn) })
	return &secretPassword{client: client, arn: arn, now: clock.OrReal().Now}, nil
}

// read returns the password. Connections that are opened at the same time wait for one request.
func (s *secretPassword) read(ctx context.Context) (valkeystore.Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Before(s.until) {
		return s.value, nil
	}
	out, err := s.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &s.arn})
	if err != nil {
		return valkeystore.Credentials{}, fmt.Errorf("read the secret %s: %s%w", s.arn, secretAdvice[awserror.Code(err)], err)
	}
	value, err := valkeystore.ParseCredentials([]byte(aws.ToString(out.SecretString)))
	if err != nil {
		return valkeystore.Credentials{}, fmt.Errorf("read the secret %s: %w", s.arn, err)
	}
	s.value, s.until = value, s.now().Add(secretLife)
	return value, nil
}

// secretAdvice says what to do about errors of Secrets Manager, by code (API reference, GetSecretValue).
var secretAdvice = map[string]string{
	"AccessDeniedException": "the function may not read it: allow its role secretsmanager:GetSecretValue on this ARN, and " +
		"kms:Decrypt on the key of the secret if that is one of yours: ",
	"ResourceNotFoundException": "there is no such secret: name the ARN of one that has a value: ",
}
