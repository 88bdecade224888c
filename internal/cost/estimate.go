package cost

import "time"

// Units are units of DynamoDB.
type Units struct {
	Write float64 `json:"write_units"`
	Read  float64 `json:"read_units"`
}

func (u Units) plus(o Units) Units { return Units{u.Write + o.Write, u.Read + o.Read} }

func (u Units) times(f float64) Units { return Units{u.Write * f, u.Read * f} }

// USD is the price of a day.
type USD struct {
	Units   float64 `json:"units"`   // of DynamoDB, cold starts included
	Storage float64 `json:"storage"` // of DynamoDB
	Nodes   float64 `json:"nodes"`   // of ElastiCache
	Lambda  float64 `json:"lambda"`
}

// Sum is the whole price.
func (u USD) Sum() float64 { return u.Units + u.Storage + u.Nodes + u.Lambda }

// Estimate is what one ledger costs.
type Estimate struct {
	PerRecord Units   `json:"per_record"` // with the acks, and for the log ledger with cold starts
	Day       USD     `json:"usd_a_day"`
	Total     float64 `json:"usd_a_day_in_all"`
	Memory    int     `json:"function_memory"` // MB
	Problem   string  `json:"problem,omitempty"`
}

// Memory of a function whose ledger needs none: that of the stack.
const plainMemory = 1024 // MB

// estimate fills in what follows from units and times.
func (l Load) estimate(perBatch Units, besides Units, storedBytes float64, nodes float64, ledger time.Duration, memory int) Estimate {
	batches := l.batches() * day
	all := perBatch.plus(l.acks()).times(batches).plus(besides)
	busy := batches * (l.Rest + ledger).Seconds()
	e := Estimate{
		PerRecord: all.times(1 / (l.Rate * day)), Memory: memory,
		Day: USD{
			Units:   all.Write*WriteUnit + all.Read*ReadUnit,
			Storage: storedBytes / gigabyte * StoredGBMonth / daysOfMonth,
			Nodes:   nodes,
			Lambda:  batches*LambdaRequest + busy*float64(memory)/1024*LambdaGBSecond,
		},
	}
	e.Total = e.Day.Sum()
	return e
}

const daysOfMonth = 30

// request is what a request to DynamoDB takes in a region: the mean of bench/simulated.InRegion.
const request = 10 * time.Millisecond
