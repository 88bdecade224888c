package faultproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
)

// The faults of PutRecords of Kinesis, which is answered record by record (API
// reference, "PutRecords": "a single record failure does not stop the processing of
// subsequent records").
const (
	PutFirst    Fault = "only the first record is put"
	PutOthers   Fault = "all but the first record are put"
	PutNone     Fault = "no record is put"
	PutNotKnown Fault = "all records are put, and the last is said to have failed"
)

// The faults of a conditional PutObject of S3 (user guide, "How to prevent object
// overwrites").
const (
	Conflict      Fault = "409"
	ConflictAfter Fault = "effect, and a 409"
)

// OfKinesis returns the faults that PutRecords can meet.
func OfKinesis() []Fault {
	return []Fault{Refuse, Drop, Cut, ErrorBefore, ErrorAfter, Unavailable, Throttle, PutFirst, PutOthers, PutNone, PutNotKnown}
}

// OfS3 returns the faults that PutObject can meet. Its answer has no body to be cut.
func OfS3() []Fault {
	return []Fault{Refuse, Drop, ErrorBefore, ErrorAfter, Unavailable, Throttle, Conflict, ConflictAfter}
}

// other is a service whose answers are not DynamoDB's.
type other struct {
	*Proxy
	operation func(*http.Request) string
	// answers writes the service's own answer to a fault, if it has one.
	answers func(w http.ResponseWriter, f Fault)
	// passes makes the request at the engine, or a part of it.
	passes func(r *http.Request, body []byte, f Fault) (status int, header http.Header, reply []byte, err error)
}

func (o other) start() (stop func()) {
	server := httptest.NewServer(o)
	o.URL = server.URL
	return server.Close
}

// ServeHTTP passes a request on, or breaks it.
func (o other) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation := o.operation(r)
	o.mu.Lock()
	n := len(o.seen)
	o.seen = append(o.seen, operation)
	o.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away
	}
	fault := o.plan(n, operation)
	switch fault {
	case Refuse:
		panic(http.ErrAbortHandler)
	case ErrorBefore, Unavailable, Throttle, Conflict:
		o.answers(w, fault)
		return
	}
	status, header, reply, err := o.passes(r, body, fault)
	switch {
	case err != nil || fault == Drop:
		panic(http.ErrAbortHandler)
	case fault == ErrorAfter || fault == ConflictAfter:
		o.answers(w, fault)
		return
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	if fault == Cut {
		_, _ = w.Write(reply[:len(reply)/2]) // its length was announced
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(reply) // a client that went away has no use for it
}

// Puts is what Kinesis has taken by a proxy: the data of each record.
type Puts struct {
	mu   sync.Mutex
	data [][]byte
}

// Data returns all of it, in order.
func (p *Puts) Data() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]byte(nil), p.data...)
}

// StartKinesis starts a proxy for an engine with the API of Kinesis, as Start does.
func StartKinesis(target string, plan func(n int, operation string) Fault) (p *Proxy, puts *Puts, stop func()) {
	p, puts = &Proxy{target: target, plan: plan}, &Puts{}
	o := other{
		Proxy: p, operation: targetOperation,
		answers: func(w http.ResponseWriter, f Fault) {
			kind, status := "InternalFailure", http.StatusInternalServerError
			switch f {
			case Unavailable:
				kind, status = "ServiceUnavailable", http.StatusServiceUnavailable
			case Throttle:
				kind, status = "ProvisionedThroughputExceededException", http.StatusBadRequest
			}
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"__type": kind, "message": "by faultproxy"})
		},
		passes: func(r *http.Request, body []byte, f Fault) (int, http.Header, []byte, error) {
			return p.putRecords(r, body, f, puts)
		},
	}
	return p, puts, o.start()
}

func targetOperation(r *http.Request) string {
	_, operation, _ := bytes.Cut([]byte(r.Header.Get("X-Amz-Target")), []byte("."))
	return string(operation)
}

// putResult is the answer about one record.
type putResult struct {
	SequenceNumber string `json:"SequenceNumber,omitempty"`
	ShardID        string `json:"ShardId,omitempty"`
	ErrorCode      string `json:"ErrorCode,omitempty"`
	ErrorMessage   string `json:"ErrorMessage,omitempty"`
}

// putRecords makes the request with those of its records that the fault lets through,
// and answers about all of them.
func (p *Proxy) putRecords(r *http.Request, body []byte, f Fault, puts *Puts) (status int, header http.Header, reply []byte, err error) {
	var request map[string]any
	if err := json.Unmarshal(body, &request); err != nil {
		return 0, nil, nil, err
	}
	records, _ := request["Records"].([]any)
	through := func(i int) bool { return f != PutNone && (f != PutFirst || i == 0) && (f != PutOthers || i > 0) }
	var asked []any
	for i, record := range records {
		if through(i) {
			asked = append(asked, record)
		}
	}
	var answered struct {
		Records []putResult `json:"Records"`
	}
	status, header = http.StatusOK, http.Header{"Content-Type": {"application/x-amz-json-1.1"}}
	if len(asked) > 0 {
		request["Records"] = asked
		if body, err = json.Marshal(request); err != nil {
			return 0, nil, nil, err
		}
		if status, header, reply, err = p.forward(r, body); err != nil || status != http.StatusOK {
			return status, header, reply, err
		}
		if err := json.Unmarshal(reply, &answered); err != nil {
			return 0, nil, nil, err
		}
	}
	results := make([]putResult, len(records))
	failed, next := 0, 0
	for i := range records {
		if !through(i) {
			results[i] = putResult{ErrorCode: "ProvisionedThroughputExceededException", ErrorMessage: "by faultproxy"}
			failed++
			continue
		}
		results[i] = answered.Records[next]
		next++
		if results[i].ErrorCode == "" {
			puts.take(records[i])
		}
		if f == PutNotKnown && i == len(records)-1 {
			results[i] = putResult{ErrorCode: "InternalFailure", ErrorMessage: "by faultproxy"}
			failed++
		}
	}
	reply, err = json.Marshal(map[string]any{"FailedRecordCount": failed, "Records": results})
	header.Set("Content-Length", fmt.Sprint(len(reply)))
	return status, header, reply, err
}

func (p *Puts) take(record any) {
	fields, _ := record.(map[string]any)
	text, _ := json.Marshal(fields["Data"])
	var data []byte
	if json.Unmarshal(text, &data) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = append(p.data, data)
}

// StartS3 starts a proxy for an engine with the API of S3, as Start does. Operations
// are HTTP methods there.
func StartS3(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	p = &Proxy{target: target, plan: plan}
	o := other{
		Proxy: p, operation: func(r *http.Request) string { return r.Method },
		answers: func(w http.ResponseWriter, f Fault) {
			kind, status := "InternalError", http.StatusInternalServerError
			switch f {
			case Unavailable:
				kind, status = "ServiceUnavailable", http.StatusServiceUnavailable
			case Throttle:
				kind, status = "SlowDown", http.StatusServiceUnavailable
			case Conflict, ConflictAfter:
				kind, status = "ConditionalRequestConflict", http.StatusConflict
			}
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>by faultproxy</Message></Error>`, kind)
		},
		passes: func(r *http.Request, body []byte, _ Fault) (int, http.Header, []byte, error) {
			return p.forward(r, body)
		},
	}
	return p, o.start()
}
