package itembank

import (
	"context"
	"fmt"
)

// MaxPage is the largest document of a campaign's page, in bytes. DynamoDB reads it for up to 16 units.
const MaxPage = 128 << 10

// SetPage stores the document of a campaign's page, in the place of the one before. The Bank does not look into it:
// package claimpage has the form. Of two calls at once, one wins. DeleteCampaign deletes the document.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) SetPage(ctx context.Context, campaign string, document []byte) error {
	if len(document) > MaxPage {
		return &InvalidError{"page", fmt.Sprintf("has %d bytes, at most %d are allowed", len(document), MaxPage)}
	}
	if err := ValidateName("campaign", campaign); err != nil {
		return err
	}
	put, err := b.store.PutPage(ctx, campaign, document)
	if err == nil && !put {
		err = ErrNoCampaign
	}
	return err
}

// Page reads the document of a campaign's page, nil if none was stored. On DynamoDB it may be that of a second ago.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) Page(ctx context.Context, campaign string) ([]byte, error) {
	return b.pageOf(ctx, campaign, false)
}

// CurrentPage is Page for a caller that changes the document. It reads what the last SetPage stored, and costs twice as much.
//
// Errors: those of Page.
func (b *Bank) CurrentPage(ctx context.Context, campaign string) ([]byte, error) {
	return b.pageOf(ctx, campaign, true)
}

func (b *Bank) pageOf(ctx context.Context, campaign string, consistent bool) ([]byte, error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return nil, err
	}
	if _, err := b.fixedRules(ctx, campaign); err != nil {
		return nil, err
	}
	return b.store.Page(ctx, campaign, consistent)
}
