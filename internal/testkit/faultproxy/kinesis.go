package faultproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
)

// These are the faults of PutRecords of Kinesis, whose answer has a result for each record (API reference,
// "PutRecords": "a single record failure does not stop the processing of subsequent records").
const (
	PutFirst    Fault = "only the first record is put"
	PutOthers   Fault = "all but the first record are put"
	PutNone     Fault = "no record is put"
	PutNotKnown Fault = "all records are put, and the last is said to have failed"
)

// OfKinesis returns the faults of PutRecords.
func OfKinesis() []Fault {
	return []Fault{Refuse, Drop, Cut, ErrorBefore, ErrorAfter, Unavailable, Throttle, PutFirst, PutOthers, PutNone, PutNotKnown}
}

const kinesisJSON = "application/x-amz-json-1.1"

// kinesisCodes are the error codes of Kinesis (API reference, "Common Error Types" and "PutRecords").
var kinesisCodes = codes{
	ErrorBefore: {http.StatusInternalServerError, "InternalFailure"},
	ErrorAfter:  {http.StatusInternalServerError, "InternalFailure"},
	Unavailable: {http.StatusServiceUnavailable, "ServiceUnavailable"},
	Throttle:    {http.StatusBadRequest, "ProvisionedThroughputExceededException"},
}

// Put is a record that the engine has stored.
type Put struct {
	PartitionKey    string `json:"PartitionKey"`
	ExplicitHashKey string `json:"ExplicitHashKey"`
	Data            []byte `json:"Data"`
}

// Puts holds the records that the engine has stored through a proxy.
type Puts struct {
	mu      sync.Mutex
	records []Put
}

// Records returns all records in order.
func (p *Puts) Records() []Put {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.records)
}

// StartKinesis starts a proxy for an engine with the API of Kinesis, as Start does.
func StartKinesis(target string, plan func(n int, operation string) Fault) (p *Proxy, puts *Puts, stop func()) {
	puts = &Puts{}
	p, stop = service{operation: targetOperation, answers: kinesisCodes.inJSON(kinesisJSON, ""), passes: puts.putRecords}.start(target, plan)
	return p, puts, stop
}

// putResult is the result of one record.
type putResult struct {
	SequenceNumber string `json:"SequenceNumber,omitempty"`
	ShardID        string `json:"ShardId,omitempty"`
	ErrorCode      string `json:"ErrorCode,omitempty"`
	ErrorMessage   string `json:"ErrorMessage,omitempty"`
}

// putRecords sends the records that the fault lets through to the engine, and answers with results
// for all records.
func (p *Puts) putRecords(proxy *Proxy, r *http.Request, body []byte, f Fault) (status int, header http.Header, reply []byte, err error) {
	var request map[string]json.RawMessage
	var records []json.RawMessage
	if err := json.Unmarshal(body, &request); err != nil {
		return 0, nil, nil, err
	}
	if err := json.Unmarshal(request["Records"], &records); err != nil {
		return 0, nil, nil, err
	}
	through := func(i int) bool { return f != PutNone && (f != PutFirst || i == 0) && (f != PutOthers || i > 0) }
	var asked []json.RawMessage
	for i, record := range records {
		if through(i) {
			asked = append(asked, record)
		}
	}
	var answered struct {
		Records []putResult `json:"Records"`
	}
	status, header = http.StatusOK, http.Header{"Content-Type": {kinesisJSON}}
	if len(asked) > 0 {
		if request["Records"], err = json.Marshal(asked); err != nil {
			return 0, nil, nil, err
		}
		if body, err = json.Marshal(request); err != nil {
			return 0, nil, nil, err
		}
		if status, header, reply, err = proxy.forward(r, body); err != nil || status != http.StatusOK {
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
			if err := p.take(records[i]); err != nil {
				return 0, nil, nil, err
			}
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

func (p *Puts) take(record json.RawMessage) error {
	var put Put
	if err := json.Unmarshal(record, &put); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = append(p.records, put)
	return nil
}
