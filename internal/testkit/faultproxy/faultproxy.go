// Package faultproxy is a proxy between an AWS client and a local engine of DynamoDB, Kinesis, S3 or SQS. It breaks
// requests as a network or the service does. No local engine does this by itself. So a test includes the retries of
// the SDK.
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
)

// Fault is a way in which a request fails.
type Fault string

// These are the faults.
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

// Proxy is a proxy on the loopback interface.
type Proxy struct {
	URL string

	service service
	target  string
	plan    func(n int, operation string) Fault
	mu      sync.Mutex
	seen    []string
}

// service describes an API to a proxy.
type service struct {
	operation func(*http.Request) string
	// answers writes the answer of the service for a fault.
	answers func(w http.ResponseWriter, f Fault, body []byte)
	// passes sends the request, or a part of it, to the engine.
	passes func(p *Proxy, r *http.Request, body []byte, f Fault) (status int, header http.Header, reply []byte, err error)
}

// targetOperation returns the operation of a request to DynamoDB, Kinesis or SQS.
func targetOperation(r *http.Request) string {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return operation
}

// code is an error of a service.
type code struct {
	status int
	name   string
}

// codes are the errors of a service by fault.
type codes map[Fault]code

func (c codes) of(f Fault) code {
	own, ok := c[f]
	if !ok {
		panic("faultproxy: the service has no such fault: " + string(f))
	}
	return own
}

// inJSON returns a function that answers with the codes in a namespace.
func (c codes) inJSON(contentType, namespace string) func(http.ResponseWriter, Fault, []byte) {
	return func(w http.ResponseWriter, f Fault, _ []byte) {
		own := c.of(f)
		answerInJSON(w, contentType, own.status, map[string]any{"__type": namespace + own.name, "message": "by faultproxy"})
	}
}

func answerInJSON(w http.ResponseWriter, contentType string, status int, reply map[string]any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply) // fails only if the client has disconnected
}

// start starts a proxy for an engine. stop ends the proxy. The plan returns the fault of the n-th request, from 0.
func (s service) start(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	p = &Proxy{service: s, target: target, plan: plan}
	server := httptest.NewServer(p)
	p.URL = server.URL
	return p, server.Close
}

// Operations returns the operations of all requests so far, in order.
func (p *Proxy) Operations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// ServeHTTP passes a request on, or breaks it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation := p.service.operation(r)
	p.mu.Lock()
	n := len(p.seen)
	p.seen = append(p.seen, operation)
	p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	fault := p.plan(n, operation)
	if fault == Refuse {
		panic(http.ErrAbortHandler)
	}
	if !fault.hasEffect() {
		p.service.answers(w, fault, body)
		return
	}
	status, header, reply, err := p.service.passes(p, r, body, fault)
	if err != nil || fault == Drop {
		panic(http.ErrAbortHandler)
	}
	if fault == ErrorAfter || fault == ConflictAfter {
		p.service.answers(w, fault, body)
		return
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	if fault == Cut {
		_, _ = w.Write(reply[:len(reply)/2]) // the header has the whole length
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(reply) // fails only if the client has disconnected
}

// hasEffect reports whether the request, or a part of it, reaches the engine.
func (f Fault) hasEffect() bool {
	return slices.Contains([]Fault{None, Drop, Cut, ErrorAfter, ConflictAfter, PutFirst, PutOthers, PutNone, PutNotKnown}, f)
}

// forward sends the request to the engine, even if the client has disconnected.
func (p *Proxy) forward(r *http.Request, body []byte) (status int, header http.Header, reply []byte, err error) {
	out, err := http.NewRequest(r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body)) //nolint:noctx // the effect must not depend on the context of the client
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

// whole sends the whole request to the engine.
func whole(p *Proxy, r *http.Request, body []byte, _ Fault) (status int, header http.Header, reply []byte, err error) {
	return p.forward(r, body)
}
