package awssecret

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

const secretARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:turnstile-a1B2c3"

// manager is Secrets Manager with one secret.
type manager struct {
	*testing.T
	status int
	answer string
	reads  int
}

func (m *manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.reads++
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || string(body) != `{"SecretId":"`+secretARN+`"}` ||
		!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/secretsmanager/") { // the region of the ARN
		m.Errorf("Secrets Manager was asked %v %s", r.Header, body)
	}
	w.WriteHeader(m.status)
	_, _ = io.WriteString(w, m.answer) // a lost reply fails the test elsewhere
}

// TestReader checks that errors name the secret without its text and are not kept, and that a value is kept.
func TestReader(t *testing.T) {
	t.Parallel()
	m := &manager{T: t}
	web := httptest.NewServer(m)
	t.Cleanup(web.Close)
	now := time.Now()
	secret := &Secret[string]{ARN: secretARN, Life: time.Minute, Now: func() time.Time { return now }, Parse: parseText}
	secret.Load = func(context.Context) (aws.Config, error) {
		return aws.Config{ // without a region
			BaseEndpoint: &web.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	}
	read := secret.Read
	for _, failure := range []struct {
		status       int
		answer, says string
	}{
		{http.StatusBadRequest, `{"__type":"AccessDeniedException"}`, "AccessDeniedException"},
		{http.StatusBadRequest, `{"__type":"ResourceNotFoundException"}`, "ResourceNotFoundException"},
		{http.StatusOK, `{"SecretBinary":"aHVudGVyMg=="}`, "has no text"},
		{http.StatusOK, `{"SecretString":" \n"}`, "has no text"},
		{http.StatusOK, `{"SecretString":"hunter2`, "deserialization failed"},
	} {
		m.status, m.answer = failure.status, failure.answer
		value, err := read(t.Context())
		if value != "" || err == nil || !strings.Contains(err.Error(), failure.says) || !strings.Contains(err.Error(), secretARN) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %q and %v", failure.answer, value, err)
		}
	}
	m.reads, m.answer = 0, `{"SecretString":"hunter2\n"}`
	for range 2 {
		if value, err := read(t.Context()); value != "hunter2" || err != nil {
			t.Errorf("got %q and %v", value, err)
		}
	}
	if now = now.Add(time.Minute); m.reads != 1 {
		t.Errorf("the secret was read %d times", m.reads)
	}
	m.answer = `{"SecretString":"rotated"}`
	if value, err := read(t.Context()); value != "rotated" || err != nil {
		t.Errorf("after a minute: got %q and %v", value, err)
	}
}
