package faultproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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
	case "BatchExecuteStatement":
		faults = append(faults, ofStatements...)
	case "BatchGetItem":
		faults = append(faults, Unprocessed)
	}
	return faults
}

var ofStatements = []Fault{PutFirst, PutOthers, PutNone, PutNotKnown}

// Unprocessed is a fault of BatchGetItem, which may read a part of the rows, or none.
const Unprocessed Fault = "no key is processed"

var dynamoDB = service{operation: targetOperation, answers: answerOfDynamoDB, passes: passToDynamoDB}

// statements are the statements of BatchExecuteStatement. A throttled one comes with status 200.
var statements = parts{
	list: "Statements", answers: "Responses",
	refused: json.RawMessage(`{"Error":{"Code":"ThrottlingError","Message":"by faultproxy"}}`),
	unknown: json.RawMessage(`{"Error":{"Code":"InternalServerError","Message":"by faultproxy"}}`),
}

func passToDynamoDB(p *Proxy, r *http.Request, body []byte, f Fault) (status int, header http.Header, reply []byte, err error) {
	if !slices.Contains(ofStatements, f) {
		return p.forward(r, body)
	}
	done, err := statements.send(p, r, body, f)
	if err != nil || done.status != http.StatusOK {
		return done.status, done.header, done.reply, err
	}
	return done.answer(map[string]any{"Responses": done.results})
}

// Start starts a proxy for an engine with the API of DynamoDB. stop ends the proxy. The plan returns the fault of the
// n-th request, from 0. A fault that only one operation has does not break others: a plan for several requests may meet
// them, and the engine never answers them so.
func Start(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	return dynamoDB.start(target, func(n int, operation string) Fault {
		fault := plan(n, operation)
		ofOne := fault == Unprocessed || slices.Contains(ofStatements, fault)
		if ofOne && !slices.Contains(Of(operation), fault) {
			return None
		}
		return fault
	})
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
	case Unprocessed:
		unprocessed(w, body)
	default:
		own := dynamoDBCodes.of(fault)
		answer(w, own.status, own.name, nil)
	}
}

// unprocessed answers that no key was processed.
func unprocessed(w http.ResponseWriter, body []byte) {
	var request struct {
		RequestItems json.RawMessage `json:"RequestItems"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		panic(fmt.Sprintf("faultproxy: the request is not JSON: %v", err))
	}
	answerInJSON(w, "application/x-amz-json-1.0", http.StatusOK, map[string]any{
		"Responses": map[string]any{}, "UnprocessedKeys": request.RequestItems,
	})
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
