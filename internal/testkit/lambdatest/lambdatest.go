// Package lambdatest serves the API of Lambda, the part of CloudFormation that lists a stack, and what other services tell
// about a stack, for functions of a test. Emulators of Lambda need a container engine.
package lambdatest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Function is a function of a test.
type Function struct {
	Env         map[string]string
	Description string
	// Latest are the variables of the function itself while a deployment changes it. Env are the variables of the
	// version that the alias points to. If Latest is nil, the function itself has the variables in Env, too.
	Latest map[string]string
	// Invoke handles an event. It returns the reply, which has an errorMessage if the invocation failed, and the log
	// of the invocation. Only one call runs at a time.
	Invoke    func(event []byte) (reply, log []byte)
	Stream    string // the ARN of the stream that an event source mapping reads; "": the function has no mapping
	State     string // the state of the mapping; "": Enabled
	Window    int    // how long the mapping gathers a batch, in seconds
	GivenUp   string // the destination of batches that the mapping gives up; "": a bucket; none: it has none
	RecordAge int    // the record age of the mapping, in seconds; 0: 483840; -1: no limit
	Filter    string // the pattern of a filter of the mapping; "": it has none
	Alias     string // an alias in the stack, which the mapping calls; "": the mapping calls the function
	// Canary holds other versions that the alias points to, with their shares. The alias also points to version 7.
	Canary map[string]float64
	// CanaryEnv are the variables of these versions. If it is nil, they have the variables in Env, too.
	CanaryEnv map[string]string
	Hidden    string // the reason why the caller may not read the variables; "": the caller may
	Parts
	mu sync.Mutex
}

// tailSize is the size of the part of a log that Lambda returns (API reference, "Invoke", LogType).
const tailSize = 4 << 10

// Serve serves functions by their names, and a stack of these functions. It returns the endpoint of both services.
func Serve(t testing.TB, stack string, functions map[string]*Function) (endpoint string) {
	t.Helper()
	mux := http.NewServeMux()
	of := func(w http.ResponseWriter, r *http.Request) (f *Function, name, alias string) {
		name, alias, _ = strings.Cut(nameOf(r.PathValue("name")), ":")
		f = functions[name]
		if f == nil || alias != "" && alias != f.Alias && !f.isCanary(alias) {
			w.Header().Set("X-Amzn-ErrorType", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			answer(w, map[string]string{"Message": "Function not found: " + name})
			return nil, "", ""
		}
		return f, name, alias
	}
	mux.HandleFunc("POST /2015-03-31/functions/{name}/invocations", func(w http.ResponseWriter, r *http.Request) {
		switch f, _, alias := of(w, r); {
		case f != nil && f.Latest != nil && alias == "":
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			answer(w, map[string]string{"errorMessage": "Runtime exited with error: exit status 1"})
		case f != nil:
			f.serve(w, r)
		}
	})
	mux.HandleFunc("GET /2015-03-31/functions/{name}/configuration", func(w http.ResponseWriter, r *http.Request) {
		if f, name, alias := of(w, r); f != nil {
			answer(w, f.configuration(name, alias))
		}
	})
	mux.HandleFunc("GET /2015-03-31/functions/{name}/aliases/{alias}", func(w http.ResponseWriter, r *http.Request) {
		if f, name, _ := of(w, r); f != nil && r.PathValue("alias") == f.Alias {
			answer(w, map[string]any{
				"AliasArn": arn(name, f.Alias), "Name": f.Alias, "FunctionVersion": published,
				"RoutingConfig": map[string]any{"AdditionalVersionWeights": f.Canary},
			})
		}
	})
	mux.HandleFunc("GET /2015-03-31/event-source-mappings", func(w http.ResponseWriter, r *http.Request) {
		name, alias, _ := strings.Cut(nameOf(r.URL.Query().Get("FunctionName")), ":")
		mappings := []map[string]any{}
		if f := functions[name]; f != nil && f.Stream != "" && alias == f.Alias {
			mappings = append(mappings, f.mapping())
		}
		answer(w, map[string]any{"EventSourceMappings": mappings})
	})
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		if !serveTarget(w, r, functions) {
			listStack(w, r, stack, functions)
		}
	})
	serveParts(mux, functions)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// mapping returns the event source mapping of the function.
func (f *Function) mapping() map[string]any {
	m := map[string]any{
		"EventSourceArn": f.Stream, "State": cmp.Or(f.State, "Enabled"), "LastProcessingResult": "OK",
		"FunctionResponseTypes": []string{"ReportBatchItemFailures"}, "MaximumBatchingWindowInSeconds": f.Window,
		"MaximumRecordAgeInSeconds": cmp.Or(f.RecordAge, 483840), "MaximumRetryAttempts": 10000,
	}
	if to := cmp.Or(f.GivenUp, "arn:aws:s3:::given-up"); to != "none" {
		m["DestinationConfig"] = map[string]any{"OnFailure": map[string]any{"Destination": to}}
	}
	if f.Filter != "" {
		m["FilterCriteria"] = map[string]any{"Filters": []map[string]any{{"Pattern": f.Filter}}}
	}
	return m
}

