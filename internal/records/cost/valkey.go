package cost

import (
	"fmt"
	"math"
	"time"
)

const (
	// bytesInValkey is the whole memory that a key takes, in bytes, in hashes of about 100 keys. Package valkeystore
	// measures it.
	bytesInValkey = 38
	// usableInNode is the share of a node's memory without the reserve for backups and failover, which is 25 % (AWS
	// Knowledge Center, "Why is the available memory of my ElastiCache node less than the value in the pricing
	// page?").
	usableInNode = 0.75
	// inValkey is the time that a batch takes in the ledger.
	inValkey = 5 * time.Millisecond
)

// Cluster is the cheapest cluster that holds the entries.
type Cluster struct {
	Memory float64 `json:"memory_gib"` // the memory of the entries
	Shards int     `json:"shards"`     // each shard has one replica
	Node   string  `json:"node"`
}

// valkey estimates the ledger on Valkey. The ledger keeps a slice of time until all records that use it have been
// processed.
func (l Load) valkey() (Estimate, Cluster) {
	slice := min(l.Window, l.Horizon)
	kept := l.Window + l.Horizon + slice
	c := Cluster{Memory: l.added() * kept.Seconds() * bytesInValkey / (1 << 30)}
	price := math.Inf(1)
	for _, n := range nodes {
		shards := math.Ceil(c.Memory / (n.GiB * usableInNode))
		if p := 2 * shards * n.Hour * 24; p < price {
			price, c.Shards, c.Node = p, int(shards), n.Type
		}
	}
	e := l.estimate(Units{}, Units{}, 0, price, inValkey, plainMemory)
	if c.Shards > mostNodes/2 {
		e.Problem = fmt.Sprintf("it needs %d shards with a replica each; a cluster of ElastiCache has at most %d nodes",
			c.Shards, mostNodes)
	}
	return e, c
}

// mostNodes is the largest number of nodes in a cluster (ElastiCache User Guide, "Quotas").
const mostNodes = 500
