package claimapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// claimIDName is the member of a body and the parameter of a query that have the id of a claim.
const claimIDName = "claim_id"

var errMayNotConfirm = errors.New("claimapi: claimants may not confirm their own holds")

// confirmation answers POST /campaigns/{campaign}/claims/{claimant}/confirmation. Callers who may be the claimant may
// not confirm unless the settings allow it, because they would confirm without paying.
func (h *Handler) confirmation(ctx context.Context, c *call) (reply, error) {
	caller, err := h.caller(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = h.claimantInPath(ctx, c, caller); err != nil {
		return reply{}, err
	}
	if !h.mayConfirm(caller) {
		return reply{}, errMayNotConfirm
	}
	_, id, slot, err := namedClaim(c.event, claimIDName, slotName)
	if err != nil {
		return reply{}, err
	}
	claim, err := h.bank.Confirm(ctx, c.campaign, c.claimant, id, itembank.InSlot(slot))
	if err != nil {
		return reply{}, err
	}
	return granted(itembank.Grant{Claim: claim, Replayed: true}, c.event.RawPath), nil
}

// prolongation answers POST /campaigns/{campaign}/claims/{claimant}/prolongation. The holder may prolong a hold, too:
// the campaign has a maximum.
func (h *Handler) prolongation(ctx context.Context, c *call) (reply, error) {
	caller, err := h.caller(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = h.claimantInPath(ctx, c, caller); err != nil {
		return reply{}, err
	}
	sent, id, slot, err := namedClaim(c.event, claimIDName, endsAtName, slotName)
	if err != nil {
		return reply{}, err
	}
	endsAt, err := sent.endsAt()
	if err != nil {
		return reply{}, err
	}
	claim, err := h.bank.Prolong(ctx, c.campaign, c.claimant, id, endsAt, itembank.InSlot(slot))
	if err != nil {
		return reply{}, err
	}
	return granted(itembank.Grant{Claim: claim, Replayed: true}, c.event.RawPath), nil
}

// namedClaim reads a body that names a claim, and may have these members.
func namedClaim(e event, members ...string) (sent body, id string, slot int, err error) {
	if sent, err = bodyOf(e, members...); err == nil {
		id, err = sent.claimID()
	}
	if err == nil {
		slot, err = sent.slot()
	}
	return sent, id, slot, err
}

// releaseHold answers DELETE /campaigns/{campaign}/claims/{claimant}.
func (h *Handler) releaseHold(ctx context.Context, c *call) (reply, error) {
	caller, err := h.caller(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = h.claimantInPath(ctx, c, caller); err != nil {
		return reply{}, err
	}
	id, err := claimIDInQuery(c.event)
	if err != nil {
		return reply{}, err
	}
	slot, err := slotInQuery(c.event)
	if err != nil {
		return reply{}, err
	}
	if _, err := h.bank.ReleaseHold(ctx, c.campaign, c.claimant, id, itembank.InSlot(slot)); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent, headers: map[string]string{"Cache-Control": "no-store"}}, nil
}

// claimIDInQuery returns the claim id in the query. It is not in the body, because the body of a DELETE has no
// meaning in HTTP, and a proxy may drop it (RFC 9110, section 9.3.5).
func claimIDInQuery(e event) (string, error) {
	id, err := inQuery(e, claimIDName)
	if err == nil && id == "" {
		err = badMember(claimIDName, "is missing from the query, as in ?claim_id=ID")
	}
	return id, err
}
