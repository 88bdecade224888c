package faultproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// These are the faults of operations whose answer has a result for each part of the request: the records of PutRecords
// (API reference, "PutRecords": "a single record failure does not stop the processing of subsequent records"), and the
// statements of BatchExecuteStatement.
const (
	PutFirst    Fault = "only the first part is done"
	PutOthers   Fault = "all but the first part are done"
	PutNone     Fault = "no part is done"
	PutNotKnown Fault = "all parts are done, and the last is said to have failed"
)

// parts describes such an operation.
type parts struct {
	list, answers    string          // the names of the lists in request and answer
	refused, unknown json.RawMessage // the results of a part that is not done, and of one that may be done
}

// doneParts is what became of the parts of a request.
type doneParts struct {
	status  int
	header  http.Header
	reply   []byte            // of the engine
	parts   []json.RawMessage // of the request
	engine  []json.RawMessage // by part: the engine's result; nil: the part was not sent
	results []json.RawMessage // by part: the result for the client
}

// send sends the parts that the fault lets through to the engine.
func (o parts) send(proxy *Proxy, r *http.Request, body []byte, f Fault) (d doneParts, err error) {
	var request map[string]json.RawMessage
	if err := json.Unmarshal(body, &request); err != nil {
		return d, err
	}
	if err := json.Unmarshal(request[o.list], &d.parts); err != nil {
		return d, err
	}
	var sent []json.RawMessage
	var at []int
	for i, part := range d.parts {
		if f != PutNone && (f != PutFirst || i == 0) && (f != PutOthers || i > 0) {
			sent, at = append(sent, part), append(at, i)
		}
	}
	d.status, d.header = http.StatusOK, http.Header{"Content-Type": r.Header["Content-Type"]}
	var answer map[string]json.RawMessage
	var answered []json.RawMessage
	if len(sent) > 0 {
		if request[o.list], err = json.Marshal(sent); err != nil {
			return d, err
		}
		if body, err = json.Marshal(request); err != nil {
			return d, err
		}
		if d.status, d.header, d.reply, err = proxy.forward(r, body); err != nil || d.status != http.StatusOK {
			return d, err
		}
		if err := json.Unmarshal(d.reply, &answer); err != nil {
			return d, err
		}
		if err := json.Unmarshal(answer[o.answers], &answered); err != nil {
			return d, err
		}
	}
	if len(answered) != len(sent) {
		return d, fmt.Errorf("faultproxy: %d results for %d parts", len(answered), len(sent))
	}
	d.header.Del("X-Amz-Crc32") // of the engine's answer
	d.engine, d.results = make([]json.RawMessage, len(d.parts)), make([]json.RawMessage, len(d.parts))
	for i := range d.parts {
		d.results[i] = o.refused
	}
	for n, i := range at {
		d.engine[i], d.results[i] = answered[n], answered[n]
	}
	if f == PutNotKnown {
		d.results[len(d.results)-1] = o.unknown
	}
	return d, nil
}

// answer returns the answer for the client.
func (d doneParts) answer(answer map[string]any) (status int, header http.Header, reply []byte, err error) {
	reply, err = json.Marshal(answer)
	d.header.Set("Content-Length", fmt.Sprint(len(reply)))
	return d.status, d.header, reply, err
}
