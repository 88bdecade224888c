package cost

// Prices, in USD, us-east-1, on demand, without free tiers and discounts.
//
// DynamoDB: since November 2024 (AWS Database Blog, "New – Amazon DynamoDB lowers pricing for on-demand throughput and
// global tables"). Lambda on arm64: AWS's price list. Nodes: AWS's Price List API, AmazonElastiCache, cacheEngine
// Valkey, as of 2026-10-02. Looked up on 2026-11-22, in copies of others where AWS's pages could not be read: look at
// them before you rely on a price.
const (
	WriteUnit      = 0.625e-6
	ReadUnit       = 0.125e-6
	StoredGBMonth  = 0.25 // DynamoDB, the standard table class
	LambdaGBSecond = 13.3334e-6
	LambdaRequest  = 0.20e-6
	pricesAsOf     = "2026-11-22"
)

// Node is a node type of ElastiCache.
type Node struct {
	Type string
	GiB  float64 // ElastiCache User Guide, "Supported node types"
	Hour float64 // USD
}

// nodes are of one family: it has the most memory for its price.
var nodes = []Node{
	{"cache.r7g.large", 13.07, 0.1752},
	{"cache.r7g.xlarge", 26.32, 0.3496},
	{"cache.r7g.2xlarge", 52.82, 0.6984},
	{"cache.r7g.4xlarge", 105.81, 1.3960},
	{"cache.r7g.8xlarge", 209.55, 2.7928},
	{"cache.r7g.12xlarge", 317.77, 4.1880},
	{"cache.r7g.16xlarge", 419.09, 5.5848},
}
