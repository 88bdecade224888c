package faultproxy

import "net/http"

// OfSQS returns the faults of SendMessage.
func OfSQS() []Fault {
	return []Fault{Refuse, Drop, Cut, ErrorBefore, ErrorAfter, Unavailable, Throttle}
}

// sqsCodes are the error codes of SQS (API reference, "Common Error Types").
var sqsCodes = codes{
	ErrorBefore: {http.StatusInternalServerError, "InternalFailure"},
	ErrorAfter:  {http.StatusInternalServerError, "InternalFailure"},
	Unavailable: {http.StatusServiceUnavailable, "ServiceUnavailable"},
	Throttle:    {http.StatusBadRequest, "RequestThrottled"},
}

var sqs = service{
	operation: targetOperation, answers: sqsCodes.inJSON("application/x-amz-json-1.0", "com.amazonaws.sqs#"), passes: whole,
}

// StartSQS starts a proxy for an engine with the API of SQS, as Start does.
func StartSQS(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	return sqs.start(target, plan)
}
