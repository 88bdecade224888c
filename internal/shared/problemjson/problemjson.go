// Package problemjson has what the HTTP answers to errors share: their body (RFC 9457), and when to come again.
package problemjson

import "strconv"

// ContentType is the type of a body.
const ContentType = "application/problem+json"

// Docs is the folder of the pages that explain problems. Each has a heading for each of its slugs.
const Docs = "https://github.com/oncebox/oncebox/blob/main/docs/"

// Body is the body of an answer, in the order of the RFC's examples.
type Body struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"` // the id of the request
}

// The range of Retry-After in seconds. The value is drawn for each answer. With one fixed time, all requests that the
// store could not take in one second would come again in the same later second. A range of three seconds makes three
// waves of a third of the size, and a customer can wait that long; a table throttles second by second. A client that
// is refused again has to wait longer on its own, because only the client knows how often it was refused.
const minRetryAfter, maxRetryAfter = 1, 3

// RetryAfter draws a value of the header Retry-After. intN returns a random number from 0 to n-1.
func RetryAfter(intN func(n int) int) string {
	return strconv.Itoa(minRetryAfter + intN(maxRetryAfter-minRetryAfter+1))
}
