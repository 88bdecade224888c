package itembank

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// PageDocument reads the document of a campaign's page, or nil if none was stored. On DynamoDB it may be a second old.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) PageDocument(ctx context.Context, campaign string) ([]byte, error) {
	return b.pageDocument(ctx, campaign, engine.Eventual)
}

func (b *Bank) pageDocument(ctx context.Context, campaign string, c engine.Consistency) ([]byte, error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return nil, err
	}
	if _, err := b.fixedRules(ctx, campaign); err != nil {
		return nil, err
	}
	return b.store.PageDocument(ctx, campaign, c)
}
