package faultproxy

import (
	"encoding/json"
	"net/http"
)

// OfSQS returns the faults that SendMessage can meet.
func OfSQS() []Fault {
	return []Fault{Refuse, Drop, Cut, ErrorBefore, ErrorAfter, Unavailable, Throttle}
}

var sqs = service{operation: targetOperation, answers: answerOfSQS, passes: whole}

// StartSQS starts a proxy for an engine with the API of SQS, as Start does.
func StartSQS(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	return sqs.start(target, plan)
}

// answerOfSQS: API reference, "Common Error Types" and "SendMessage".
func answerOfSQS(w http.ResponseWriter, f Fault, _ []byte) {
	kind, status := "InternalFailure", http.StatusInternalServerError
	switch f {
	case Unavailable:
		kind, status = "ServiceUnavailable", http.StatusServiceUnavailable
	case Throttle:
		kind, status = "RequestThrottled", http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.sqs#" + kind, "message": "by faultproxy"})
}
