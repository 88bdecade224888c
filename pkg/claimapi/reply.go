package claimapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// reply is an answer before it is encoded.
type reply struct {
	status   int
	headers  map[string]string
	body     any    // nil: no body
	file     []byte // instead of body: bytes that are not JSON
	slug     string // of a problem, otherwise ""
	replayed bool
}

// ClaimBody is a claim in the form for clients, over HTTP and from the command line. Times are RFC 3339 in UTC, with
// milliseconds.
type ClaimBody struct {
	Campaign string `json:"campaign"`
	Claimant string `json:"claimant"`
	Slot     int    `json:"slot,omitempty"` // absent: slot 1
	ClaimID  string `json:"claim_id"`

	ItemBody            // the first item
	Items    []ItemBody `json:"items,omitempty"` // all items, if the claim has several

	ClaimedAt string `json:"claimed_at"`
	EndsAt    string `json:"ends_at,omitempty"`
	Replayed  bool   `json:"replayed"`
}

// ItemBody is an item in the form for clients.
type ItemBody struct {
	Item    string           `json:"item"`
	Columns itembank.Columns `json:"columns,omitempty"`
}

// ItemsOf returns the ItemBody of each item of a claim.
func ItemsOf(c itembank.Claim) (bodies []ItemBody) {
	for i, item := range c.Items {
		bodies = append(bodies, ItemBody{item, c.ColumnsOf(i)})
	}
	return bodies
}

// NewClaimBody returns the ClaimBody of a grant.
func NewClaimBody(g itembank.Grant) ClaimBody {
	c := g.Claim
	items := ItemsOf(c)
	body := ClaimBody{
		Campaign: c.Campaign, Claimant: c.Claimant, ClaimID: c.ID,
		ClaimedAt: timestamp(c.ClaimedAt), EndsAt: timestamp(c.EndsAt), Replayed: g.Replayed,
	}
	if c.Slot > 1 {
		body.Slot = c.Slot
	}
	if len(items) > 0 {
		body.ItemBody = items[0]
	}
	if len(items) > 1 {
		body.Items = items
	}
	return body
}

// stateBody is a campaign in the form for clients.
type stateBody struct {
	Campaign string         `json:"campaign"`
	State    itembank.State `json:"state"`
	OpensAt  string         `json:"opens_at,omitempty"`
	ClosesAt string         `json:"closes_at,omitempty"`
	Returns  bool           `json:"items_return,omitempty"`
}

// granted returns the reply to a claimant who holds an item: 201 with the Location of a new claim, or 200 for an
// existing claim. base is the path of the request.
func granted(g itembank.Grant, base string) reply {
	r := reply{status: http.StatusCreated, headers: newHeaders("application/json"), replayed: g.Replayed, body: NewClaimBody(g)}
	if g.Replayed {
		r.status = http.StatusOK
		r.headers["Idempotent-Replayed"] = "true"
		return r
	}
	r.headers["Location"] = base + "/" + url.PathEscape(g.Claim.Claimant)
	if slot := g.Claim.Slot; slot > 1 {
		r.headers["Location"] += fmt.Sprintf("?%s=%d", slotName, slot)
	}
	return r
}

func stateOf(c itembank.Campaign, s itembank.State) reply {
	return reply{status: http.StatusOK, headers: newHeaders("application/json"), body: stateBody{
		Campaign: c.Name, State: s, OpensAt: timestamp(c.OpensAt), ClosesAt: timestamp(c.ClosesAt),
		Returns: c.OnEnd == itembank.Return,
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

// text returns the body of the reply.
func (r reply) text() string {
	if r.body == nil {
		return string(r.file)
	}
	return encode(r.body)
}

// response returns the reply in the form for API Gateway.
func (r reply) response() events.APIGatewayV2HTTPResponse {
	answer := events.APIGatewayV2HTTPResponse{StatusCode: r.status, Headers: r.headers, Body: r.text()}
	if !utf8.Valid(r.file) {
		answer.Body, answer.IsBase64Encoded = base64.StdEncoding.EncodeToString(r.file), true
	}
	return answer
}

// encoder is a JSON encoder with its buffer.
type encoder struct {
	buffer bytes.Buffer
	json   *json.Encoder
}

// encoders keeps encoders for later requests, because a container answers thousands.
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
