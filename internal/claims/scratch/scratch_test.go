package scratch_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/claims/scratch"
)

// TestOnlyScratchCampaignsAreScratch checks which names belong to scratch campaigns, because these are deleted with
// all their claims.
func TestOnlyScratchCampaignsAreScratch(t *testing.T) {
	for name, want := range map[string]bool{
		scratch.Campaign("0123456789ab", scratch.Holds): true, scratch.Campaign("0123456789ab", scratch.Ended): true,
		"oncebox-doctor": false, "oncebox-doctor-spring-holds": false, "oncebox-doctor-0123456789ab": false,
		"my-oncebox-doctor-0123456789ab-holds": false, "oncebox-doctor-0123456789ab-holds-2": false, "spring": false,
	} {
		if got := scratch.IsCampaign(name); got != want {
			t.Errorf("%s: want %t, got %t", name, want, got)
		}
	}
}
