package cost

// These are prices in USD in us-east-1, on demand, without free tiers and discounts. Prices lists them with their
// sources.
const (
	WriteUnit         = 0.625e-6
	ReadUnit          = 0.125e-6
	StoredGBMonth     = 0.25 // DynamoDB, the standard table class
	BackupGBMonth     = 0.20 // DynamoDB, point-in-time recovery
	HTTPRequest       = 1.00e-6
	LambdaRequest     = 0.20e-6
	LambdaGBSecond    = 13.3334e-6
	StreamGBIn        = 0.08
	StreamGBOut       = 0.04
	StreamHour        = 0.04
	StreamGBMonth     = 0.10 // the time beyond 24 hours
	MetricMonth       = 0.30
	AlarmMetricMonth  = 0.10
	DashboardMonth    = 3.00
	LogGB             = 0.50
	LogGBMonth        = 0.03 // of compressed logs
	DeadLetterRequest = 5e-6
	QueueRequest      = 0.40e-6
	KeyMonth          = 1.00
	pricesAsOf        = "2026-11-22"
)

// Price is the price of one unit.
type Price struct {
	Name   string
	USD    float64
	Note   string
	Source string
	AsOf   string // when the price was looked up, or the date of the source
}

// These are the sources of several prices. AWS's own pages could not be read.
const (
	factualMinds = "FactualMinds' guide of June 2026"
	sigNoz       = "SigNoz's guide of February 2026"
	trek10       = "Trek10's comparison of September 2023"
	cloudchipr   = "Cloudchipr's guide of 2024"
	airbyte      = "Airbyte's guide of July 2025"
	priceList    = "AWS's Price List API, in a public copy"
	notFound     = "no source was found: as AWS's price page had it"
)

// Prices lists all prices that docs/costs.md and `oncebox cost` use, except for nodes.
var Prices = []Price{
	{"a million write units", 1e6 * WriteUnit, "since November 2024", airbyte, "2026-11-21"},
	{"a million read units", 1e6 * ReadUnit, "since November 2024", airbyte, "2026-11-21"},
	{"a GB in a table for a month", StoredGBMonth, "standard class", priceList, "2026-10-02"},
	{"a GB of point-in-time recovery for a month", BackupGBMonth, "of the size of the table", notFound, "2026-11-22"},
	{
		"a million requests to an HTTP API", 1e6 * HTTPRequest, "of up to 512 KB; 0.90 above 300 million a month",
		"AWS whitepaper \"Best practices for designing API Gateway private APIs and private integration\"", "2026-11-21",
	},
	{"a million invocations of Lambda", 1e6 * LambdaRequest, "", cloudchipr, "2026-11-21"},
	{"a million GB-seconds of Lambda on arm64", 1e6 * LambdaGBSecond, "", cloudchipr, "2026-11-21"},
	{"a GB into an on-demand stream", StreamGBIn, "records are rounded up to 1 KB", trek10, "2026-11-21"},
	{"a GB out of an on-demand stream", StreamGBOut, "", trek10, "2026-11-21"},
	{"an on-demand stream for an hour", StreamHour, "", trek10, "2026-11-21"},
	{"a GB in a stream beyond 24 hours for a month", StreamGBMonth, "up to 7 days", notFound, "2026-11-22"},
	{"a metric of CloudWatch for a month", MetricMonth, "of the first 10,000", sigNoz, "2026-11-21"},
	{"a metric in an alarm for a month", AlarmMetricMonth, "at standard resolution", sigNoz, "2026-11-22"},
	{"a dashboard for a month", DashboardMonth, "above three of an account", factualMinds, "2026-11-22"},
	{"a GB into CloudWatch Logs", LogGB, "", factualMinds, "2026-11-21"},
	{"a GB in CloudWatch Logs for a month", LogGBMonth, "compressed", notFound, "2026-11-22"},
	{"a million objects put into S3", 1e6 * DeadLetterRequest, "", notFound, "2026-11-22"},
	{"a million requests to SQS", 1e6 * QueueRequest, "", notFound, "2026-11-22"},
	{"a key of KMS for a month", KeyMonth, "without its requests", notFound, "2026-11-22"},
}

// Node is a node type of ElastiCache. The prices come from AWS's Price List API, AmazonElastiCache, cacheEngine
// Valkey, as of 2026-10-02, in a public copy.
type Node struct {
	Type string
	GiB  float64 // ElastiCache User Guide, "Supported node types"
	Hour float64 // the price of an hour, in USD
}

// nodes are all from the family with the most memory for its price.
var nodes = []Node{
	{"cache.r7g.large", 13.07, 0.1752},
	{"cache.r7g.xlarge", 26.32, 0.3496},
	{"cache.r7g.2xlarge", 52.82, 0.6984},
	{"cache.r7g.4xlarge", 105.81, 1.3960},
	{"cache.r7g.8xlarge", 209.55, 2.7928},
	{"cache.r7g.12xlarge", 317.77, 4.1880},
	{"cache.r7g.16xlarge", 419.09, 5.5848},
}
