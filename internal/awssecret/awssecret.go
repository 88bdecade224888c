// Package awssecret reads a secret of AWS Secrets Manager.
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

	"github.com/oncebox/oncebox/internal/awsconfig"
)

const (
	timeout = 2 * time.Second // for an attempt
	life    = time.Minute     // how long a value is used: short, because a secret can be rotated
)

// Reader returns a function that reads the text of a secret by its ARN, and uses it for a minute. The first call
// makes the client. The function is safe for concurrent use.
func Reader(load func(context.Context) (aws.Config, error), arn string) func(context.Context) (string, error) {
	var mu sync.Mutex
	var client *secretsmanager.Client
	var value string
	var until time.Time
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			return value, nil
		}
		if client == nil {
			cfg, err := awsconfig.Load(ctx, load, timeout, nil)
			if err != nil {
				return "", err
			}
			client = secretsmanager.NewFromConfig(cfg, func(o *secretsmanager.Options) { o.Region = Region(arn) })
		}
		out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &arn})
		if err != nil {
			return "", fmt.Errorf("read the secret %s: %w", arn, err)
		}
		if value = strings.TrimSpace(aws.ToString(out.SecretString)); value == "" {
			return "", errors.New("the secret " + arn + " has no text")
		}
		until = time.Now().Add(life)
		return value, nil
	}
}

// Region returns the region in the ARN of a secret, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-XXXXXX. It
// returns "" for any other text.
func Region(arn string) string {
	const fields, service, region, kind, name = 7, 2, 3, 5, 6
	part := strings.SplitN(arn, ":", fields)
	if len(part) < fields || part[0] != "arn" || part[service] != "secretsmanager" || part[kind] != "secret" || part[name] == "" {
		return ""
	}
	return part[region]
}
