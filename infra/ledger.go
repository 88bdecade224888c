package infra

import (
	"fmt"
	"math"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// logLedger is the scheme of ONCEBOX_LEDGER that chooses the log ledger.
const logLedger = "log"

func (p RecordDedupeProps) hasLog() bool { return address.Scheme(p.Settings.Ledger) == logLedger }

// logFunction is the dedupe function with the log ledger. All entries that count are in its memory: 60 % of 3,008 MiB
// have room for 59 million. A new AWS account may have a lower quota of memory than Lambda's 10,240 MiB, and 3,008 was
// the limit of all accounts before. A new container first loads the entries, which must end within one invocation.
var logFunction = functionKind{
	code: dedupeFunction.code, memoryMiB: 3008, timeout: 5 * time.Minute, longestTimeout: dedupeFunction.longestTimeout,
}

func (p RecordDedupeProps) functionKind() functionKind {
	kind := dedupeFunction
	if p.hasLog() {
		kind = logFunction
	}
	if p.needsAllClients() {
		kind.code += "-full"
	}
	return kind
}

// These are the defaults of the mapping with the log ledger. A batch makes one append to each lane, for any number of
// records. So many small batches cost more write units for each record, and conflict more often. A shard accepts
// 1,000 records a second (Kinesis Developer Guide, "Quotas and limits"), so 5 s make batches of up to 5,000 records.
// A backlog makes batches of up to 10,000.
const (
	logBatchSize   = maxBatchSize
	logBatchWindow = 5 * time.Second
)

func (p MappingProps) withLogDefaults() MappingProps {
	if p.BatchSize == 0 {
		p.BatchSize = logBatchSize
	}
	if p.BatchWindow == 0 {
		p.BatchWindow = logBatchWindow
	}
	return p
}

// unitsOfRecord is the number of write units of a new record in batches of 2,500 or more. It includes failed appends
// because of other processes (bench/simulated: 33,000 records a second of 40 shards, 8 lanes). Smaller batches need
// more.
const unitsOfRecord = 0.035

// partitionUnits are the write units a second of a partition (DynamoDB Developer Guide, "Best practices for designing
// and using partition keys effectively"). A lane writes to one partition at a time.
const partitionUnits = 1000

// checkRate refuses a rate if the ledger is not the log, and the log ledger without a rate. It reports whether sizes
// can be checked.
func (p RecordDedupeProps) checkRate(wrong *problems) bool {
	name, log := wrong.of("ExpectedRate"), wrong.of("Ledger")+"="+logLedger
	switch {
	case p.hasLog() && p.ExpectedRate <= 0:
		wrong.add("%s is missing: with %s all entries that count are in memory; choose the most records a second that you "+
			"expect of all shards together", name, log)
	case !p.hasLog() && p.ExpectedRate != 0:
		wrong.add("%s is set, but only %s needs it; leave it out", name, log)
	}
	return p.hasLog() && p.ExpectedRate > 0
}

// checkSizes refuses a log ledger that cannot handle the rate. o holds the settings as the function reads them.
func (p RecordDedupeProps) checkSizes(wrong *problems, o recordhandler.Options) {
	rate, window, memory := float64(p.ExpectedRate), o.Retention.Window, o.Ledger.Memory
	if needed := logledger.NeededMemory(rate, window, p.recordsInItem(o)); needed > float64(memory) {
		wrong.add("%s is %s: at %d records a second its entries need %.1f GiB in memory, and there are %.1f GiB for them "+
			"(%s is %d); %s", wrong.of("Window"), text(window), p.ExpectedRate, needed/(1<<30), float64(memory)/(1<<30),
			wrong.of("Memory"), p.Function.Memory, p.moreMemory(wrong, o, needed, memory))
	}
	if units := rate * unitsOfRecord / float64(o.Ledger.Lanes); units > partitionUnits {
		wrong.add("%s has %d lanes: at %d records a second a lane takes %.0f write units a second or more, and DynamoDB takes at "+
			"most %d; choose at least %.0f, as in log?lanes=16, in a scope that has no records yet", wrong.of("Ledger"), o.Ledger.Lanes,
			p.ExpectedRate, units, partitionUnits, math.Ceil(rate*unitsOfRecord/partitionUnits))
	}
}

// recordsInItem returns the number of records of a batch in each lane, if all of them are new. A shard accepts 1,000
// records a second.
func (p RecordDedupeProps) recordsInItem(o recordhandler.Options) float64 {
	batch := min(float64(p.Mapping.BatchSize), max(1, p.Mapping.BatchWindow.Seconds()*min(1000, float64(p.ExpectedRate))))
	return batch / float64(o.Ledger.Lanes)
}

// moreMemory returns advice for the case that entries need more memory than the function has.
func (p RecordDedupeProps) moreMemory(names *problems, o recordhandler.Options, needed float64, has int64) string {
	rate := float64(p.ExpectedRate)
	if mib := math.Ceil(needed / (1 << 20) * 100 / recordhandler.UsualLedgerShare); mib <= maxMemoryMiB {
		unset := ""
		if address.Parse(p.Settings.Ledger).Text("memory") != "" {
			unset = " and leave the memory out of " + names.of("Ledger")
		}
		return fmt.Sprintf("choose at least %.0f%s, or a window of at most %s",
			mib, unset, text(logledger.LongestWindow(rate, has, p.recordsInItem(o))))
	}
	const most = maxMemoryMiB << 20 / 100 * recordhandler.UsualLedgerShare
	return fmt.Sprintf("a function has at most %d MiB, in which a window of %s fits; choose at most that, or another "+
		"ledger", maxMemoryMiB, text(logledger.LongestWindow(rate, most, p.recordsInItem(o))))
}

// logAlarms returns the alarms of the log ledger. Their metrics come from the function's log lines.
func (r *RecordDedupe) logAlarms() []alarm {
	return []alarm{
		{
			"LedgerMemoryAlarm", "ledger-memory", "The entries of the log ledger need nearly all memory that they may take.",
			r.counted("LedgerMemory", "LedgerMemoryShare", "$.ledger_memory_share").With(over("Maximum")), memoryShare, twice, atLeast,
		},
		{
			"LedgerFullAlarm", "ledger-full", "Batches fail because their entries have no room in memory.",
			r.filter("LedgerFull", "LedgerRefusals", fullLine(), "1"), 1, twice, atLeast,
		},
		{
			"LedgerConflictsAlarm", "ledger-conflicts", "Too many appends to the log come after those of another container.",
			r.conflictShare(), conflictShare, lasting, atLeast,
		},
		{
			"LaneHeatAlarm", "lane-heat", "A lane of the log takes nearly what a partition of DynamoDB can take.",
			r.laneHeat(), laneHeat, lasting, atLeast,
		},
	}
}

// These are the thresholds of the alarms.
const (
	memoryShare   = 0.8 // the share of the memory for entries
	conflictShare = 0.5 // the share of the appends; at this share the log costs twice as much
	laneHeat      = 700 // write units a second of a lane, on average over the period: peaks are higher
	fewAppends    = 900 // in a period: a smaller number is too small for a share, and costs little
)

// fullLine finds the lines of batches that failed with a logledger.MemoryError.
func fullLine() awslogs.IFilterPattern {
	return awslogs.FilterPattern_StringValue(jsii.String("$.error"), jsii.String("="), jsii.String("*more do not fit*"))
}

// conflictShare returns the share of the appends that needed another attempt, or 0 if there are few appends.
func (r *RecordDedupe) conflictShare() awscloudwatch.IMetric {
	const share = "IF(FILL(appends, 0) >= %d, FILL(conflicts, 0) / FILL(appends, 1), 0)"
	return calculated(fmt.Sprintf(share, fewAppends), metrics{
		"appends":   r.counted("LedgerAppends", "LedgerAppends", "$.ledger_appends"),
		"conflicts": r.counted("LedgerConflicts", "LedgerConflicts", "$.ledger_conflicts"),
	}, alarmPeriod)
}

// laneHeat returns the write units a second of the busiest lane. The value may be somewhat too high, because each
// invocation counts its own busiest lane.
func (r *RecordDedupe) laneHeat() awscloudwatch.IMetric {
	return calculated("units / PERIOD(units)", metrics{
		"units": r.counted("LaneUnits", "LaneUnits", "$.ledger_lane_units"),
	}, alarmPeriod)
}
