// Package faultproxy stands between an AWS client and a local engine of DynamoDB, Kinesis
// or S3, and breaks requests in the ways of a network and of the service: those that no local
// engine ever shows, so that the SDK's own retries are part of a test.
package faultproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Fault is what becomes of one request.
type Fault string

// The faults.
const (
	None          Fault = ""
	Refuse        Fault = "connection closed before the effect"
	Drop          Fault = "effect, and the connection closed"
	Cut           Fault = "effect, and half a reply"
	ErrorBefore   Fault = "500 before the effect"
	ErrorAfter    Fault = "effect, and a 500"
	Unavailable   Fault = "503"
	Throttle      Fault = "ThrottlingException"
	ConflictFirst Fault = "conflict on the first action"
	ConflictLast  Fault = "conflict on the last action"
	ConflictAll   Fault = "conflict on all actions"
	ThrottleFirst Fault = "first action throttled"
	ThrottleLast  Fault = "last action throttled"
	NoReason      Fault = "transaction cancelled for no reason"
	InProgress    Fault = "TransactionInProgressException"
)

// Of returns the faults that an operation can meet.
func Of(operation string) []Fault {
	faults := []Fault{Refuse, Drop, Cut, ErrorBefore, ErrorAfter, Unavailable, Throttle}
	switch operation {
	case "TransactWriteItems":
		faults = append(faults, ConflictFirst, ConflictLast, ConflictAll, ThrottleFirst, ThrottleLast, NoReason, InProgress)
	case "PutItem", "UpdateItem", "DeleteItem":
		faults = append(faults, ConflictFirst)
	}
	return faults
}

// Proxy is a proxy on the loopback interface.
type Proxy struct {
	URL string

	target string
	plan   func(n int, operation string) Fault
	mu     sync.Mutex
	seen   []string
}

// Start starts a proxy for an engine; stop ends it. The plan says what becomes of
// the n-th request, from 0.
func Start(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	p = &Proxy{target: target, plan: plan}
	server := httptest.NewServer(p)
	p.URL = server.URL
	return p, server.Close
}

// New is Start for the length of a test.
func New(t testing.TB, target string, plan func(n int, operation string) Fault) *Proxy {
	t.Helper()
	p, stop := Start(target, plan)
	t.Cleanup(stop)
	return p
}

// Operations returns the operations of all requests so far, in order.
func (p *Proxy) Operations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// ServeHTTP passes a request on, or breaks it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	p.mu.Lock()
	n := len(p.seen)
	p.seen = append(p.seen, operation)
	p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away
	}
	fault := p.plan(n, operation)
	if refused(w, fault, body) {
		return
	}
	status, header, reply, err := p.forward(r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch fault {
	case Drop:
		panic(http.ErrAbortHandler)
	case ErrorAfter:
		answer(w, http.StatusInternalServerError, "InternalServerError", nil)
		return
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	if fault == Cut {
		reply = reply[:len(reply)/2] // its length was announced
	}
	_, _ = w.Write(reply) // a client that went away has no use for it
	if fault == Cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// forward makes the request at the engine, whatever becomes of the client.
func (p *Proxy) forward(r *http.Request, body []byte) (status int, header http.Header, reply []byte, err error) {
	out, err := http.NewRequest(r.Method, p.target+r.URL.Path, bytes.NewReader(body)) //nolint:noctx // its effect must not end with the client's context
	if err != nil {
		return 0, nil, nil, err
	}
	out.Header = r.Header.Clone()
	response, err := http.DefaultClient.Do(out)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	reply, err = io.ReadAll(response.Body)
	header = response.Header.Clone()
	header.Set("Content-Length", fmt.Sprint(len(reply)))
	return response.StatusCode, header, reply, err
}

// refused answers a request that never reaches the engine.
func refused(w http.ResponseWriter, fault Fault, body []byte) bool {
	switch fault {
	case Refuse:
		panic(http.ErrAbortHandler)
	case ErrorBefore:
		answer(w, http.StatusInternalServerError, "InternalServerError", nil)
	case Unavailable:
		answer(w, http.StatusServiceUnavailable, "ServiceUnavailable", nil)
	case Throttle:
		answer(w, http.StatusBadRequest, "ThrottlingException", nil)
	case InProgress:
		answer(w, http.StatusBadRequest, "TransactionInProgressException", nil)
	case ConflictFirst, ConflictLast, ConflictAll, ThrottleFirst, ThrottleLast, NoReason:
		cancelled(w, fault, body)
	default:
		return false
	}
	return true
}

// cancelled answers with a cancelled transaction, or a conflict with one.
func cancelled(w http.ResponseWriter, fault Fault, body []byte) {
	var request struct {
		TransactItems []json.RawMessage `json:"TransactItems"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(fmt.Sprintf("faultproxy: a request that is no JSON: %v", err))
	}
	last := len(request.TransactItems) - 1
	if last < 0 {
		answer(w, http.StatusBadRequest, "TransactionConflictException", nil)
		return
	}
	code := "TransactionConflict"
	if fault == ThrottleFirst || fault == ThrottleLast {
		code = "ThrottlingError"
	}
	reasons := make([]map[string]string, last+1)
	for i := range reasons {
		reasons[i] = map[string]string{"Code": "None"}
		first := i == 0 && (fault == ConflictFirst || fault == ThrottleFirst)
		if first || i == last && (fault == ConflictLast || fault == ThrottleLast) || fault == ConflictAll {
			reasons[i] = map[string]string{"Code": code, "Message": "by faultproxy"}
		}
	}
	answer(w, http.StatusBadRequest, "TransactionCanceledException", reasons)
}

func answer(w http.ResponseWriter, status int, kind string, reasons []map[string]string) {
	reply := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + kind, "message": "by faultproxy"}
	if reasons != nil {
		reply["CancellationReasons"] = reasons
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply) // a client that went away has no use for it
}
