package claimapi

import (
	"context"
	"errors"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

var errMayNotReplace = errors.New("claimapi: only a back end may replace claims")

// replacementPart is the end of the path of a replacement.
const replacementPart = "/replacement"

// replacement answers POST /campaigns/{campaign}/claims/{claimant}/replacement. Only a caller who names the claimant, and
// who cannot be the claimant, may replace a claim: a customer could look at one code after the other.
func (h *Handler) replacement(ctx context.Context, c *call) (reply, error) {
	caller, err := h.caller(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if c.claimant, err = h.claimantInPath(ctx, c, caller); err != nil {
		return reply{}, err
	}
	if caller != "" || h.anyCaller {
		return reply{}, errMayNotReplace
	}
	sent, err := bodyOf(c.event, claimIDName, slotName)
	if err != nil {
		return reply{}, err
	}
	id, err := sent.claimID()
	if err != nil {
		return reply{}, err
	}
	slot, err := sent.slot()
	if err != nil {
		return reply{}, err
	}
	grant, err := h.bank.Replace(ctx, c.campaign, c.claimant, id, itembank.InSlot(slot))
	if err != nil {
		return reply{}, err
	}
	return granted(grant, strings.TrimSuffix(c.event.RawPath, "/"+c.named+replacementPart)), nil
}
