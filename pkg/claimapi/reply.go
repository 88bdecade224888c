package claimapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// reply is an answer before it is encoded.
type reply struct {
	status   int
	headers  map[string]string
	body     any    // nil: none
	slug     string // of a problem, else ""
	replayed bool
}

// ClaimBody is a claim as clients get it, over HTTP and from the command line. Times are RFC 3339 in UTC, with
// milliseconds.
type ClaimBody struct {
	Campaign  string `json:"campaign"`
	Claimant  string `json:"claimant"`
	ClaimID   string `json:"claim_id"`
	Item      string `json:"item"`
	ClaimedAt string `json:"claimed_at"`
	EndsAt    string `json:"ends_at,omitempty"`
	Replayed  bool   `json:"replayed"`
}

// NewClaimBody makes the ClaimBody of a grant.
func NewClaimBody(g itembank.Grant) ClaimBody {
	c := g.Claim
	return ClaimBody{
		Campaign: c.Campaign, Claimant: c.Claimant, ClaimID: c.ID, Item: c.Item,
		ClaimedAt: timestamp(c.ClaimedAt), EndsAt: timestamp(c.EndsAt), Replayed: g.Replayed,
	}
}

// stateBody is a campaign as clients get it.
type stateBody struct {
	Campaign string         `json:"campaign"`
	State    itembank.State `json:"state"`
	OpensAt  string         `json:"opens_at,omitempty"`
	ClosesAt string         `json:"closes_at,omitempty"`
}

// granted is the answer to a claimant who holds an item: 201 with the Location of a new claim, or 200 for a claim that
// existed before. base is the path of the request.
func granted(g itembank.Grant, base string) reply {
	r := reply{status: http.StatusCreated, headers: newHeaders("application/json"), replayed: g.Replayed, body: NewClaimBody(g)}
	if g.Replayed {
		r.status = http.StatusOK
		r.headers["Idempotent-Replayed"] = "true"
		return r
	}
	r.headers["Location"] = base + "/" + url.PathEscape(g.Claim.Claimant)
	return r
}

func stateOf(c itembank.Campaign, s itembank.State) reply {
	return reply{status: http.StatusOK, headers: newHeaders("application/json"), body: stateBody{
		Campaign: c.Name, State: s, OpensAt: timestamp(c.OpensAt), ClosesAt: timestamp(c.ClosesAt),
	}}
}

func newHeaders(contentType string) map[string]string {
	return map[string]string{"Content-Type": contentType, "Cache-Control": "no-store"}
}

// timestamp writes a time in UTC with milliseconds, and the zero time as "".
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// text is the body of the reply.
func (r reply) text() string {
	if r.body == nil {
		return ""
	}
	return encode(r.body)
}

// response is the reply as API Gateway reads it.
func (r reply) response() events.APIGatewayV2HTTPResponse {
	return events.APIGatewayV2HTTPResponse{StatusCode: r.status, Headers: r.headers, Body: r.text()}
}

// encoder is a JSON encoder with its buffer.
type encoder struct {
	buffer bytes.Buffer
	json   *json.Encoder
}

// encoders keeps encoders between requests, since a container answers thousands.
var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.buffer)
	e.json.SetEscapeHTML(false) // the client gets the item as it was loaded
	return e
}}

func encode(value any) string {
	e, _ := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.buffer.Reset()
	_ = e.json.Encode(value) // strings, numbers and booleans cannot fail
	return string(bytes.TrimSpace(e.buffer.Bytes()))
}
