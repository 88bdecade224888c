package claims

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestCampaignChangedMeanwhile: an operator whose command another operator has overtaken hears what to do. Other errors
// stay as they are.
func TestCampaignChangedMeanwhile(t *testing.T) {
	err := changedHint("spring", itembank.ErrChanged)
	_, hint := cli.DescribeError(err, cli.ExitNo)
	if !errors.Is(err, itembank.ErrChanged) || !strings.Contains(hint, "oncebox campaign show spring") {
		t.Errorf("got %v", err)
	}
	if _, hint := cli.DescribeError(changedHint("spring", itembank.ErrLoaded), cli.ExitNo); hint != "" {
		t.Error("another error has the hint")
	}
}
