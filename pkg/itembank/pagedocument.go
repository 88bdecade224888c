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

// Page reads the document of a campaign's page, or nil if none was stored. On DynamoDB it may be a second old.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) Page(ctx context.Context, campaign string) ([]byte, error) {
	return b.pageOf(ctx, campaign, engine.Eventual)
}

// CurrentPage is Page for a caller that changes the document. It returns the document of the last SetPage, at twice
// the price.
//
// The errors are as for Page.
func (b *Bank) CurrentPage(ctx context.Context, campaign string) ([]byte, error) {
	return b.pageOf(ctx, campaign, engine.Strong)
}

func (b *Bank) pageOf(ctx context.Context, campaign string, c engine.Consistency) ([]byte, error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return nil, err
	}
	if _, err := b.fixedRules(ctx, campaign); err != nil {
		return nil, err
	}
	return b.store.Page(ctx, campaign, c)
}
