package faultproxy

import (
	"fmt"
	"net/http"
)

// These are the faults of a conditional PutObject of S3 (user guide, "How to prevent object overwrites").
const (
	Conflict      Fault = "409"
	ConflictAfter Fault = "effect, and a 409"
)

// OfS3 returns the faults of PutObject. The list has no cut-off answer, because the answer has no body.
func OfS3() []Fault {
	return []Fault{Refuse, Drop, ErrorBefore, ErrorAfter, Unavailable, Throttle, Conflict, ConflictAfter}
}

// s3Codes are the error codes of S3 (API reference, "Error responses").
var s3Codes = codes{
	ErrorBefore:   {http.StatusInternalServerError, "InternalError"},
	ErrorAfter:    {http.StatusInternalServerError, "InternalError"},
	Unavailable:   {http.StatusServiceUnavailable, "ServiceUnavailable"},
	Throttle:      {http.StatusServiceUnavailable, "SlowDown"},
	Conflict:      {http.StatusConflict, "ConditionalRequestConflict"},
	ConflictAfter: {http.StatusConflict, "ConditionalRequestConflict"},
}

var s3 = service{operation: func(r *http.Request) string { return r.Method }, answers: answerOfS3, passes: whole}

// StartS3 starts a proxy for an engine with the API of S3, as Start does. Its operations are HTTP
// methods.
func StartS3(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	return s3.start(target, plan)
}

func answerOfS3(w http.ResponseWriter, f Fault, _ []byte) {
	own := s3Codes.of(f)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(own.status)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>by faultproxy</Message></Error>`, own.name)
}
