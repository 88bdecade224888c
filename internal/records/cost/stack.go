package cost

import (
	"fmt"
	"math"
)

// Stack describes the work of a stack with its default settings. Either job may be left out.
type Stack struct {
	ClaimsPerDay   float64 // new claims; 0 leaves the claims out
	Records        *Load   // nil leaves the records out
	Ledger         string  // the ledger of the records: Keys, Log or Valkey
	RecordBytes    int     // the size of a record in a stream
	SystemLogLevel string  // system-log-level: info or warn
}

// These are the limits of a stack that Check accepts.
const (
	mostClaims      = 1e10
	mostRecordBytes = 10 << 20 // the limit of Kinesis (Developer Guide, "Quotas and limits")
)

// Check returns an error if a value is wrong. The error names the flag of the value.
func (s Stack) Check() error {
	switch {
	case s.ClaimsPerDay == 0 && s.Records == nil:
		return fmt.Errorf("what does the stack do? Use --claims-per-day, --records-per-second, or both")
	case !(s.ClaimsPerDay >= 0) || s.ClaimsPerDay > mostClaims:
		return fmt.Errorf("--claims-per-day %g: use a number of claims from 0", s.ClaimsPerDay)
	case s.RecordBytes < 1 || s.RecordBytes > mostRecordBytes:
		return fmt.Errorf("--record-size %d: use 1 byte to 10MiB", s.RecordBytes)
	case s.Records != nil:
		return s.Records.Check()
	}
	return nil
}

// Item is one line of a bill.
type Item struct {
	Job     string  `json:"job"` // claims, records or both
	Service string  `json:"service"`
	For     string  `json:"for"`
	USD     float64 `json:"usd_a_month"`
}

// Bill holds the costs of a stack in a month of 30 days.
type Bill struct {
	ClaimsPerDay   float64 `json:"claims_per_day"`
	Ledger         string  `json:"ledger,omitempty"`
	SystemLogLevel string  `json:"system_log_level"`
	Items          []Item  `json:"items"`
	Total          float64 `json:"usd_a_month"`
	PricesAsOf     string  `json:"prices_as_of"`
}

const (
	month  = daysOfMonth * day // seconds
	hourly = daysOfMonth * 24  // hours
)

// These are sizes and times of the functions of claims, as the stack makes them. The times are assumptions.
const (
	claimGB, claimSeconds = 0.5, 0.010
	sweepGB, sweepSeconds = 0.25, 0.100
	sweeps                = month / 60       // one sweep a minute
	freeItemCounts        = month / (5 * 60) // one count in five minutes
)

// BytesOfAClaim is the stored size of all rows of an item with its claim, in DynamoDB. TestBytesOfAClaim in tests
// measures it.
const BytesOfAClaim = 494

// These are the numbers of metrics that each job writes, or that filters make from its logs (docs/costs.md,
// "Metrics"). The number for the sweep is for one open campaign.
const (
	claimMetrics  = 7 + 1 + 1 + 2
	recordMetrics = 9 + 1
	logMetrics    = 5
)

// These are the numbers of metrics in alarms of the stack. TestCostsOfAlarms in tests/stack counts them in the
// templates.
const (
	ClaimAlarmMetrics  = 31
	RecordAlarmMetrics = 21
	LogAlarmMetrics    = 5 // in addition, for a log ledger
	SharedAlarmMetrics = 4 // the alarms of the dedupe table, which both jobs share
)

// keptInStreams is how long the streams of the stack keep records beyond the first day, in days.
const keptInStreams = 6

// compressed is the size of stored logs as a share of their written size. It is an assumption, which AWS's own
// examples make.
const compressed = 0.15

// Month calculates the bill of a stack that Check has accepted.
func (s Stack) Month() Bill {
	b := Bill{ClaimsPerDay: s.ClaimsPerDay, SystemLogLevel: s.SystemLogLevel, PricesAsOf: pricesAsOf}
	if s.ClaimsPerDay > 0 {
		s.claims(&b)
	}
	if s.Records != nil {
		b.Ledger = s.Ledger
		s.records(&b)
	}
	if alarms := s.alarmMetrics(); alarms > 0 {
		b.add(s.job(), "CloudWatch", fmt.Sprintf("alarms with %d metrics", alarms), float64(alarms)*AlarmMetricMonth)
	}
	return b
}

func (b *Bill) add(job, service, what string, usd float64) {
	b.Items, b.Total = append(b.Items, Item{job, service, what, usd}), b.Total+usd
}

