package arn_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/aws/arn"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, ok := arn.Parse("arn:aws-us-gov:kinesis:eu-west-1:123456789012:stream/a:b")
	if want := (arn.ARN{Service: "kinesis", Region: "eu-west-1", Account: "123456789012", Resource: "stream/a:b"}); !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, text := range []string{"", "orders", "arn:aws:sqs:eu-west-1:123456789012", "arn:aws:sqs:eu-west-1:123456789012:", "urn:aws:sqs:a:b:c", "arn:aws::a:b:c"} {
		if got, ok := arn.Parse(text); ok {
			t.Errorf("%q: got %+v", text, got)
		}
	}
	if _, ok := arn.Of("sqs", "arn:aws:sns:eu-west-1:123456789012:a"); ok {
		t.Error("a topic is a queue")
	}
}

// TestSecret: only the complete ARN of a secret is one.
func TestSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"arn:aws:secretsmanager:eu-west-1:123456789012:secret:valkey-a1B2c3":       true,
		"arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:x-a1B2c3": true,
		"arn:aws:secretsmanager:eu-west-1:123456789012:secret:a b-a1B2c3":          false,
		"arn:aws:secretsmanager:eu-west-1:1234:secret:a-a1B2c3":                    false,
		"arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-pass-1":           false,
		"arn:foo:secretsmanager:eu-west-1:123456789012:secret:x-a1B2c3":            false,
		"valkey/orders": false, "arn:aws:secretsmanager:eu-west-1:123456789012:secret:-a1B2c3": false,
		"arn:aws:secretsmanager:eu-west-1:123456789012:secret:valkey": false, "arn:aws:sqs:eu-west-1:123456789012:secret:x-a1B2c3": false,
		"arn:aws:secretsmanager::123456789012:secret:x-a1B2c3": false, "arn:aws:secretsmanager:eu-west-1::secret:x-a1B2c3": false,
	} {
		if got, ok := arn.Secret(text); ok != want {
			t.Errorf("%s: got %+v, %t", text, got, ok)
		}
	}
}
