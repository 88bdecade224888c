package claimapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// payloadVersion is the payload format of the events.
const payloadVersion = "2.0"

// Handler answers the requests of the claim API. It is safe for concurrent use.
type Handler struct {
	bank *itembank.Bank
	from ClaimantFrom
	log  *slog.Logger
	intN func(n int) int // a random number from 0 to n-1
}

// New makes a Handler over a bank. The log gets one line for each request; the line never holds a claimant or an item.
func New(bank *itembank.Bank, from ClaimantFrom, log *slog.Logger) *Handler {
	return &Handler{bank, from, log, rand.IntN}
}

// call is one request while it is being answered.
type call struct {
	event    events.APIGatewayV2HTTPRequest
	id       string // the request's id
	route    route
	campaign string // from the path
	named    string // the claimant in the path
	claimant string // set once it is known
	stack    []byte // of a panic
}

// ErrNotHTTP means that an event is not a request of an HTTP API with payload format 2.0: something else invokes the
// function.
var ErrNotHTTP = errors.New(
	"claimapi: the event is not a request of an HTTP API with payload format 2.0; check what invokes this function")

// Handle answers one request, as a Lambda function does. Every failure of a request is in the response, since API
// Gateway would replace the text of an error with its own. Repeating a request is safe.
//
// The only error is ErrNotHTTP, for an event that is not a request. A stream or queue that is connected to this
// function by mistake must not take its records for delivered.
func (h *Handler) Handle(
	ctx context.Context, event events.APIGatewayV2HTTPRequest,
) (events.APIGatewayV2HTTPResponse, error) {
	if event.Version != payloadVersion {
		h.log.ErrorContext(ctx, ErrNotHTTP.Error(), "version", event.Version)
		return events.APIGatewayV2HTTPResponse{}, ErrNotHTTP
	}
	return h.respond(ctx, event), nil
}

// respond answers a request and writes its log line.
func (h *Handler) respond(ctx context.Context, event events.APIGatewayV2HTTPRequest) events.APIGatewayV2HTTPResponse {
	begun := time.Now()
	c := &call{event: event, id: requestID(ctx, event)}
	r, err := h.answer(ctx, c)
	if err != nil {
		r = h.refusal(err, c.id)
	}
	h.report(ctx, c, r, err, time.Since(begun))
	return r.response()
}

// requestID returns API Gateway's id of the request, or Lambda's for an event that has none.
func requestID(ctx context.Context, event events.APIGatewayV2HTTPRequest) string {
	if id := event.RequestContext.RequestID; id != "" {
		return id
	}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}

// answer runs the route under a deadline. A panic becomes an error of this one request: a Handler has no state that a
// half-done request could damage.
func (h *Handler) answer(ctx context.Context, c *call) (r reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.stack = debug.Stack()
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := c.find(); err != nil {
		return reply{}, err
	}
	ctx, cancel := deadline.WithMargin(ctx)
	defer cancel()
	return c.route.serve(h, ctx, c)
}

// claim answers POST /campaigns/{campaign}/claims.
func (h *Handler) claim(ctx context.Context, c *call) (reply, error) {
	caller, err := h.from.caller(ctx, c.event)
	if err != nil {
		return reply{}, err
	}
	named, err := namedInBody(c.event)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = claimantOf(caller, named); err != nil {
		return reply{}, err
	}
	grant, err := h.bank.Claim(ctx, c.campaign, c.claimant)
	if err != nil {
		return reply{}, err
	}
	return granted(grant, c.event.RawPath), nil
}

// heldClaim answers GET /campaigns/{campaign}/claims/{claimant}.
func (h *Handler) heldClaim(ctx context.Context, c *call) (reply, error) {
	caller, err := h.from.caller(ctx, c.event)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = c.claimantInPath(caller); err != nil {
		return reply{}, err
	}
	held, err := h.bank.HeldClaim(ctx, c.campaign, c.claimant)
	if err != nil {
		return reply{}, err
	}
	return granted(itembank.Grant{Claim: held, Replayed: true}, c.event.RawPath), nil
}

// claimantInPath returns the claimant that the path asks for. "me" is the caller where there is an identity, and a
// claimant like any other where there is none.
func (c *call) claimantInPath(caller string) (string, error) {
	if caller != "" && c.named == callerAlias {
		return caller, nil
	}
	if err := validateClaimant(c.named); err != nil {
		return "", err
	}
	return claimantOf(caller, c.named)
}

// campaignState answers GET /campaigns/{campaign}. It does not look at the caller: if the state must not be public,
// give the API an authorizer.
func (h *Handler) campaignState(ctx context.Context, c *call) (reply, error) {
	campaign, state, err := h.bank.State(ctx, c.campaign)
	if err != nil {
		return reply{}, err
	}
	return stateOf(campaign, state), nil
}
