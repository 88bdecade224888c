package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// buildDir holds the binaries that the tests of this package share.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "oncebox-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := testengine.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// buildFunction builds a function for an architecture, as it is deployed.
func buildFunction(name, arch string) (bootstrap string, err error) {
	bootstrap = filepath.Join(buildDir, name+"-"+arch, "bootstrap")
	build := exec.Command("../scripts/build-function", "./functions/"+name, arch, bootstrap)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build.Path, err, out)
	}
	return bootstrap, nil
}

// hostBootstrap is the claim function for this machine.
var hostBootstrap = sync.OnceValues(func() (string, error) { return buildFunction("claim", goarch()) })

// hostSweep is the sweep function for this machine.
var hostSweep = sync.OnceValues(func() (string, error) { return buildFunction("sweep", goarch()) })

func goarch() string {
	out, _ := exec.Command("go", "env", "GOHOSTARCH").Output() // the build fails without it
	return strings.TrimSpace(string(out))
}

// function is a function in the Lambda runtime emulator, which takes one invocation at a
// time.
type function struct {
	url string
	log string // file with the output of the function, without the emulator's
}

// launcher runs the function and writes its output to a new file.
const launcher = `#!/bin/sh
exec '%s' >>'%s' 2>&1
`

// startFunction starts the claim function in a new emulator.
func startFunction(t *testing.T, env ...string) *function {
	t.Helper()
	bootstrap, err := hostBootstrap()
	must(t, err)
	return launch(t, bootstrap, t.TempDir(), env...)
}

// launch starts a built function in an emulator and writes its log to the folder dir.
func launch(t *testing.T, bootstrap, dir string, env ...string) *function {
	t.Helper()
	f := &function{log: filepath.Join(dir, "log")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of the function:\n%s", f.output(t))
		}
	})
	script := filepath.Join(dir, "bootstrap")
	must(t, os.WriteFile(script, fmt.Appendf(nil, launcher, bootstrap, f.log), 0o700))
	f.url = testengine.Lambda(t, script, append([]string{
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
	}, env...)...)
	return f
}

// invoke posts an event and returns the status and the reply of the emulator.
func (f *function) invoke(t *testing.T, event []byte) (status int, reply []byte) {
	t.Helper()
	response, err := http.Post(f.url, "application/json", bytes.NewReader(event))
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	reply, err = io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, reply
}

// do posts an event and wants an answer of the function.
func (f *function) do(t *testing.T, event []byte) events.APIGatewayV2HTTPResponse {
	t.Helper()
	var r events.APIGatewayV2HTTPResponse
	status, reply := f.invoke(t, event)
	if err := json.Unmarshal(reply, &r); err != nil || r.StatusCode == 0 {
		t.Fatalf("the function failed: %d %s", status, reply)
	}
	return r
}

// mustFail posts an event whose invocation must fail with ErrNotHTTP.
func (f *function) mustFail(t *testing.T, event []byte) {
	t.Helper()
	_, reply := f.invoke(t, event)
	if !strings.Contains(string(reply), `"errorMessage":"`+claimapi.ErrNotHTTP.Error()) {
		t.Errorf("want a failed invocation, got %s", reply)
	}
}

// answerInTime posts an event until the function answers before its time-out of two seconds, and returns the answer.
// On a busy machine the function sometimes misses its margin of half a second. A function without a margin never
// answers in time.
func (f *function) answerInTime(t *testing.T, event []byte) (reply []byte) {
	t.Helper()
	for range 20 {
		if _, reply = f.invoke(t, event); !strings.Contains(string(reply), "Task timed out") {
			return reply
		}
	}
	t.Fatalf("the function never answered in time: %s", reply)
	return nil
}

func (f *function) output(t *testing.T) string {
	t.Helper()
	out, err := os.ReadFile(f.log)
	must(t, err)
	return string(out)
}

// tables names two tables of one test. All tests share the engine, as do the repetitions of
// -count.
type tables struct{ bank, dedupe string }

var tableSets atomic.Int64

func newTables() tables {
	n := strconv.FormatInt(tableSets.Add(1), 10)
	return tables{"bank-" + n, "dedupe-" + n}
}

// settings returns the variables of the function for the tables at an endpoint.
func (s tables) settings(endpoint, from string) []string {
	env := []string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + endpoint, "ONCEBOX_CLAIMANT_FROM=" + from,
		"ONCEBOX_BANK_TABLE=" + s.bank, "ONCEBOX_DEDUPE_TABLE=" + s.dedupe,
	}
	if from == "body" {
		env = append(env, "ONCEBOX_CALLER=iam")
	}
	return env
}

// linkSettings returns the variables of the function that are needed only for links.
func linkSettings(t *testing.T, from string) []string {
	t.Helper()
	if from != "link" {
		return nil
	}
	return []string{"ONCEBOX_LINK_KEYS=" + eventLinkKeys(t)}
}

// create makes the tables and returns a bank over them, which uses the caller's clock.
func (s tables) create(t *testing.T, endpoint string, options ...itembank.Option) *itembank.Operator {
	t.Helper()
	client := itembankengines.Client(endpoint, nil)
	must(t, dynamostore.CreateTables(t.Context(), client, s.bank, s.dedupe))
	store := dynamostore.New(client, s.bank, s.dedupe)
	return itembank.NewOperator(itembankengines.CallersClock{Store: store}, options...)
}

