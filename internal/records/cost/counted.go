package cost

import (
	"math"
	"strconv"
	"strings"
)

// Number is a counted number. With a tolerance it depends on chance. Without a tolerance its digits are exact.
type Number struct{ Value, Tolerance float64 }

// String returns the number in the form of docs/costs.md.
func (n Number) String() string {
	text := strconv.FormatFloat(n.Value, 'f', -1, 64)
	if n.Tolerance != 0 {
		text += " ± " + strconv.FormatFloat(n.Tolerance, 'f', -1, 64)
	}
	return text
}

// Agrees reports whether a counted value matches the number within its tolerance. Whole numbers without a tolerance
// must match exactly.
func (n Number) Agrees(counted float64) bool {
	tolerance := n.Tolerance + 1e-9
	if _, decimals, found := strings.Cut(n.String(), "."); found && n.Tolerance == 0 {
		tolerance += math.Pow10(-len(decimals)) / 2
	}
	return math.Abs(n.Value-counted) <= tolerance
}

// Count holds what one unit of work needs of DynamoDB: requests, write units and read units.
type Count struct {
	Name                  string
	Requests, Write, Read Number
}

// USD returns the price of one unit of work.
func (c Count) USD() float64 { return c.Write.Value*WriteUnit + c.Read.Value*ReadUnit }

// The price of a stack uses these counts.
const (
	newClaim   = "a new claim, in a busy container"
	itemLoaded = "an item loaded"
	freeItems  = "the free items of a campaign counted, 2,000"
)

// Counts are counted on the wire. TestCosts in tests fails if one of them is wrong.
var Counts = []Count{
	{newClaim, Number{1.033, 0.02}, Number{4, 0}, Number{0.038, 0.02}},
	{"a new claim, the first of its container", Number{3.25, 0.2}, Number{4, 0}, Number{2.25, 0.2}},
	{"the same claimant again", Number{1, 0}, Number{0.008, 0}, Number{0.499, 0}},
	{"a claim read", Number{1, 0}, Number{}, Number{2, 0}},
	{"a new claim of an item with columns", Number{2.033, 0.02}, Number{4, 0}, Number{1.038, 0.02}},
	{"the same claimant again, with columns", Number{2, 0}, Number{0.008, 0}, Number{1.499, 0}},
	{"sold out", Number{1, 0}, Number{}, Number{2, 0}},
	{"sold out, the first of a second in its container", Number{19, 0}, Number{}, Number{19.5, 0}},
	{"closed, or not open yet", Number{1, 0}, Number{}, Number{2, 0}},
	{itemLoaded, Number{0.028, 0}, Number{4.007, 0}, Number{0.027, 0}},
	{freeItems, Number{49, 2}, Number{}, Number{79, 2}},
	{"the free items of a campaign counted, 20,000", Number{101, 5}, Number{}, Number{144, 10}},
	{"500 free items with columns, listed for an operator", Number{10, 0}, Number{}, Number{512, 0}},
	{"lists of free items with columns in a container, the first second", Number{10, 0}, Number{}, Number{256.5, 0}},
	{"lists of free items with columns in a container, each later second", Number{4, 0}, Number{}, Number{5.5, 0}},
	{"a new record", Number{0.04, 0}, Number{1, 0}, Number{}},
	{"a new record, in a batch of 10", Number{1, 0}, Number{1, 0}, Number{}},
	{"a copy in a later batch", Number{0.05, 0}, Number{1, 0}, Number{1, 0}},
	{"a copy in the same 500 records", Number{}, Number{}, Number{}},
	{"a redelivered record", Number{0.05, 0}, Number{1, 0}, Number{1, 0}},
	{"another record under a used id", Number{1.09, 0}, Number{3, 0}, Number{1, 0}},
	{"the acks of a batch of 1,000", Number{3, 0}, Number{10, 0}, Number{1, 0}},
	{"the acks of a batch of 10", Number{2, 0}, Number{1, 0}, Number{1, 0}},
	{"a batch of 1,000 that acks skip", Number{1, 0}, Number{}, Number{3, 0}},
	{"the first batch of a container, besides", Number{1, 0}, Number{1, 0}, Number{}},
	{"a message of a queue", Number{2, 0}, Number{2, 0}, Number{}},
	{"a message of a queue that is done, again", Number{1, 0}, Number{1, 0}, Number{}},
	{"a batch of a queue, besides", Number{1, 0}, Number{}, Number{0.5, 0}},
	{"log: a new record, in batches of 1,000", Number{0.008, 0}, Number{0.0311, 0.0004}, Number{}},
	{"log: a new record, in batches of 5,000", Number{0.0016, 0}, Number{0.0264, 0.0002}, Number{}},
	{"log: a copy in a later batch", Number{0.008, 0}, Number{}, Number{0.008, 0}},
	{"log: an entry that a new environment reads", Number{0.0003, 0}, Number{}, Number{0.0035, 0.0001}},
}

// counted returns the count in Counts that has the name.
func counted(name string) Count {
	for _, c := range Counts {
		if c.Name == name {
			return c
		}
	}
	panic("cost: nothing is counted for " + name)
}
