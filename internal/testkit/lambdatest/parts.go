package lambdatest

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
)

// Parts are the parts of a stack around a function. Each is left out if it is zero.
type Parts struct {
	// Routes are the routes of an HTTP API that lead to the function, with their authorizers. Requests to the API without
	// credentials are answered as API Gateway does, or by the function if the route has no authorizer.
	Routes map[string]string
	Calls  string // what the routes invoke instead of the function or its alias
	Status int    // the status of every answer of the API, instead of that
	Domain string // a host name of the API
	Closed bool   // the API has no address but Domain
	Burst  int    // the burst limit of the route of claims alone; 0: it has those of the stage, 1,000 of both
	Broken string // the status of Domain; "": AVAILABLE
	Lost   bool   // Domain has no mapping to the API

	Rule    string // the state of a rule that invokes the function, or its alias
	Refused bool   // the function has no resource policy, so neither the API nor the rule may invoke it

	Alarm   string        // the state of an alarm
	Age     time.Duration // the time since then
	Silent  bool          // the alarm has no action
	Deleted bool          // somebody has deleted the alarm, which is still in the stack

	// Logs is a pattern for the log groups for which CloudWatch Logs may invoke the function; "": it may not. It sends the
	// events that match Pattern to the function, or to Calls.
	Logs, Pattern string
	Unsubscribed  bool           // the log group has no subscription filter
	Async         map[string]any // what becomes of asynchronous events; nil: as in the stack
	DeadLetters   string         // the ARN of the dead-letter queue of the function
	Said          string         // a line in the log of the function
	Long          bool           // the log has more pages than anybody reads

	// Queue and Letters are the attributes of the queue in Stream, and of its dead-letter queue, that differ from those of
	// the stack. If one is empty and not nil, there is no such queue.
	Queue, Letters map[string]string
	Metrics        map[string]float64 // the sums and maxima of metrics by their names; -1: no data. Others are 8.

	Retention int  // of Stream, in hours; 0: 168
	Reserved  *int // the reserved concurrency; nil: none
}

// These are what the account of all stacks has.
const (
	Concurrency = 400  // of all functions, unreserved
	Rate        = 2000 // requests a second of all APIs
	Shards      = 4    // of each stream
	WriteQuota  = 40000
	Duration    = 0.25   // of an invocation in the last weeks, in seconds on average
	Timeout     = 60     // of all functions, in seconds
	NoLogGroup  = "none" // the name of a log group that does not exist
)

