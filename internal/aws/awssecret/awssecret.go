// Package awssecret reads secrets of AWS Secrets Manager.
package awssecret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/internal/aws/awsconfig"
	"github.com/oncebox/oncebox/internal/aws/awserror"
)

// timeout limits an attempt. Two attempts fit into valkeystore's time for a connection.
const timeout = 2 * time.Second

// Secret is a secret that is read again when its value is old. It is safe for concurrent use.
type Secret[Value any] struct {
	ARN   string // see arn.Secret
	Load  func(context.Context) (aws.Config, error)
	Life  time.Duration // how long a value is used: short, because a secret can be rotated
	Now   func() time.Time
	Parse func(text []byte) (Value, error) // an error must not have the text

	mu     sync.Mutex
	client *secretsmanager.Client
	value  Value
	until  time.Time
}

// textLife is how long a text is used before it is read again.
const textLife = time.Minute

// Texts returns a function that returns the reader of the secret with an ARN, which is a text.
func Texts(load func(context.Context) (aws.Config, error)) func(arn string) func(context.Context) (string, error) {
	return func(arn string) func(context.Context) (string, error) {
		secret := &Secret[string]{ARN: arn, Load: load, Life: textLife, Now: time.Now, Parse: parseText}
		return secret.Read
	}
}

// parseText parses a secret that is a text.
func parseText(text []byte) (string, error) {
	if value := strings.TrimSpace(string(text)); value != "" {
		return value, nil
	}
	return "", errors.New("it has no text")
}

// advice says what to do about errors of Secrets Manager, by code (API reference, GetSecretValue).
var advice = map[string]string{
	"AccessDeniedException": "the function may not read it: allow its role secretsmanager:GetSecretValue on this ARN, and " +
		"kms:Decrypt on the key of the secret if that is one of yours: ",
	"ResourceNotFoundException": "there is no such secret: name the ARN of one that has a value: ",
}

// load returns the settings for the region of the secret, whatever the region of the process is.
func (s *Secret[Value]) load(ctx context.Context) (aws.Config, error) {
	cfg, err := s.Load(ctx)
	secret, _ := arn.Secret(s.ARN)
	cfg.Region = secret.Region
	return cfg, err
}

// Read returns the value. The first call makes the client. Calls at the same time wait for one request.
func (s *Secret[Value]) Read(ctx context.Context) (value Value, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Now().Before(s.until) {
		return s.value, nil
	}
	if s.client == nil {
		cfg, err := awsconfig.Load(ctx, s.load, timeout, nil)
		if err != nil {
			return value, err
		}
		s.client = secretsmanager.NewFromConfig(cfg)
	}
	out, err := s.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &s.ARN})
	if err != nil {
		return value, fmt.Errorf("read the secret %s: %s%w", s.ARN, advice[awserror.Code(err)], err)
	}
	if value, err = s.Parse([]byte(aws.ToString(out.SecretString))); err != nil {
		return value, fmt.Errorf("read the secret %s: %w", s.ARN, err)
	}
	s.value, s.until = value, s.Now().Add(s.Life)
	return value, nil
}
