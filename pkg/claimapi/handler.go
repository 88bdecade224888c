package claimapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/deadline"
	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// Handler answers the requests of the claim API. It is safe for concurrent use.
type Handler struct {
	bank *itembank.Bank
	from ClaimantFrom
	log  *slog.Logger
	intN func(n int) int // a random number from 0 to n-1
	now  func() time.Time

	routes           []route
	claimantsConfirm bool
	anyCaller        bool
	linkKeys         claimlink.Keys
	pages            pages // of campaigns, if the page is on
	challenge        *Challenge

	metrics    *emf.Line // nil: no metrics
	contention contention
}

// Option changes a default of a Handler.
type Option func(*Handler)

// WithClaimantsConfirm says whether callers may confirm their own holds. The default is no, because a customer would
// confirm without paying. A back end that names its customer can always confirm.
func WithClaimantsConfirm(allowed bool) Option {
	return func(h *Handler) { h.claimantsConfirm = allowed }
}

// WithAnyCaller says whether the routes of an API let every caller through, who then may name any claimant. It is for the
// ClaimantFrom body. The default is no: an event without the IAM identity of its caller is answered 401. With yes,
// callers may confirm holds only with WithClaimantsConfirm, because they may be the customers.
func WithAnyCaller(allowed bool) Option {
	return func(h *Handler) { h.anyCaller = allowed }
}

// WithLinkKeys sets the public keys of personal links, for the ClaimantFrom link. Without keys no link is valid.
func WithLinkKeys(keys claimlink.Keys) Option {
	return func(h *Handler) { h.linkKeys = keys }
}

// New makes a Handler for a bank. The log gets one line for each request. The line never contains a claimant, an item
// or a token.
func New(bank *itembank.Bank, from ClaimantFrom, log *slog.Logger, options ...Option) *Handler {
	h := &Handler{bank: bank, from: from, log: log, intN: rand.IntN, now: time.Now, routes: routes}
	for _, o := range options {
		o(h)
	}
	return h
}

// call is one request while it is being answered.
type call struct {
	event    event
	id       string // the request's id
	route    route
	campaign string // from the path
	named    string // the claimant in the path, or the file of the page
	claimant string // set once it is known
	stack    []byte // of a panic, if there was one
}

// ErrNotHTTP means that an event is not a request of an HTTP API with payload format 2.0: another service invokes the
// function.
var ErrNotHTTP = errors.New(
	"claimapi: the event is not a request of an HTTP API with payload format 2.0; check what invokes this function")

// Handle answers one request, as a Lambda function does. Every failure of a request is in the response, because API
// Gateway would replace the text of an error by its own. It is safe to repeat a request.
//
// The only error is ErrNotHTTP, for an event that is not a request. If a stream or a queue is connected to this
// function by mistake, its records must not count as delivered.
func (h *Handler) Handle(
	ctx context.Context, request events.APIGatewayV2HTTPRequest,
) (events.APIGatewayV2HTTPResponse, error) {
	r, err := h.handle(ctx, eventOf(request))
	if err != nil {
		return events.APIGatewayV2HTTPResponse{}, err
	}
	return r.response(), nil
}

// Invoke implements lambda.Handler. It decodes only the parts of an event that it needs. For Handle the Lambda
// runtime decodes the whole event, which takes longer than all other work of a request.
func (h *Handler) Invoke(ctx context.Context, raw []byte) ([]byte, error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, h.refuse(ctx, err.Error())
	}
	r, err := h.handle(ctx, e)
	if err != nil {
		return nil, err
	}
	return []byte(encode(r.response())), nil
}

func (h *Handler) handle(ctx context.Context, e event) (reply, error) {
	if e.Version != payloadVersion {
		return reply{}, h.refuse(ctx, fmt.Sprintf("its version is %q", e.Version))
	}
	return h.respond(ctx, e), nil
}

// respond answers a request and writes its log line.
func (h *Handler) respond(ctx context.Context, e event) reply {
	begun := time.Now()
	c := &call{event: e, id: e.requestID(ctx)}
	r, err := h.answer(ctx, c)
	if err != nil {
		r = h.refusal(err, c.id)
	}
	h.report(ctx, c, r, err, time.Since(begun))
	return r
}

// answer runs the route under a deadline. It turns a panic into an error of this request: a Handler has no state that
// an unfinished request could damage.
func (h *Handler) answer(ctx context.Context, c *call) (r reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.stack = debug.Stack()
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := c.find(h.routes); err != nil {
		return reply{}, err
	}
	ctx, cancel := deadline.WithMargin(ctx)
	defer cancel()
	return c.route.serve(h, ctx, c)
}

// claim answers POST /campaigns/{campaign}/claims.
func (h *Handler) claim(ctx context.Context, c *call) (reply, error) {
	caller, err := h.caller(ctx, c)
	if err != nil {
		return reply{}, err
	}
	sent, err := bodyOf(c.event, claimantName, slotName, itemName, itemsName, challengeName)
	if err != nil {
		return reply{}, err
	}
	named, err := sent.claimant()
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = h.claimantOf(ctx, c.campaign, caller, named); err != nil {
		return reply{}, err
	}
	slot, err := sent.slot()
	if err != nil {
		return reply{}, err
	}
	chosen, err := sent.chosen()
	if err != nil {
		return reply{}, err
	}
	if err := h.checkChallenge(ctx, sent); err != nil {
		return reply{}, err
	}
	grant, err := h.bank.Claim(ctx, c.campaign, c.claimant, itembank.InSlot(slot), itembank.Choosing(chosen...))
	if err != nil {
		return reply{}, err
	}
	return granted(grant, c.event.RawPath), nil
}

// heldClaim answers GET /campaigns/{campaign}/claims/{claimant}.
func (h *Handler) heldClaim(ctx context.Context, c *call) (reply, error) {
	caller, err := h.caller(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = h.claimantInPath(ctx, c, caller); err != nil {
		return reply{}, err
	}
	slot, err := slotInQuery(c.event)
	if err != nil {
		return reply{}, err
	}
	held, err := h.bank.HeldClaim(ctx, c.campaign, c.claimant, itembank.InSlot(slot))
	if err != nil {
		return reply{}, err
	}
	return granted(itembank.Grant{Claim: held, Replayed: true}, c.event.RawPath), nil
}

// claimantInPath returns the claimant in the path. With an identity, "me" means the caller. Without one, it is a
// claimant like any other.
func (h *Handler) claimantInPath(ctx context.Context, c *call, caller string) (string, error) {
	if caller != "" && c.named == callerAlias {
		return caller, nil
	}
	if err := ValidateClaimant(c.named); err != nil {
		return "", err
	}
	return h.claimantOf(ctx, c.campaign, caller, c.named)
}

// campaignState answers GET /campaigns/{campaign}, for any caller. If the state must not be public, give the API an
// authorizer.
func (h *Handler) campaignState(ctx context.Context, c *call) (reply, error) {
	campaign, state, err := h.bank.State(ctx, c.campaign)
	if err != nil {
		return reply{}, err
	}
	return stateOf(campaign, state), nil
}