// serveParts serves the services of the parts of functions.
func serveParts(mux *http.ServeMux, functions map[string]*Function) {
	of := func(id string) (f *Function, name string) {
		_, name, _ = strings.Cut(id, "-")
		return functions[name], name
	}
	mux.HandleFunc("GET /v2/apis/{id}", func(w http.ResponseWriter, r *http.Request) {
		f, name := of(r.PathValue("id"))
		answer(w, map[string]any{
			"apiId": r.PathValue("id"), "apiEndpoint": "http://" + r.Host + "/at/" + name, "disableExecuteApiEndpoint": f.Closed,
		})
	})
	mux.HandleFunc("GET /v2/apis/{id}/integrations", func(w http.ResponseWriter, r *http.Request) {
		f, name := of(r.PathValue("id"))
		answer(w, items(map[string]any{"integrationId": "i", "integrationUri": cmp.Or(f.Calls, arn(name, f.Alias))}))
	})
	mux.HandleFunc("GET /v2/apis/{id}/routes", func(w http.ResponseWriter, r *http.Request) {
		f, _ := of(r.PathValue("id"))
		var routes []map[string]any
		for key, authorizer := range f.Routes {
			routes = append(routes, map[string]any{"routeKey": key, "authorizationType": authorizer, "target": "integrations/i"})
		}
		answer(w, items(routes...))
	})
	mux.HandleFunc("GET /v2/apis/{id}/stages", func(w http.ResponseWriter, r *http.Request) {
		limits := func(burst int) map[string]any {
			return map[string]any{"throttlingRateLimit": 1000, "throttlingBurstLimit": burst}
		}
		stage := map[string]any{"stageName": "$default", "defaultRouteSettings": limits(1000)}
		if f, _ := of(r.PathValue("id")); f.Burst != 0 {
			stage["routeSettings"] = map[string]any{"POST /campaigns/{campaign}/claims": limits(f.Burst)}
		}
		answer(w, items(stage))
	})
	mux.HandleFunc("GET /v2/domainnames/{domain}", func(w http.ResponseWriter, r *http.Request) {
		for _, f := range functions {
			if f.Domain == r.PathValue("domain") {
				status := map[string]any{"domainNameStatus": cmp.Or(f.Broken, "AVAILABLE"), "certificateArn": "arn:certificate"}
				answer(w, map[string]any{"domainName": f.Domain, "domainNameConfigurations": []any{status}})
			}
		}
	})
	mux.HandleFunc("GET /v2/domainnames/{domain}/apimappings", func(w http.ResponseWriter, r *http.Request) {
		for name, f := range functions {
			if f.Domain == r.PathValue("domain") {
				id := "api-" + name
				if f.Lost {
					id = "another"
				}
				if r.URL.Query().Get("nextToken") == "" {
					answer(w, map[string]any{"items": []any{map[string]any{"apiId": "of-page-1", "stage": "$default"}}, "nextToken": "2"})
					return
				}
				answer(w, items(map[string]any{"apiId": id, "stage": "$default"}))
			}
		}
	})
	mux.HandleFunc("GET /account", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"throttleSettings": map[string]any{"rateLimit": Rate, "burstLimit": Rate / 2}})
	})
	mux.HandleFunc("GET /2016-08-19/account-settings", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"AccountLimit": map[string]int{
			"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": Concurrency,
		}})
	})
	mux.HandleFunc("GET /2019-09-30/functions/{name}/concurrency", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"ReservedConcurrentExecutions": functions[r.PathValue("name")].Reserved})
	})
	mux.HandleFunc("GET /2015-03-31/functions/{name}/policy", func(w http.ResponseWriter, r *http.Request) {
		functions[r.PathValue("name")].answerPolicy(w, r.PathValue("name"), r.URL.Query().Get("Qualifier"))
	})
	mux.HandleFunc("GET /at/{name}/", func(w http.ResponseWriter, r *http.Request) {
		f := functions[r.PathValue("name")]
		f.answerRequest(w, strings.TrimPrefix(r.URL.Path, "/at/"+r.PathValue("name")))
	})
	mux.HandleFunc("GET /2019-09-25/functions/{name}/event-invoke-config", func(w http.ResponseWriter, r *http.Request) {
		f := functions[r.PathValue("name")]
		if r.URL.Query().Get("Qualifier") != f.Alias || f.Async != nil && len(f.Async) == 0 {
			notFound(w)
			return
		}
		bucket := map[string]any{"OnFailure": map[string]string{"Destination": "arn:aws:s3:::given-up"}}
		out := map[string]any{"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 21600, "DestinationConfig": bucket}
		maps.Copy(out, f.Async)
		answer(w, out)
	})
	mux.HandleFunc("POST /service/GraniteServiceVersion20100801/operation/{operation}", func(w http.ResponseWriter, r *http.Request) {
		out := cbor.Map{"MetricAlarms": alarms(functions)}
		if r.PathValue("operation") == "GetMetricStatistics" {
			out = cbor.Map{"Datapoints": datapoints(r.Body, functions)}
		}
		w.Header().Set("Content-Type", "application/cbor")
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		_, _ = w.Write(cbor.Encode(out)) // fails only if the client has disconnected
	})
}

