package full_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

const passwordARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:valkey/orders-a1B2c3"

// secrets imitates Secrets Manager with one secret. It answers only GetSecretValue.
type secrets struct {
	answer string // the body
	status int    // 0: 200
	reads  int
	wrong  []string // requests that it does not know
}

func (s *secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.reads++
	if err != nil || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" ||
		string(body) != `{"SecretId":"`+passwordARN+`"}` ||
		!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/secretsmanager/") { // the region of the ARN
		s.wrong = append(s.wrong, fmt.Sprint(r.Header, string(body), err))
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	_, _ = io.WriteString(w, s.answer) // a reply that is lost fails the test elsewhere
}

func (s *secrets) set(password string) { s.answer = fmt.Sprintf(`{"SecretString":%q}`, password) }

func (s *secrets) refuse(code string) {
	s.status, s.answer = http.StatusBadRequest, `{"__type":"`+code+`"}`
}

// newSecret makes a server with a password, a secret with the password, and a ledger on them. now is the ledger's
// time.
func newSecret(t *testing.T, now *time.Time) (s *secrets, ledger dedupe.Ledger, setPassword func(string)) {
	t.Helper()
	s = &secrets{}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		if len(s.wrong) > 0 {
			t.Errorf("Secrets Manager was asked %v", s.wrong)
		}
	})
	server := testengine.FreshValkey(t)
	admin, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true,
		Dialer: net.Dialer{Timeout: time.Minute}, ConnWriteTimeout: time.Minute,
	})
	must(t, err)
	t.Cleanup(admin.Close)
	setPassword = func(password string) {
		t.Helper()
		for _, command := range []string{"CONFIG SET requirepass " + password, "CLIENT KILL TYPE normal SKIPME yes"} {
			must(t, admin.Do(t.Context(), admin.B().Arbitrary(strings.Fields(command)...).Build()).Error())
		}
	}
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_LEDGER=valkey://" + server.Addr + "?secret-arn=" + passwordARN, "ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique",
		"ONCEBOX_DEAD_LETTERS=dir:failed",
	})
	must(t, err)
	o.Ledger.Valkey.Timeout = time.Minute // test machines are slow
	o.Clock.Now = func() time.Time { return *now }
	opened, err := full.OpenValkey(func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &web.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	}, o)
	must(t, err)
	t.Cleanup(func() { _ = opened.Close() })
	return s, opened, setPassword
}

// enter enters a record. A connection that the server has closed is opened again.
func enter(t *testing.T, ledger dedupe.Ledger) error {
	t.Helper()
	for range 100 {
		answers, err := ledger.Enter(t.Context(), dedupe.Question{
			Scope: "orders", Retention: dedupe.Retention{Window: time.Hour, Horizon: 24 * time.Hour},
			Records: []dedupe.Candidate{{ID: "a", Arrival: time.Now(), Owner: dedupe.Owner{Source: "s", Sequence: "1", Sub: dedupe.Plain}}},
		})
		must(t, err)
		if err = answers[0].Err; !errors.Is(err, dedupe.ErrTryAgain) || strings.Contains(err.Error(), "secret") {
			return err
		}
	}
	return errors.New("the server closes every connection")
}

// TestRotatedPassword: the password is read for new connections. Connections that open within a few seconds share a
// read.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	var now time.Time
	s, ledger, setPassword := newSecret(t, &now)
	setPassword("hunter1")
	s.set("hunter1")
	must(t, enter(t, ledger))
	setPassword("hunter1") // closes the connections
	must(t, enter(t, ledger))
	equal(t, "reads", s.reads, 1)

	setPassword("hunter2")
	s.set(`{"username": "default", "password": "hunter2", "host": "cache"}`)
	if err := enter(t, ledger); err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "hunter") {
		t.Errorf("with the old password: %v", err)
	}
	now = now.Add(10 * time.Second)
	must(t, enter(t, ledger))
	equal(t, "reads", s.reads, 2)
}

// TestSecretIsNotRead: the error names the secret and says what to do. It never contains the content of the secret.
func TestSecretIsNotRead(t *testing.T) {
	t.Parallel()
	var now time.Time
	for says, change := range map[string]func(*secrets){
		"allow its role secretsmanager:GetSecretValue": func(s *secrets) { s.refuse("AccessDeniedException") },
		"there is no such secret":                      func(s *secrets) { s.refuse("ResourceNotFoundException") },
		"have no password":                             func(s *secrets) { s.set(`{"username": "hunter2"}`) },
		"no JSON object":                               func(s *secrets) { s.set(`{"password": "hunter2"`) },
		"secret " + passwordARN:                        func(s *secrets) { s.answer = `{"SecretString": "hunter2"` },
	} {
		s, ledger, _ := newSecret(t, &now)
		change(s)
		err := enter(t, ledger)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), passwordARN) ||
			strings.Contains(err.Error(), "hunter") {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
