package claimapi

import (
	"context"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/requestid"
)

// payloadVersion is the payload format of the events.
const payloadVersion = "2.0"

// event is what the handler reads of a request with payload format 2.0. It has the names of
// events.APIGatewayV2HTTPRequest, of which it leaves out the members that the handler does not use: decoding them costs
// more than all other work of the handler.
type event struct {
	Version         string         `json:"version"`
	RawPath         string         `json:"rawPath"`
	RawQueryString  string         `json:"rawQueryString"`
	Headers         eventHeaders   `json:"headers"`
	RequestContext  requestContext `json:"requestContext"`
	Body            string         `json:"body"`
	IsBase64Encoded bool           `json:"isBase64Encoded"`
}

// eventHeaders are headers of a request. encoding/json finds their names in upper and lower case.
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

// eventOf takes from a request what the handler reads.
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

// header finds a header, whose name may be in upper or lower case.
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

// requestID returns API Gateway's id of the request, or Lambda's for an event that has none.
func (e event) requestID(ctx context.Context) string {
	if id := e.RequestContext.RequestID; id != "" {
		return id
	}
	return requestid.Of(ctx)
}