// job names the job of an item that the jobs share.
func (s Stack) job() string {
	switch {
	case s.Records == nil:
		return "claims"
	case s.ClaimsPerDay == 0:
		return "records"
	}
	return "both"
}

func (s Stack) claims(b *Bill) {
	n := s.ClaimsPerDay * daysOfMonth
	stored := n * BytesOfAClaim / gigabyte
	b.add("claims", "API Gateway", "requests", n*HTTPRequest)
	b.add("claims", "Lambda", "requests for claims", n*(LambdaRequest+claimSeconds*claimGB*LambdaGBSecond))
	b.add("claims", "Lambda", "the sweep, every minute", sweeps*(LambdaRequest+sweepSeconds*sweepGB*LambdaGBSecond))
	b.add("claims", "DynamoDB", "claims", n*counted(newClaim).USD())
	b.add("claims", "DynamoDB", "the load of their items", n*counted(itemLoaded).USD())
	b.add("claims", "DynamoDB", "reads of the sweep", sweeps*2*ReadUnit+freeItemCounts*counted(freeItems).USD())
	b.add("claims", "DynamoDB", "a month's claims, stored for a month", stored*StoredGBMonth)
	b.add("claims", "DynamoDB", "their point-in-time recovery", stored*BackupGBMonth)
	s.logs(b, "claims", "the function's lines", n, claimLine)
	s.logs(b, "claims", "access logs", n, accessLine)
	s.logs(b, "claims", "Lambda's own lines", n+sweeps, s.platform())
	b.add("claims", "CloudWatch", fmt.Sprintf("%d metrics, with one open campaign", claimMetrics), claimMetrics*MetricMonth)
}

func (s Stack) records(b *Bill) {
	l, c := *s.Records, Compare(*s.Records)
	e, metrics := c.Keys, recordMetrics
	switch s.Ledger {
	case Log:
		e, metrics = c.Log, recordMetrics+logMetrics
	case Valkey:
		e = c.Valkey
	}
	batches := l.batches() * month
	b.add("records", "DynamoDB", "ledger and acks", e.Day.Units*daysOfMonth)
	b.add("records", "DynamoDB", "entries, stored", e.Day.Storage*daysOfMonth)
	b.add("records", "DynamoDB", "their point-in-time recovery", e.Day.Storage*daysOfMonth*BackupGBMonth/StoredGBMonth)
	if e.Day.Nodes > 0 {
		b.add("records", "ElastiCache", "nodes", e.Day.Nodes*daysOfMonth)
	}
	b.add("records", "Lambda", "batches", e.Day.Lambda*daysOfMonth)

	in := l.Rate * month * math.Ceil(float64(s.RecordBytes)/kB) * kB / gibibyte // GB; each started KB counts
	out := in * (1 - l.Copies)
	b.add("records", "Kinesis", "two on-demand streams", 2*hourly*StreamHour)
	b.add("records", "Kinesis", "records into the source, and out of it", in*(StreamGBIn+StreamGBOut))
	b.add("records", "Kinesis", "records into the destination", out*StreamGBIn)
	b.add("records", "Kinesis", "records kept for 7 days", (in+out)/daysOfMonth*keptInStreams*StreamGBMonth)
	s.logs(b, "records", "the function's lines", batches, batchLine)
	s.logs(b, "records", "Lambda's own lines", batches, s.platform())
	b.add("records", "CloudWatch", fmt.Sprintf("%d metrics", metrics), float64(metrics)*MetricMonth)
}

// platform is the size of the lines that Lambda writes about a successful invocation.
func (s Stack) platform() LogLine {
	if s.SystemLogLevel == "warn" {
		return LogLine{}
	}
	return LogLine{Bytes: platformStart.Bytes + platformReport.Bytes}
}

// logs adds the price of log lines, which are kept for a month.
func (s Stack) logs(b *Bill, job, what string, lines float64, line LogLine) {
	size := lines * float64(line.Bytes) / gibibyte
	b.add(job, "CloudWatch Logs", what, size*(LogGB+compressed*LogGBMonth))
}

// alarmMetrics is the number of metrics in alarms.
func (s Stack) alarmMetrics() (n int) {
	if s.ClaimsPerDay > 0 {
		n = ClaimAlarmMetrics
	}
	if s.Records != nil {
		n += RecordAlarmMetrics
		if s.Ledger == Log {
			n += LogAlarmMetrics
		}
	}
	if s.ClaimsPerDay > 0 && s.Records != nil {
		n -= SharedAlarmMetrics
	}
	return n
}
