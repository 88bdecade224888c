package cost

import (
	"fmt"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

// These are the names of the ledgers, as in ONCEBOX_LEDGER.
const (
	Keys   = "keys"
	Log    = "log"
	Valkey = "valkey"
)

// Comparison holds the costs of the three ledgers for one load.
type Comparison struct {
	Load         Load     `json:"load"`
	Window       string   `json:"window"`
	Horizon      string   `json:"horizon"`
	Environments int      `json:"environments"`
	Keys         Estimate `json:"keys"`
	Log          Estimate `json:"log"`
	LogSizes     Sizes    `json:"log_sizes"`
	Valkey       Estimate `json:"valkey"`
	Cluster      Cluster  `json:"cluster"`
	Use          string   `json:"use"` // keys, log or valkey
	Because      string   `json:"because"`
	PricesAsOf   string   `json:"prices_as_of"`
}

// Compare calculates the costs of the ledgers for a load that Check has accepted.
func Compare(l Load) Comparison {
	c := Comparison{
		Load: l, Window: settings.FormatDuration(l.Window), Horizon: settings.FormatDuration(l.Horizon),
		Environments: l.Environments(), Keys: l.keys(), PricesAsOf: pricesAsOf,
	}
	c.Load.ColdStarts = l.coldStarts()
	c.Log, c.LogSizes = l.log()
	c.Valkey, c.Cluster = l.valkey()
	c.choose()
	return c
}

// From these limits on, a ledger other than the default is worth its work.
const (
	worthShare = 0.8 // at most this share of the default's price
	worthUSD   = 5   // at least this much less a day, in USD
)

func worth(price, than float64) bool { return price <= worthShare*than && than-price >= worthUSD }

// choose chooses the recommended ledger.
func (c *Comparison) choose() {
	c.Use, c.Because = Keys, fmt.Sprintf("no other ledger saves %d USD a day and a fifth of the price", worthUSD)
	best := c.Keys.Total
	if c.Log.Problem == "" && worth(c.Log.Total, best) {
		c.Use, best = Log, c.Log.Total
		c.Because = fmt.Sprintf("it costs %.0f USD a day less than %s, and loses nothing in a failover", c.Keys.Total-best, Keys)
	}
	if c.Valkey.Problem == "" && worth(c.Valkey.Total, best) {
		c.Use = Valkey
		c.Because = fmt.Sprintf("it costs %.0f USD a day less than %s; a failover may lose the entries of its last moments, "+
			"and their copies are delivered", c.Keys.Total-c.Valkey.Total, Keys)
	}
}