// TestClaimEventsInTheEmulator gives every event to the built function on dynoxide.
func TestClaimEventsInTheEmulator(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	endpoint, own := testengine.Dynoxide(t), newTables()
	loadCampaigns(t, own.create(t, endpoint))
	for _, from := range []string{"body", "jwt:sub", "iam", "iam:session", "iam:role", "link"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			f := startFunction(t, append(own.settings(endpoint, from), linkSettings(t, from)...)...)
			names := eventNames(from)
			for _, name := range names {
				if eventCases[name].status == notHTTP {
					f.mustFail(t, readEvent(t, name))
					continue
				}
				checkReply(t, readEvent(t, name), f.do(t, readEvent(t, name)), eventCases[name])
			}
			log := f.output(t)
			equal(t, "log lines of requests", strings.Count(log, `"msg":"request","version":"$LATEST"`), len(names))
			for _, private := range []string{"customer-", "team/", "SPRING-", "SUMMER-", "MORNING-", "SEATS-", "EVENING-", "eyJ"} {
				if strings.Contains(log, private) {
					t.Errorf("the log holds %s...:\n%s", private, log)
				}
			}
		})
	}
}

// TestClaimUntilSoldOutInTheEmulator has two items for three claimants, each of whom sends two requests. The log must
// have their metrics at every level.
func TestClaimUntilSoldOutInTheEmulator(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	endpoint, own := testengine.Dynoxide(t), newTables()
	addCampaign(t, own.create(t, endpoint), "spring", itembank.Settings{}, 2)
	f := startFunction(t, append(own.settings(endpoint, "body"),
		"ONCEBOX_METRICS=on", "ONCEBOX_LOG_LEVEL=error", "AWS_LAMBDA_FUNCTION_NAME=claims")...)
	items := map[string]string{} // claimants by item
	for i, want := range []eventCase{{status: 201}, {status: 201}, {status: 409, slug: "sold-out"}} {
		claimant := fmt.Sprintf("customer-%d", i)
		event := claimBy(t, claimant)
		first := f.do(t, event)
		checkReply(t, event, first, want)
		if want.slug != "" {
			continue
		}
		again := f.do(t, event)
		checkReply(t, event, again, eventCase{status: 200})
		equal(t, "item", itemIn(t, again), itemIn(t, first))
		equal(t, "holder of "+itemIn(t, first), items[itemIn(t, first)], "")
		items[itemIn(t, first)] = claimant
	}
	points := emftest.Points(t, []byte(f.output(t)))
	for name, want := range map[string]float64{"Claims": 2, "Repeats": 2, "SoldOut": 1} {
		sum, _ := emftest.Sum(points, name, "")
		equal(t, name, sum, want)
	}
	equal(t, "namespace", points[0].Namespace, "oncebox/claims")
}

// claimBy returns the event claim-body with another claimant.
func claimBy(t *testing.T, claimant string) []byte {
	t.Helper()
	return bytes.ReplaceAll(readEvent(t, "claim-body"), []byte("customer-1"), []byte(claimant))
}

func itemIn(t *testing.T, r events.APIGatewayV2HTTPResponse) string {
	t.Helper()
	var body answerBody
	must(t, json.Unmarshal([]byte(r.Body), &body))
	return body.Item
}

// TestBadSettingsStopTheStart checks that the function does not start, and that its log names
// every wrong setting but no value.
func TestBadSettingsStopTheStart(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	f := startFunction(t, "ONCEBOX_BANK_TABLE=bank", "ONCEBOX_CLAIMANT_FROM=nobody", "ONCEBOX_TABEL=hunter2")
	status, reply := f.invoke(t, readEvent(t, "claim-body"))
	equal(t, "status", status, http.StatusBadGateway) // the emulator's answer to a failed start
	equal(t, "reply", string(reply), "")
	log := f.output(t)
	for _, name := range []string{"ONCEBOX_DEDUPE_TABLE is missing", "ONCEBOX_CLAIMANT_FROM is not", "ONCEBOX_TABEL is not"} {
		if !strings.Contains(log, name) {
			t.Errorf("the log does not say %q: %s", name, log)
		}
	}
	if strings.Contains(log, "hunter2") || strings.Contains(log, "nobody") {
		t.Errorf("the log repeats a value: %s", log)
	}
}

// TestTryAgainWhenTheEngineIsDown uses an endpoint at which nothing listens.
func TestTryAgainWhenTheEngineIsDown(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	f := startFunction(t, newTables().settings("http://"+testengine.Address(t), "body")...)
	for _, name := range []string{"claim-body", "get-claim", "get-campaign"} {
		checkReply(t, readEvent(t, name), f.do(t, readEvent(t, name)), eventCase{status: 503, slug: "try-again"})
	}
}

// TestTryAgainBeforeTheFunctionTimesOut uses an engine that takes requests and never
// answers. The function must answer before Lambda ends it.
func TestTryAgainBeforeTheFunctionTimesOut(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, but no program reads
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	env := append(newTables().settings("http://"+silent.Addr().String(), "body"), "AWS_LAMBDA_FUNCTION_TIMEOUT=2")
	f := startFunction(t, env...)
	event := readEvent(t, "claim-body")
	var answer events.APIGatewayV2HTTPResponse
	must(t, json.Unmarshal(f.answerInTime(t, event), &answer))
	checkReply(t, event, answer, eventCase{status: 503, slug: "try-again"})
}

// TestAMissingTableIsInternal checks that the log names the missing table, which only the
// operator can repair, and that the client gets no details.
func TestAMissingTableIsInternal(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	f := startFunction(t, newTables().settings(testengine.Dynoxide(t), "body")...)
	event := readEvent(t, "claim-body")
	r := f.do(t, event)
	checkReply(t, event, r, eventCase{status: 500, slug: "internal"})
	if strings.Contains(strings.ToLower(r.Body), "table") {
		t.Errorf("the answer mentions a table: %s", r.Body)
	}
	if log := f.output(t); !strings.Contains(log, "table") {
		t.Errorf("the log does not name the table: %s", log)
	}
}
