// Package claimapi is the claim API: the handler of the Lambda function in
// functions/claim, which `oncebox local`, `invoke` and `demo` run in process.
//
// It takes events of an API Gateway HTTP API, payload format 2.0. There rawPath
// is percent-decoded already (reported with live events in honojs/hono issue
// 2156 and middleapi/standard-server pull request 93), so it is never decoded
// again; whoever makes events by hand must put the decoded path into it.
// Lambda function URLs do not decode it and are not supported.
//
// # Life of a request
//
//  1. Handle sets a deadline short of Lambda's own and catches panics.
//  2. call.find finds the route; nothing else of the request was looked at.
//  3. ClaimantFrom.caller says who asks, namedInBody or the path whom they
//     name, speaksFor whether they may. All is checked before the bank is asked.
//  4. itembank.Bank answers.
//  5. granted or stateOf makes the answer, or refusal by the one table from
//     error to problem.
//  6. One log line tells of it, without claimant and item.
package claimapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
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
}

// New makes a Handler over a bank. The log gets one line per request; it never
// holds a claimant or an item.
func New(bank *itembank.Bank, from ClaimantFrom, log *slog.Logger) *Handler {
	return &Handler{bank, from, log}
}

// call is one request on its way.
type call struct {
	event    events.APIGatewayV2HTTPRequest
	id       string // the request's id
	route    route
	campaign string // from the path
	named    string // the claimant in the path
	claimant string // once it is settled
	stack    []byte // of a panic
}

// ErrNotHTTP says that an event is not a request of an HTTP API with payload
// format 2.0: look at what invokes the function.
var ErrNotHTTP = errors.New("claimapi: the event is not a request of an HTTP API with payload format 2.0; look at what invokes this function")

// Handle answers one request. Whatever happens to it is in the response, since
// API Gateway would answer an error with a text of its own. Only an event that
// is no such request is an error, ErrNotHTTP, so that a stream or queue wired to
// this function by mistake does not take its records for delivered.
func (h *Handler) Handle(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	if event.Version != payloadVersion {
		h.log.ErrorContext(ctx, ErrNotHTTP.Error(), "version", event.Version)
		return events.APIGatewayV2HTTPResponse{}, ErrNotHTTP
	}
	begun := time.Now()
	c := &call{event: event, id: requestID(ctx, event)}
	r, err := h.answer(ctx, c)
	if err != nil {
		r = refusal(err, c.id)
	}
	h.report(ctx, c, r, err, time.Since(begun))
	return r.response(), nil
}

// requestID is API Gateway's id, or Lambda's own for an event without one.
func requestID(ctx context.Context, event events.APIGatewayV2HTTPRequest) string {
	if id := event.RequestContext.RequestID; id != "" {
		return id
	}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}

// answer runs the route under a deadline. A panic becomes an error: it belongs
// to one request, and a container holds nothing that a half-done one could spoil.
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

// claim: POST /campaigns/{campaign}/claims.
func (h *Handler) claim(ctx context.Context, c *call) (reply, error) {
	caller, err := h.from.caller(c.event)
	if err != nil {
		return reply{}, err
	}
	named, err := namedInBody(c.event)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = speaksFor(caller, named); err != nil {
		return reply{}, err
	}
	grant, err := h.bank.Claim(ctx, c.campaign, c.claimant)
	if err != nil {
		return reply{}, err
	}
	return granted(grant, c.event.RawPath), nil
}

// heldClaim: GET /campaigns/{campaign}/claims/{claimant}.
func (h *Handler) heldClaim(ctx context.Context, c *call) (reply, error) {
	caller, err := h.from.caller(c.event)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = c.askedFor(caller); err != nil {
		return reply{}, err
	}
	held, err := h.bank.HeldClaim(ctx, c.campaign, c.claimant)
	if err != nil {
		return reply{}, err
	}
	return granted(itembank.Grant{Claim: held, Replayed: true}, c.event.RawPath), nil
}

// askedFor settles the claimant in the path. "me" is the caller, if there is an
// identity; else it is a claimant like any other.
func (c *call) askedFor(caller string) (string, error) {
	if caller != "" && c.named == callerAlias {
		return caller, nil
	}
	if err := validateClaimant(c.named); err != nil {
		return "", err
	}
	return speaksFor(caller, c.named)
}

// campaignState: GET /campaigns/{campaign}. It asks nobody who they are: where
// the state is not public, the API has an authorizer.
func (h *Handler) campaignState(ctx context.Context, c *call) (reply, error) {
	campaign, state, err := h.bank.State(ctx, c.campaign)
	if err != nil {
		return reply{}, err
	}
	return stateOf(campaign, state), nil
}

// report writes the request's log line. Errors are told only if they are the
// server's; the client's own are in the slug.
func (h *Handler) report(ctx context.Context, c *call, r reply, err error, took time.Duration) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("method", c.event.RequestContext.HTTP.Method),
		slog.String("route", c.routeName()),
		slog.Int("status", r.status),
		slog.String("slug", r.slug),
		slog.String("request_id", c.id),
		slog.String("campaign", c.safeCampaign()),
		slog.Bool("replayed", r.replayed),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	if r.status >= http.StatusInternalServerError {
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", c.censor(err.Error())))
	}
	if r.slug == slugTryAgain {
		level = slog.LevelWarn
	}
	if c.stack != nil {
		attrs = append(attrs, slog.String("stack", c.censor(string(c.stack))))
	}
	h.log.LogAttrs(ctx, level, "request", attrs...)
}

func (c *call) routeName() string {
	if c.route.serve == nil {
		return ""
	}
	return c.route.name()
}

// safeCampaign is the campaign if it can be one: a path may hold anything.
func (c *call) safeCampaign() string {
	if itembank.ValidateName("campaign", c.campaign) != nil {
		return ""
	}
	return c.campaign
}

// censor takes the claimant out of an error's text, plain or quoted. Errors of
// the engines hold neither claimants nor items; this is the second lock.
func (c *call) censor(text string) string {
	if c.claimant == "" {
		return text
	}
	quoted := strconv.Quote(c.claimant)
	return strings.NewReplacer(c.claimant, "[claimant]", quoted[1:len(quoted)-1], "[claimant]").Replace(text)
}
