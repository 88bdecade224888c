package oncelambda

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/idempotency/internal/exchange"
)

// format reads the events of a source, and reads and writes its responses.
type format[Request, Response any] struct {
	event func(Request) event
	read  func(Response) reply
	write func(reply) Response
}

// event is a request in any format.
type event struct {
	method, path, query, id string
	headers                 map[string]string
	multi                   map[string][]string // nil: the source has only headers
	body                    string
	isBase64                bool
}

// reply is a response in any format.
type reply struct {
	status   int
	headers  map[string]string
	multi    map[string][]string
	body     string
	isBase64 bool
}

var apiGatewayV1 = format[events.APIGatewayProxyRequest, events.APIGatewayProxyResponse]{
	event: func(r events.APIGatewayProxyRequest) event {
		return event{
			r.HTTPMethod, r.Path, queryOf(r.QueryStringParameters, r.MultiValueQueryStringParameters),
			r.RequestContext.RequestID, r.Headers, r.MultiValueHeaders, r.Body, r.IsBase64Encoded,
		}
	},
	read: func(r events.APIGatewayProxyResponse) reply {
		return reply{r.StatusCode, r.Headers, r.MultiValueHeaders, r.Body, r.IsBase64Encoded}
	},
	write: func(r reply) events.APIGatewayProxyResponse {
		return events.APIGatewayProxyResponse{
			StatusCode: r.status, Headers: r.headers, MultiValueHeaders: r.multi, Body: r.body, IsBase64Encoded: r.isBase64,
		}
	},
}

var apiGatewayV2 = format[events.APIGatewayV2HTTPRequest, events.APIGatewayV2HTTPResponse]{
	event: func(r events.APIGatewayV2HTTPRequest) event {
		return event{
			r.RequestContext.HTTP.Method, r.RawPath, r.RawQueryString,
			r.RequestContext.RequestID, r.Headers, nil, r.Body, r.IsBase64Encoded,
		}
	},
	read: func(r events.APIGatewayV2HTTPResponse) reply {
		return reply{r.StatusCode, r.Headers, r.MultiValueHeaders, r.Body, r.IsBase64Encoded}
	},
	write: func(r reply) events.APIGatewayV2HTTPResponse {
		return events.APIGatewayV2HTTPResponse{
			StatusCode: r.status, Headers: r.headers, Body: r.body, IsBase64Encoded: r.isBase64,
		}
	},
}

var alb = format[events.ALBTargetGroupRequest, events.ALBTargetGroupResponse]{
	event: func(r events.ALBTargetGroupRequest) event {
		return event{
			r.HTTPMethod, r.Path, queryOf(r.QueryStringParameters, r.MultiValueQueryStringParameters),
			"", r.Headers, r.MultiValueHeaders, r.Body, r.IsBase64Encoded,
		}
	},
	read: func(r events.ALBTargetGroupResponse) reply {
		return reply{r.StatusCode, r.Headers, r.MultiValueHeaders, r.Body, r.IsBase64Encoded}
	},
	write: func(r reply) events.ALBTargetGroupResponse {
		return events.ALBTargetGroupResponse{
			StatusCode: r.status, StatusDescription: fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)),
			Headers: r.headers, MultiValueHeaders: r.multi, Body: r.body, IsBase64Encoded: r.isBase64,
		}
	},
}

var functionURL = format[events.LambdaFunctionURLRequest, events.LambdaFunctionURLResponse]{
	event: func(r events.LambdaFunctionURLRequest) event {
		return event{
			r.RequestContext.HTTP.Method, r.RawPath, r.RawQueryString,
			r.RequestContext.RequestID, r.Headers, nil, r.Body, r.IsBase64Encoded,
		}
	},
	read: func(r events.LambdaFunctionURLResponse) reply {
		return reply{r.StatusCode, r.Headers, nil, r.Body, r.IsBase64Encoded}
	},
	write: func(r reply) events.LambdaFunctionURLResponse {
		return events.LambdaFunctionURLResponse{
			StatusCode: r.status, Headers: r.headers, Body: r.body, IsBase64Encoded: r.isBase64,
		}
	},
}

// queryOf returns the parameters of an event without the text of its query, sorted by name.
func queryOf(single map[string]string, multi map[string][]string) string {
	if multi != nil {
		return url.Values(multi).Encode()
	}
	query := url.Values{}
	for name, value := range single {
		query.Set(name, value)
	}
	return query.Encode()
}

// values returns the values of a header, whose name may have any case.
func (e event) values(name string) (values []string) {
	if e.multi != nil {
		for n, all := range e.multi {
			if strings.EqualFold(n, name) {
				values = append(values, all...)
			}
		}
		return values
	}
	for n, value := range e.headers {
		if strings.EqualFold(n, name) {
			values = append(values, value)
		}
	}
	return values
}

// decode returns the body.
func (e event) decode(limit int) ([]byte, error) {
	body, err := bytesOf(e.body, e.isBase64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", exchange.ErrBodyCut, err)
	case len(body) > limit:
		return nil, exchange.ErrBodyTooLarge
	}
	return body, nil
}

func bytesOf(body string, isBase64 bool) ([]byte, error) {
	if !isBase64 {
		return []byte(body), nil
	}
	return base64.StdEncoding.DecodeString(body)
}

// The range of statuses that the sources send. They answer 502 in the place of others.
const leastStatus, mostStatus = 200, 599

// response returns what the rules need from a response of the handler. Where both kinds of headers have a name, the
// sources take the multi-value one.
func (r reply) response() (exchange.Response, error) {
	if !utf8.ValidString(r.body) {
		r.body = string([]rune(r.body)) // as JSON sends it to the first client: with U+FFFD for each wrong byte
	}
	body, err := bytesOf(r.body, r.isBase64)
	switch {
	case r.status < leastStatus || r.status > mostStatus:
		return exchange.Response{}, fmt.Errorf("oncelambda: the response of the handler has the status %d: use %d to %d",
			r.status, leastStatus, mostStatus)
	case err != nil:
		return exchange.Response{}, fmt.Errorf("oncelambda: the body of the handler's response is not base64: %w", err)
	}
	header := http.Header{}
	for name, value := range r.headers {
		header.Set(name, value)
	}
	for name, values := range r.multi {
		header[http.CanonicalHeaderKey(name)] = values
	}
	return exchange.Response{Status: r.status, Header: header, Body: body}, nil
}

// newReply returns a response in the form that the source of e reads: a load balancer reads only the kind of headers
// that it sends.
func newReply(e event, r exchange.Response) reply {
	answer := reply{status: r.Status, body: string(r.Body)}
	if !utf8.Valid(r.Body) {
		answer.body, answer.isBase64 = base64.StdEncoding.EncodeToString(r.Body), true
	}
	if e.multi != nil {
		answer.multi = r.Header
		return answer
	}
	answer.headers = map[string]string{}
	for name, values := range r.Header {
		answer.headers[name] = strings.Join(values, ", ")
	}
	return answer
}
