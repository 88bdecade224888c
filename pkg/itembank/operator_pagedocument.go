package itembank

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// MaxPage is the largest document of a campaign's page, in bytes. Reading it costs up to 16 read units on DynamoDB.
const MaxPage = 128 << 10

// SetPage stores the document of a campaign's page, and replaces the earlier one. The Bank does not interpret it: its
// form is defined by package claimpage. If two calls run at once, one wins. DeleteCampaign deletes the document.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) SetPage(ctx context.Context, campaign string, document []byte) error {
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

// CurrentPage is Page for a caller that changes the document. It returns the document of the last SetPage, at twice
// the price.
//
// The errors are as for Page.
func (b *Operator) CurrentPage(ctx context.Context, campaign string) ([]byte, error) {
	return b.pageOf(ctx, campaign, engine.Strong)
}
