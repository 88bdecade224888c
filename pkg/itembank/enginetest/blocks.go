package enginetest

import (
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var blockCases = []testCase{
	{"block-keeps-claims-out", blockKeepsOut},
	{"block-replaces-a-claim", blockReplaces},
}

// newBlock returns the block of a slot.
func newBlock(key engine.ClaimKey) engine.Claim {
	return engine.Claim{
		ID: enginerows.NewName(), Scope: key.Scope, Claimant: key.Claimant, Slot: key.Slot,
		ClaimedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
}

// blockKeepsOut: a block is put if its key is absent, no claim is put while it exists, and it is deleted by its id. It
// counts in no campaign.
func blockKeepsOut(f *fixture) {
	c, items := f.stocked(3, 2)
	block := newBlock(enginerows.FirstSlot(c, "ann"))
	if r, err := f.Store.Take(f.Context(), nil, block); err != nil || !r.Taken() {
		f.Fatalf("the block was not put: %+v, %v", r, err)
	}
	f.wantSlot(block.Key(), block)
	f.wantTake(c, enginerows.NewClaim(c, "ann", items[0]), engine.TakeResult{Held: &block})
	if r, err := f.Store.Take(f.Context(), nil, newBlock(block.Key())); err != nil || r.Held == nil || *r.Held != block {
		f.Errorf("want the block that was there, got %+v, %v", r, err)
	}
	second := f.takeSlot(c, "ann", 2, items[1])
	f.WantCounts(c, engine.Counts{Loaded: 3, Free: 2, Claimed: 1})
	listed, _ := enginerows.List(f.Rows, c.Scope, f.Store.ListClaims)
	wantListed(f, listed, []engine.Claim{block, second})
	if r, err := f.Store.ConfirmClaim(f.Context(), enginerows.NewClaim(c, "ann", items[0])); err != nil || r.Held == nil || *r.Held != block {
		f.Errorf("a confirmation: want the block, got %+v, %v", r, err)
	}

	if r, err := f.Store.CloseClaim(f.Context(), engine.CloseRequest{Claim: newBlock(block.Key())}); err != nil || r != (engine.CloseResult{ClaimChanged: true}) {
		f.Errorf("another block: got %+v, %v", r, err)
	}
	f.Close(engine.CloseRequest{Claim: block})
	f.wantSlot(block.Key(), engine.Claim{})
	f.wantTake(c, enginerows.NewClaim(c, "ann", items[0]), engine.TakeResult{})
}

// blockReplaces: the transaction that closes a claim puts the block, or changes nothing. The row of the block has
// nothing of the claim.
func blockReplaces(f *fixture) {
	c, items := f.stocked(2, 1)
	claim := enginerows.NewClaim(c, "ann", items[0])
	claim.EndsAt = time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	f.wantTake(c, claim, engine.TakeResult{})
	block := newBlock(claim.Key())

	other := enginerows.BurnOf(c, claim)
	other.Claim.ID, other.Next = "another", &block
	if r, err := f.Store.CloseClaim(f.Context(), other); err != nil || !r.ClaimChanged {
		f.Errorf("another claim: got %+v, %v", r, err)
	}
	f.wantSlot(claim.Key(), claim)

	closing := enginerows.BurnOf(c, claim)
	closing.Next = &block
	f.Close(closing)
	f.wantSlot(claim.Key(), block)
	f.WantCounts(c, engine.Counts{Loaded: 2, Free: 1, Ended: 1})
	f.wantTake(c, enginerows.NewClaim(c, "ann", items[1]), engine.TakeResult{Held: &block})
	if r, err := f.Store.CloseClaim(f.Context(), closing); err != nil || !r.ClaimChanged {
		f.Errorf("a repeat: got %+v, %v", r, err)
	}
}
