package faultproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// Of returns the faults of an operation of DynamoDB.
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

var dynamoDB = service{operation: targetOperation, answers: answerOfDynamoDB, passes: whole}

// Start starts a proxy for an engine with the API of DynamoDB. stop ends the proxy. The plan returns the fault of the
// n-th request, from 0.
func Start(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	return dynamoDB.start(target, plan)
}

// New starts a proxy as Start does and ends it with the test.
func New(t testing.TB, target string, plan func(n int, operation string) Fault) *Proxy {
	t.Helper()
	p, stop := Start(target, plan)
	t.Cleanup(stop)
	return p
}

// dynamoDBCodes are the error codes of DynamoDB (Developer Guide, "Error handling with DynamoDB", and API reference,
// "TransactWriteItems").
var dynamoDBCodes = codes{
	ErrorBefore: {http.StatusInternalServerError, "InternalServerError"},
	ErrorAfter:  {http.StatusInternalServerError, "InternalServerError"},
	Unavailable: {http.StatusServiceUnavailable, "ServiceUnavailable"},
	Throttle:    {http.StatusBadRequest, "ThrottlingException"},
	InProgress:  {http.StatusBadRequest, "TransactionInProgressException"},
}

func answerOfDynamoDB(w http.ResponseWriter, fault Fault, body []byte) {
	switch fault {
	case ConflictFirst, ConflictLast, ConflictAll, ThrottleFirst, ThrottleLast, NoReason:
		cancelled(w, fault, body)
	default:
		own := dynamoDBCodes.of(fault)
		answer(w, own.status, own.name, nil)
	}
}

// cancelled answers with a cancelled transaction or, outside of one, a conflict.
func cancelled(w http.ResponseWriter, fault Fault, body []byte) {
	var request struct {
		TransactItems []json.RawMessage `json:"TransactItems"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(fmt.Sprintf("faultproxy: the request is not JSON: %v", err))
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
	answerInJSON(w, "application/x-amz-json-1.0", status, reply)
}
