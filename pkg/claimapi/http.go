package claimapi

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// maxRead is how much of a body ServeHTTP reads. It is more than maxBody, so that the handler sees that a body is too
// large.
const maxRead = 2 * maxBody

// ServeHTTP answers one request of net/http, as Handle answers an event. There is no API Gateway that verifies an
// identity. So the claimant comes from the body or, with FromContext, from a middleware of the server. HEAD is
// answered like GET, but without a body.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := RequestID(w, r)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRead))
	if err != nil {
		write(w, h.refusal(badDocument("could not be read to its end"), id))
		return
	}
	write(w, h.respond(r.Context(), toEvent(r, id, body)))
}

const (
	requestIDHeader = "X-Request-Id"
	maxRequestID    = 128
	inRequestID     = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~+="
)

// RequestID returns the id of a request, and puts it into the header X-Request-Id of its answer. The id is in the log line
// of the request and in a problem. It is the header X-Request-Id of the request, which a proxy may have set, if that has
// 1 to 128 letters, digits and characters of -_.~+=. Otherwise it is a new one. A Handler calls RequestID by itself. If
// a handler in front of it has called RequestID, the request keeps that id.
func RequestID(w http.ResponseWriter, r *http.Request) string {
	id := w.Header().Get(requestIDHeader)
	if id == "" {
		id = r.Header.Get(requestIDHeader)
	}
	if id == "" || len(id) > maxRequestID || strings.Trim(id, inRequestID) != "" {
		id = uuid.NewString()
	}
	w.Header().Set(requestIDHeader, id)
	return id
}

func write(w http.ResponseWriter, r reply) {
	for name, value := range r.headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.status)
	// After a failure the client can repeat the request.
	_, _ = io.WriteString(w, r.text()) //nolint:gosec // JSON; of the request it has the id, whose characters are checked
}

// toEvent makes the same event as an API Gateway HTTP API: several headers of one name are joined with commas, and
// the path is percent-decoded.
func toEvent(r *http.Request, id string, body []byte) event {
	e := event{
		Version: payloadVersion, RawPath: r.URL.Path, RawQueryString: r.URL.RawQuery, Body: string(body),
		Headers: eventHeaders{
			joined(r.Header, "Content-Type"), joined(r.Header, "Authorization"), joined(r.Header, "Accept-Language"),
		},
		RequestContext: requestContext{Stage: defaultStage, RequestID: id}, served: true,
	}
	e.RequestContext.HTTP.Method = r.Method
	if r.Method == http.MethodHead {
		e.RequestContext.HTTP.Method = http.MethodGet // net/http omits the body
	}
	if !utf8.Valid(body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e
}

func joined(headers http.Header, name string) string { return strings.Join(headers.Values(name), ",") }
