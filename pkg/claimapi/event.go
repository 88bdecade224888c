package claimapi

import (
	"context"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/requestid"
)

// payloadVersion is the payload format of the events.
const payloadVersion = "2.0"

// event has the parts of a request with payload format 2.0 that the handler reads. Its names are the names of
// events.APIGatewayV2HTTPRequest. It leaves out all other members, because decoding them takes longer than all other
// work of the handler.
type event struct {
	Version         string         `json:"version"`
	RawPath         string         `json:"rawPath"`
	RawQueryString  string         `json:"rawQueryString"`
	Headers         eventHeaders   `json:"headers"`
	RequestContext  requestContext `json:"requestContext"`
	Body            string         `json:"body"`
	IsBase64Encoded bool           `json:"isBase64Encoded"`

	served bool // the request came to ServeHTTP, and not through API Gateway
}

// eventHeaders are headers of a request. encoding/json finds their names in any case.
type eventHeaders struct {
	ContentType    string `json:"content-type"`
	Authorization  string `json:"authorization"`
	AcceptLanguage string `json:"accept-language"`
}

type requestContext struct {
	Stage      string      `json:"stage"`
	RequestID  string      `json:"requestId"`
	Authorizer *authorizer `json:"authorizer"`
	HTTP       struct {
		Method string `json:"method"`
	} `json:"http"`
}

type authorizer = events.APIGatewayV2HTTPRequestContextAuthorizerDescription

// eventOf makes an event from a request.
func eventOf(r events.APIGatewayV2HTTPRequest) event {
	e := event{
		Version: r.Version, RawPath: r.RawPath, RawQueryString: r.RawQueryString,
		Headers: eventHeaders{
			header(r.Headers, "content-type"), header(r.Headers, "authorization"), header(r.Headers, "accept-language"),
		},
		Body: r.Body, IsBase64Encoded: r.IsBase64Encoded,
		RequestContext: requestContext{
			Stage: r.RequestContext.Stage, RequestID: r.RequestContext.RequestID, Authorizer: r.RequestContext.Authorizer,
		},
	}
	e.RequestContext.HTTP.Method = r.RequestContext.HTTP.Method
	return e
}

// header finds a header by its name in any case.
func header(headers map[string]string, name string) string {
	for n, value := range headers {
		if strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}

// isJSON reports whether the content type is JSON.
func (e event) isJSON() bool {
	mediaType, _, _ := strings.Cut(e.Headers.ContentType, ";")
	return strings.EqualFold(strings.TrimSpace(mediaType), "application/json")
}

// requestID returns API Gateway's id of the request, or Lambda's if the event has none.
func (e event) requestID(ctx context.Context) string {
	if id := e.RequestContext.RequestID; id != "" {
		return id
	}
	return requestid.Of(ctx)
}
