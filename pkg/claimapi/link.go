package claimapi

import (
	"context"
	"errors"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

var errOtherCampaign = errors.New("claimapi: the link is for another campaign")

// linkHolder returns the claimant of the personal link in the header Authorization, or "" if there is none. It checks
// the signature before it reads from the store. Errors: those of claimlink.Keys.Verify, errOtherCampaign, and those
// of itembank.Bank.Scope for a link to a scope.
func (h *Handler) linkHolder(ctx context.Context, c *call) (string, error) {
	scheme, token, _ := strings.Cut(c.event.Headers.Authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	claims, err := h.linkKeys.Verify(token, h.now())
	if err != nil {
		return "", err
	}
	named, wanted := claims.Campaign, c.campaign
	if claims.Scope != "" {
		named = claims.Scope
		wanted, err = h.bank.Scope(ctx, c.campaign)
	} else {
		err = itembank.ValidateName("campaign", c.campaign)
	}
	switch {
	case err != nil:
		return "", err
	case named != wanted:
		return "", errOtherCampaign
	}
	return claims.Claimant, nil
}
