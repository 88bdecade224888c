package cost

import "time"

// Units are request units of DynamoDB.
type Units struct {
	Write float64 `json:"write_units"`
	Read  float64 `json:"read_units"`
}

func (u Units) plus(o Units) Units { return Units{u.Write + o.Write, u.Read + o.Read} }

func (u Units) times(f float64) Units { return Units{u.Write * f, u.Read * f} }

// USD is the price of a day, in USD, by its parts.
type USD struct {
	Units   float64 `json:"units"`   // the request units of DynamoDB, including cold starts
	Storage float64 `json:"storage"` // the storage of DynamoDB
	Nodes   float64 `json:"nodes"`   // the nodes of ElastiCache
	Lambda  float64 `json:"lambda"`
}

// Sum returns the whole price.
func (u USD) Sum() float64 { return u.Units + u.Storage + u.Nodes + u.Lambda }

// Estimate holds the costs of one ledger.
type Estimate struct {
	PerRecord Units   `json:"per_record"` // includes the acks, and the cold starts of the log ledger
	Day       USD     `json:"usd_a_day"`
	Total     float64 `json:"usd_a_day_in_all"`
	Memory    int     `json:"function_memory"` // MB
	Problem   string  `json:"problem,omitempty"`
}

// plainMemory is the memory that the stack gives a function whose ledger needs no memory.
const plainMemory = 1024 // MB

// estimate calculates the prices from units, bytes and times.
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

// request is the mean time of a request to DynamoDB within a region, as in bench/simulated.InRegion.
const request = 10 * time.Millisecond
