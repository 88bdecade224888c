package claimapi

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/uuid"
)

// maxRead is how much of a request's body ServeHTTP reads. It is more than maxBody, so that the handler sees that a
// body is too large.
const maxRead = 2 * maxBody

// ServeHTTP answers one request of net/http as Handle answers an event. There is no API Gateway to verify an identity,
// so the claimant comes from the body or, with FromContext, from a middleware of the server. HEAD is answered as GET
// without its body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRead))
	id := uuid.NewString()
	if err != nil {
		write(w, h.refusal(badDocument("could not be read to its end"), id).response())
		return
	}
	write(w, h.respond(r.Context(), toEvent(r, id, body)))
}

func write(w http.ResponseWriter, r events.APIGatewayV2HTTPResponse) {
	for name, value := range r.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.StatusCode)
	_, _ = io.WriteString(w, r.Body) // a client that is gone can repeat the request
}

// toEvent makes the event that an API Gateway HTTP API makes of a request: header names are in lower case, their values
// joined with commas, and the path is percent-decoded.
func toEvent(r *http.Request, id string, body []byte) events.APIGatewayV2HTTPRequest {
	headers := make(map[string]string, len(r.Header)+1)
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	headers["host"] = r.Host
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves the body out
	}
	e := events.APIGatewayV2HTTPRequest{
		Version: payloadVersion, RouteKey: defaultStage, RawPath: r.URL.Path, RawQueryString: r.URL.RawQuery,
		Headers: headers, Body: string(body),
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey: defaultStage, Stage: defaultStage, RequestID: id, DomainName: r.Host,
			TimeEpoch: time.Now().UnixMilli(),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method: method, Path: r.URL.Path, Protocol: r.Proto, UserAgent: r.UserAgent(),
			},
		},
	}
	if !utf8.Valid(body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e
}
