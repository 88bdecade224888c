package faultproxy

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
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

// putRecords are the records of PutRecords.
var putRecords = parts{
	list: "Records", answers: "Records",
	refused: json.RawMessage(`{"ErrorCode":"ProvisionedThroughputExceededException","ErrorMessage":"by faultproxy"}`),
	unknown: json.RawMessage(`{"ErrorCode":"InternalFailure","ErrorMessage":"by faultproxy"}`),
}

// putRecords sends the records that the fault lets through to the engine, and notes those that it has stored.
func (p *Puts) putRecords(proxy *Proxy, r *http.Request, body []byte, f Fault) (status int, header http.Header, reply []byte, err error) {
	put, err := putRecords.send(proxy, r, body, f)
	if err != nil || put.status != http.StatusOK {
		return put.status, put.header, put.reply, err
	}
	failed := 0
	for i, result := range put.results {
		if failedIn(result) {
			failed++
		}
		if put.engine[i] != nil && !failedIn(put.engine[i]) {
			if err := p.take(put.parts[i]); err != nil {
				return 0, nil, nil, err
			}
		}
	}
	return put.answer(map[string]any{"FailedRecordCount": failed, "Records": put.results})
}

// failedIn reports whether a result names an error. An engine may name none as null.
func failedIn(result json.RawMessage) bool {
	var of struct {
		ErrorCode string `json:"ErrorCode"`
	}
	return json.Unmarshal(result, &of) != nil || of.ErrorCode != ""
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
