package claimapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// claimIDName is the member of a body and the parameter of a query that hold the id of a claim.
const claimIDName = "claim_id"

var errMayNotConfirm = errors.New("claimapi: claimants may not confirm their own holds")

// confirmation answers POST /campaigns/{campaign}/claims/{claimant}/confirmation. A caller who is the claimant is
// refused unless the settings say otherwise: they would confirm without paying.
func (h *Handler) confirmation(ctx context.Context, c *call) (reply, error) {
	caller, err := h.from.caller(ctx, c.event.RequestContext.Authorizer)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = c.claimantInPath(caller); err != nil {
		return reply{}, err
	}
	if caller != "" && !h.claimantsConfirm {
		return reply{}, errMayNotConfirm
	}
	id, err := claimIDInBody(c.event)
	if err != nil {
		return reply{}, err
	}
	claim, err := h.bank.Confirm(ctx, c.campaign, c.claimant, id)
	if err != nil {
		return reply{}, err
	}
	return granted(itembank.Grant{Claim: claim, Replayed: true}, c.event.RawPath), nil
}

// releaseHold answers DELETE /campaigns/{campaign}/claims/{claimant}.
func (h *Handler) releaseHold(ctx context.Context, c *call) (reply, error) {
	caller, err := h.from.caller(ctx, c.event.RequestContext.Authorizer)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = c.claimantInPath(caller); err != nil {
		return reply{}, err
	}
	id, err := claimIDInQuery(c.event)
	if err != nil {
		return reply{}, err
	}
	if _, err := h.bank.ReleaseHold(ctx, c.campaign, c.claimant, id); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent, headers: map[string]string{"Cache-Control": "no-store"}}, nil
}

// claimIDInBody returns the id that the body names. Errors: those of textInBody.
func claimIDInBody(e event) (string, error) {
	id, _, err := textInBody(e, claimIDName)
	if err == nil && id == "" {
		err = badMember(claimIDName, "is missing")
	}
	return id, err
}

// claimIDInQuery returns the id that the query names. The body of a DELETE means nothing in HTTP, and a proxy may drop it
// (RFC 9110, section 9.3.5).
func claimIDInQuery(e event) (string, error) {
	query, err := url.ParseQuery(e.RawQueryString)
	ids := query[claimIDName]
	switch {
	case err != nil:
		return "", badMember(claimIDName, "cannot be read: the query is not valid")
	case len(ids) > 1:
		return "", badMember(claimIDName, "occurs more than once")
	case len(ids) == 0 || ids[0] == "":
		return "", badMember(claimIDName, "is missing from the query, as in ?claim_id=ID")
	}
	return ids[0], nil
}
