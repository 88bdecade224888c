package memstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

func TestItems(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(testing.TB) enginetest.Engine {
		s := memstore.NewItems()
		return enginetest.Engine{Store: s, Raw: s}
	})
}

// TestItemsObeyContexts checks that, as a database, the store does nothing for a context that has ended.
func TestItemsObeyContexts(t *testing.T) {
	t.Parallel()
	s := memstore.NewItems()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := engine.Campaign{Name: "c"}
	_, create := s.CreateCampaign(ctx, c)
	_, campaign := s.Campaign(ctx, "c")
	_, campaigns := s.Campaigns(ctx)
	_, replace := s.ReplaceCampaign(ctx, c, c)
	_, free := s.FreeItems(ctx, engine.Shard{}, engine.Range{}, 1, engine.Strong)
	_, take := s.Take(ctx, make([]engine.FreeItem, 1), engine.Claim{})
	_, _, held := s.HeldClaim(ctx, engine.ClaimKey{Scope: "c", Claimant: "ann", Slot: 1}, engine.Strong)
	_, closeClaim := s.CloseClaim(ctx, engine.CloseRequest{})
	_, row := s.ItemRow(ctx, "c", engine.Hash{})
	_, add := s.AddItems(ctx, make([]engine.AddRequest, 1))
	_, end := s.EndItems(ctx, make([]engine.EndRequest, 1))
	_, _, loads := s.Loads(ctx, "c")
	_, nextVersion := s.NextVersion(ctx, "c")
	_, markEmpty := s.MarkEmpty(ctx, "c", 0)
	_, latest := s.LatestLoad(ctx, "c", "d")
	_, _, start := s.StartLoad(ctx, engine.Load{Campaign: "c", Digest: "d", Number: 1}, false)
	_, advance := s.UpdateLoad(ctx, engine.Load{})
	_, giveUp := s.UpdateLoad(ctx, engine.Load{GivenUp: true})
	_, _, claims := s.ListClaims(ctx, "c", "")
	_, _, rows := s.ListItemRows(ctx, "c", "")
	_, counts := s.Counts(ctx, c, true)
	_, repair := s.Repair(ctx, engine.RepairRequest{PutRow: &engine.ItemRow{}, IfRow: &engine.ItemRow{}})
	for method, err := range map[string]error{
		"CreateCampaign": create, "Campaign": campaign, "Campaigns": campaigns, "ReplaceCampaign": replace, "FreeItems": free,
		"Take": take, "HeldClaim": held, "CloseClaim": closeClaim,
		"ItemRow": row, "AddItems": add, "EndItems": end, "Loads": loads, "NextVersion": nextVersion, "MarkEmpty": markEmpty, "LatestLoad": latest, "StartLoad": start,
		"UpdateLoad": advance, "UpdateLoad, given up": giveUp, "ListClaims": claims, "ListItemRows": rows, "Counts": counts, "Repair": repair,
		"PutBankRow": s.PutBankRow(ctx, engine.FreeItem{}),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: want %v, got %v", method, context.Canceled, err)
		}
	}
	if all, err := s.Campaigns(t.Context()); len(all) > 0 || err != nil {
		t.Errorf("something was written: %+v, %v", all, err)
	}
}
