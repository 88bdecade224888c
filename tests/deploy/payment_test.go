package deploy

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/oncebox/oncebox/examples/payment/stub"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

var payment = builderOf("./examples/payment", "payment", runtime.GOARCH)

// TestPayment deploys examples/payment/stack, and pays through the deployed function. The emulator has the routes of an
// HTTP API and does not serve them. So the test sends the function what API Gateway sends after its authorizer has
// verified a token. TestPaymentStack of tests/stack checks that the route asks for one.
func TestPayment(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	folder := built(t, payment)
	app := synthPayments(t, folder)
	app.deploy(t)
	d := describe(t, app.stack)
	config, err := d.lambda.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{
		FunctionName: &d.resources["AWS::Lambda::Function"][0],
	})
	must(t, err)
	var api stub.API
	server := httptest.NewServer(&api)
	t.Cleanup(server.Close)
	variables := maps.Clone(config.Environment.Variables)
	variables["PAYMENT_API"] = server.URL
	function := start(t, folder, *config.FunctionName, variables)
	const coffee, tea = `{"card":"tok_1","cents":450}`, `{"card":"tok_1","cents":350}`
	for i, c := range []struct {
		key, body string
		status    int
		replayed  string
		want      string // a part of the body
	}{
		{"k-1", coffee, 201, "", `{"charge":"ch_1"}`},
		{"k-1", coffee, 201, "true", `{"charge":"ch_1"}`},
		{"k-1", tea, 422, "", "#key-reused"},
		{"", coffee, 400, "", "#key-missing"},
	} {
		var answer struct {
			StatusCode int
			Headers    map[string]string
			Body       string
		}
		reply := function.invoke(t, paymentEvent(t, c.key, c.body))
		must(t, json.Unmarshal([]byte(reply), &answer))
		replayed := ""
		for name, value := range answer.Headers {
			if strings.EqualFold(name, "Idempotency-Replayed") {
				replayed = value
			}
		}
		if answer.StatusCode != c.status || replayed != c.replayed || !strings.Contains(answer.Body, c.want) {
			t.Errorf("request %d: got %s", i, reply)
		}
	}
	rows, err := d.dynamodb.Scan(t.Context(), &dynamodb.ScanInput{TableName: new(variables["CHARGES"])})
	must(t, err)
	if api.Charges() != 1 || rows.Count != 1 {
		t.Errorf("there are %d charges, and %d rows of charges", api.Charges(), rows.Count)
	}
	app.destroy(t)
}

// synthPayments runs examples/payment/stack in a folder with the built function.
func synthPayments(t *testing.T, function string) assembly {
	t.Helper()
	a, folder := assembly{"payments", t.TempDir()}, t.TempDir()
	must(t, os.CopyFS(filepath.Join(folder, "dist/payment"), os.DirFS(function)))
	program := filepath.Join(folder, "stack")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./examples/payment/stack")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, err := cdk(t, folder, "synth", "--quiet", "--no-version-reporting", "--output", a.dir, "--app", program)
	must(t, err)
	return a
}

// paymentEvent returns the event of a request whose token names ann.
func paymentEvent(t *testing.T, key, body string) string {
	t.Helper()
	type object = map[string]any
	headers := object{"content-type": "application/json", "authorization": "Bearer TOKEN"}
	if key != "" {
		headers["idempotency-key"] = key
	}
	event, err := json.Marshal(object{
		"version": "2.0", "routeKey": "POST /payments", "rawPath": "/payments", "rawQueryString": "",
		"headers": headers, "body": body, "isBase64Encoded": false,
		"requestContext": object{
			"requestId": "r-1", "http": object{"method": "POST", "path": "/payments"},
			"authorizer": object{"jwt": object{"claims": object{"sub": "ann"}, "scopes": nil}},
		},
	})
	must(t, err)
	return string(event)
}