// isCanary reports whether a qualifier is another version that the alias points to.
func (f *Function) isCanary(qualifier string) bool {
	_, ok := f.Canary[qualifier]
	return ok
}

// published is the version that an alias points to.
const published = "7"

// arn returns the ARN of a function, or of an alias of it.
func arn(name, alias string) string {
	return strings.TrimSuffix("arn:aws:lambda:us-east-1:123456789012:function:"+name+":"+alias, ":")
}

// configuration returns the answer to GetFunctionConfiguration for the version that an alias points to. Without an
// alias, it is for the function itself.
func (f *Function) configuration(name, alias string) map[string]any {
	environment, version := map[string]any{"Variables": f.Env}, published
	if alias == "" {
		version = "$LATEST"
	}
	if alias == "" && f.Latest != nil {
		environment["Variables"] = f.Latest
	}
	if f.isCanary(alias) && f.CanaryEnv != nil {
		environment["Variables"] = f.CanaryEnv
	}
	if f.Hidden != "" {
		environment = map[string]any{"Error": map[string]string{"ErrorCode": "AccessDeniedException", "Message": f.Hidden}}
	}
	return map[string]any{
		"FunctionName": name, "Description": f.Description, "FunctionArn": arn(name, alias), "Version": version, "Environment": environment,
		"Timeout": Timeout, "DeadLetterConfig": map[string]string{"TargetArn": f.DeadLetters},
		"LoggingConfig": map[string]string{"LogGroup": "/aws/lambda/" + name},
	}
}

// nameOf returns NAME or NAME:ALIAS for a name or an ARN.
func nameOf(text string) string {
	_, name, ok := strings.Cut(text, ":function:")
	if !ok {
		return text
	}
	return name
}

func (f *Function) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	event, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	reply, log := f.Invoke(event)
	var failure struct {
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal(reply, &failure) == nil && failure.Message != "" {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
	}
	if r.Header.Get("X-Amz-Log-Type") == "Tail" {
		w.Header().Set("X-Amz-Log-Result", base64.StdEncoding.EncodeToString(log[max(0, len(log)-tailSize):]))
	}
	_, _ = w.Write(reply) // fails only if the client has disconnected
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}

type resource struct {
	LogicalResourceID  string `xml:"LogicalResourceId"`
	PhysicalResourceID string `xml:"PhysicalResourceId"`
	ResourceType       string `xml:"ResourceType"`
	ResourceStatus     string `xml:"ResourceStatus"`
}

// listStack answers ListStackResources.
func listStack(w http.ResponseWriter, r *http.Request, stack string, functions map[string]*Function) {
	_ = r.ParseForm() // an invalid form has no stack
	if r.Form.Get("Action") != "ListStackResources" || r.Form.Get("StackName") != stack {
		w.WriteHeader(http.StatusBadRequest)
		var failure struct {
			XMLName xml.Name `xml:"ErrorResponse"`
			Type    string   `xml:"Error>Type"`
			Code    string   `xml:"Error>Code"`
			Message string   `xml:"Error>Message"`
		}
		failure.Type, failure.Code = "Sender", "ValidationError"
		failure.Message = "Stack with id " + r.Form.Get("StackName") + " does not exist"
		_ = xml.NewEncoder(w).Encode(failure) // fails only if the client has disconnected
		return
	}
	var listed struct {
		XMLName   xml.Name   `xml:"ListStackResourcesResponse"`
		Resources []resource `xml:"ListStackResourcesResult>StackResourceSummaries>member"`
	}
	add := func(kind, id string) {
		listed.Resources = append(listed.Resources, resource{cmp.Or(id, kind), id, kind, "CREATE_COMPLETE"})
	}
	add("AWS::DynamoDB::GlobalTable", "bank")
	for name, f := range functions {
		add("AWS::Lambda::Function", name)
		if f.Alias != "" {
			add("AWS::Lambda::Alias", arn(name, f.Alias))
		}
		if f.Routes != nil {
			add("AWS::ApiGatewayV2::Api", "api-"+name)
		}
		if f.Domain != "" {
			add("AWS::ApiGatewayV2::DomainName", f.Domain)
		}
		if f.Alarm != "" {
			add("AWS::CloudWatch::Alarm", "alarm-"+name)
		}
	}
	w.Header().Set("Content-Type", "text/xml")
	_ = xml.NewEncoder(w).Encode(listed) // fails only if the client has disconnected
}
