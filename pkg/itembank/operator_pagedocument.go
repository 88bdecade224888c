package itembank

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// MaxPageDocument is the largest document of a campaign's page, in bytes. Reading it costs up to 16 read units on DynamoDB.
const MaxPageDocument = 128 << 10

// SetPageDocument stores the document of a campaign's page, and replaces the earlier one. The Bank does not interpret it: its
// form is defined by package claimpage. If two calls run at once, one wins. DeleteCampaign deletes the document.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) SetPageDocument(ctx context.Context, campaign string, document []byte) error {
	if len(document) > MaxPageDocument {
		return &InvalidError{"page", fmt.Sprintf("has %d bytes, at most %d are allowed", len(document), MaxPageDocument)}
	}
	if err := ValidateName("campaign", campaign); err != nil {
		return err
	}
	put, err := b.store.PutPageDocument(ctx, campaign, document)
	if err == nil && !put {
		err = ErrNoCampaign
	}
	return err
}

// CurrentPageDocument is PageDocument for a caller that changes the document. It returns the document of the last SetPageDocument, at twice
// the price.
//
// The errors are as for PageDocument.
func (b *Operator) CurrentPageDocument(ctx context.Context, campaign string) ([]byte, error) {
	return b.pageDocument(ctx, campaign, engine.Strong)
}