// datapoints answers GetMetricStatistics.
func datapoints(request io.Reader, functions map[string]*Function) cbor.List {
	body, _ := io.ReadAll(request) // a part of a request names no metric
	in, _ := cbor.Decode(body)
	named, _ := in.(cbor.Map)
	metric, _ := named["MetricName"].(cbor.String)
	value := 8.0
	switch metric {
	case "Duration":
		value = Duration * 1000 * 8
	case "Errors", "RecordsFailed":
		value = 1
	}
	for _, f := range functions {
		if own, set := f.Metrics[string(metric)]; set {
			value = own
		}
	}
	if value < 0 {
		return cbor.List{}
	}
	return cbor.List{cbor.Map{"Sum": cbor.Float64(value), "Maximum": cbor.Float64(value), "SampleCount": cbor.Float64(8)}}
}

func items(all ...map[string]any) map[string]any { return map[string]any{"items": all} }

// serveTarget answers the services whose requests name their operation in a header. It reports whether it knows it.
func serveTarget(w http.ResponseWriter, r *http.Request, functions map[string]*Function) bool {
	_, operation, named := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !named {
		return false
	}
	var in struct {
		TargetARN string `json:"TargetArn"`
		Name      string `json:"Name"`
		StreamARN string `json:"StreamARN"`
		LogGroup  string `json:"logGroupName"`
		Queue     string `json:"QueueName"`
		QueueURL  string `json:"QueueUrl"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in) // another request has none of these
	out := map[string]any{}
	for name, f := range functions {
		switch {
		case operation == "ListRuleNamesByTarget" && f.Rule != "" && in.TargetARN == cmp.Or(f.Calls, arn(name, f.Alias)):
			out["RuleNames"] = []string{"rule-" + name}
		case operation == "DescribeRule" && in.Name == "rule-"+name:
			out = map[string]any{"Name": in.Name, "Arn": ruleARN(name), "State": f.Rule, "ScheduleExpression": "rate(1 minute)"}
		case operation == "DescribeStreamSummary" && strings.HasPrefix(f.Stream, in.StreamARN):
			out["StreamDescriptionSummary"] = map[string]any{
				"StreamARN": in.StreamARN, "RetentionPeriodHours": cmp.Or(f.Retention, 168), "OpenShardCount": Shards,
			}
		case operation == "DescribeSubscriptionFilters" && in.LogGroup == NoLogGroup:
			notFound(w)
			return true
		case operation == "DescribeSubscriptionFilters" && f.Logs != "" && !f.Unsubscribed:
			out["subscriptionFilters"] = []map[string]string{
				{"filterPattern": f.Pattern, "destinationArn": cmp.Or(f.Calls, arn(name, f.Alias))},
			}
		case operation == "FilterLogEvents" && in.LogGroup == "/aws/lambda/"+name && f.Said != "":
			out["events"] = []map[string]any{{"message": f.Said, "timestamp": time.Now().UnixMilli()}}
		case operation == "FilterLogEvents" && f.Long:
			out["nextToken"] = "more"
		case operation == "GetQueueUrl":
			out["QueueUrl"] = queueURL + in.Queue
		case operation == "GetQueueAttributes" && strings.Contains(f.Stream, ":sqs:"):
			out["Attributes"] = f.attributes(strings.TrimPrefix(in.QueueURL, queueURL))
		}
	}
	if out["Attributes"] != nil && len(out["Attributes"].(map[string]string)) == 0 {
		refuse(w, http.StatusBadRequest, "QueueDoesNotExist")
		return true
	}
	if operation == "DescribeLimits" {
		out["TableMaxWriteCapacityUnits"] = WriteQuota
	}
	answer(w, out)
	return true
}

const queueURL = "https://sqs.us-east-1.amazonaws.com/123456789012/"

// attributes returns the attributes of the queue in Stream, or of its dead-letter queue, as the stack makes them.
func (f *Function) attributes(name string) map[string]string {
	all := map[string]string{
		"VisibilityTimeout": "360", "MessageRetentionPeriod": "345600", "ApproximateNumberOfMessages": "8",
		"RedrivePolicy": `{"deadLetterTargetArn":"` + f.Stream + `-letters","maxReceiveCount":100}`,
	}
	own := f.Queue
	if strings.HasSuffix(name, "-letters") {
		all, own = map[string]string{"MessageRetentionPeriod": "864000", "ApproximateNumberOfMessages": "0"}, f.Letters
	}
	if own != nil && len(own) == 0 {
		return own // there is no such queue
	}
	maps.Copy(all, own)
	return all
}

func ruleARN(name string) string { return "arn:aws:events:us-east-1:123456789012:rule/rule-" + name }

// answerPolicy answers GetPolicy as Lambda does for the permissions that the stack adds.
func (f *Function) answerPolicy(w http.ResponseWriter, name, alias string) {
	var statements []map[string]any
	allow := func(service, source string) {
		statements = append(statements, map[string]any{
			"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": arn(name, alias),
			"Principal": map[string]string{"Service": service},
			"Condition": map[string]any{"ArnLike": map[string]string{"AWS:SourceArn": source}},
		})
	}
	for key := range f.Routes {
		_, path, _ := strings.Cut(key, " ")
		allow("apigateway.amazonaws.com", "arn:aws:execute-api:us-east-1:123456789012:api-"+name+"/*/*"+path)
	}
	if f.Rule != "" {
		allow("events.amazonaws.com", ruleARN(name))
	}
	if f.Logs != "" {
		allow("logs.amazonaws.com", "arn:aws:logs:us-east-1:123456789012:log-group:"+f.Logs+":*")
	}
	if f.Refused || alias != f.Alias || len(statements) == 0 {
		notFound(w)
		return
	}
	policy, _ := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements}) // only texts
	answer(w, map[string]string{"Policy": string(policy)})
}

func notFound(w http.ResponseWriter) { refuse(w, http.StatusNotFound, "ResourceNotFoundException") }

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-ErrorType", code)
	w.WriteHeader(status)
	answer(w, map[string]string{"Message": "There is no such thing.", "__type": code})
}

// answerRequest answers a request without credentials.
func (f *Function) answerRequest(w http.ResponseWriter, path string) {
	refuse := func(status int, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		answer(w, map[string]string{"message": message})
	}
	authorizer, found := f.Routes["GET /campaigns/{campaign}/claims/{claimant+}"]
	switch {
	case f.Status != 0:
		refuse(f.Status, http.StatusText(f.Status))
	case !found || !strings.HasPrefix(path, "/campaigns/"):
		refuse(http.StatusNotFound, "Not Found")
	case authorizer == "AWS_IAM":
		refuse(http.StatusForbidden, "Forbidden")
	case authorizer == "JWT":
		refuse(http.StatusUnauthorized, "Unauthorized")
	default:
		event, _ := json.Marshal(map[string]any{ // only texts
			"version": "2.0", "rawPath": path, "headers": map[string]string{}, "requestContext": map[string]any{
				"stage": "$default", "http": map[string]string{"method": http.MethodGet, "path": path},
			},
		})
		out := struct {
			StatusCode int               `json:"statusCode"`
			Headers    map[string]string `json:"headers"`
			Body       string            `json:"body"`
		}{StatusCode: http.StatusInternalServerError} // if the function fails
		f.mu.Lock()
		reply, _ := f.Invoke(event)
		f.mu.Unlock()
		_ = json.Unmarshal(reply, &out)
		for name, value := range out.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(out.StatusCode)
		_, _ = io.WriteString(w, out.Body) // fails only if the client has disconnected
	}
}

// alarms returns the alarms as DescribeAlarms does.
func alarms(functions map[string]*Function) (all cbor.List) {
	for name, f := range functions {
		if f.Alarm == "" || f.Deleted {
			continue
		}
		a := cbor.Map{
			"AlarmName": cbor.String("alarm-" + name), "StateValue": cbor.String(f.Alarm), "ActionsEnabled": cbor.Bool(true),
			"AlarmDescription": cbor.String("It fails. https://runbook#section"),
			"StateTransitionedTimestamp": &cbor.Tag{
				ID: 1, Value: cbor.Float64(time.Now().Add(-f.Age).Unix()),
			},
		}
		if !f.Silent {
			a["AlarmActions"] = cbor.List{cbor.String("arn:aws:sns:us-east-1:123456789012:topic")}
		}
		all = append(all, a)
	}
	return all
}
