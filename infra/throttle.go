package infra

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// units are read and write units of DynamoDB, for a request or a second.
type units struct{ reads, writes int }

func (u units) times(n int) units { return units{u.reads * n, u.writes * n} }

func (u units) fits(in units) bool { return u.reads <= in.reads && u.writes <= in.writes }

func (u units) String() string { return fmt.Sprintf("%d read and %d write units", u.reads, u.writes) }

// These are the most units that a request of the API takes of a table, in a campaign with one item for each claim. A claim
// or a release writes a row of the bank in a transaction. A release or a replacement reads the claim in a transaction and
// the row of the item, and writes both in a transaction (docs/costs.md, "DynamoDB"). A claim that first closes an ended
// claim of its claimant takes both; sweeps leave few of them.
var ofBank, ofDedupe = units{0, 2}, units{3, 4}

// Metadata on a table tells later constructs of the app what it serves from its first second, and the rate limits of the
// APIs that use it.
const (
	readsMetadata, writesMetadata = "oncebox:read-units", "oncebox:write-units"
	rateMetadata                  = "oncebox:rate-limit"
)

func markServed(table awsdynamodb.ITableV2, serves units) {
	table.Node().AddMetadata(jsii.String(readsMetadata), serves.reads, nil)
	table.Node().AddMetadata(jsii.String(writesMetadata), serves.writes, nil)
}

func markRate(table awsdynamodb.ITableV2, rate int) {
	table.Node().AddMetadata(jsii.String(rateMetadata), rate, nil)
}

// marked returns the sum of the numbers with which a construct is marked.
func marked(c constructs.IConstruct, kind string) (sum int) {
	for _, m := range *c.Node().Metadata() {
		if n, ok := m.Data.(float64); ok && *m.Type == kind {
			sum += int(n)
		}
	}
	return sum
}

// checkRate refuses a limit of requests for which the tables are too small: one route at its limit could take more units
// than they serve from their first second. API Gateway has no limit for all routes of an API together. If several APIs use
// a table, their limits add up. What an existing table serves is not known.
func (p ClaimAPIProps) checkRate(wrong *problems) {
	if p.RateLimit < 0 || p.BurstLimit < 0 {
		wrong.add("RateLimit is %d and BurstLimit is %d; both must be positive", p.RateLimit, p.BurstLimit)
		return
	}
	for _, t := range []struct {
		name  string
		table awsdynamodb.ITableV2
		most  units
	}{{"bank table", p.BankTable, ofBank}, {"dedupe table", p.DedupeTable, ofDedupe}} {
		serves, others := p.Table.serves(), 0
		if t.table != nil {
			serves = units{marked(t.table, readsMetadata), marked(t.table, writesMetadata)}
			others = marked(t.table, rateMetadata)
		}
		needs := t.most.times(p.RateLimit + others)
		if serves == (units{}) || needs.fits(serves) {
			continue
		}
		with := ""
		if others > 0 {
			with = fmt.Sprintf(", and other APIs with this table have %d", others)
		}
		wrong.add("%s is %d%s: a route can take %s a second of the %s, which serves %s from its first second; raise %s and %s "+
			"to these, or lower %[1]s", wrong.of("RateLimit"), p.RateLimit, with, needs, t.name, serves,
			wrong.of("WarmReadUnits"), wrong.of("WarmWriteUnits"))
	}
}
