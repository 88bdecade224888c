package eventsource

import "time"

// decision is the mapping's decision about a batch after an attempt.
type decision struct {
	delivered int   // the number of delivered records at the start of the batch
	discarded bool  // the other records are discarded
	retry     []int // the sizes of the batches in which the other records are retried, in order
	attempts  int   // the attempts of these batches so far
}

// decide returns the decision for a batch of n records.
//
//   - A throttle is no attempt: retries are for when "the function returns an error.
//     This doesn't apply to service errors or throttles where the batch didn't reach
//     the function" (Options).
//   - Of a batch that was delivered in part "Lambda retries only the remaining records"
//     (Partial). These make a batch of their own that has all attempts again: without bisect
//     and with 3 retries, AWS sent the rest four times more (Recorded,
//     test_kinesis_report_batch_item_failures).
//   - "If your invocation fails" the batch is split in two, "regardless of your
//     ReportBatchItemFailures setting" (Partial). "Splitting batches doesn't consume the
//     retry quota" (Discarded).
//   - If an answer names the first record, the remaining records are the whole batch. See [Reading].
//
// Assumed: the remaining records have all attempts again with bisect too; and the first half is the
// smaller one.
func (m *Mapping) decide(n, attempts int, o outcome) decision {
	switch {
	case o.throttled:
		return decision{retry: []int{n}, attempts: attempts}
	case !o.failed:
		return decision{delivered: n}
	case o.delivered > 0:
		return decision{delivered: o.delivered, retry: []int{n - o.delivered}}
	case n > 1 && m.bisects(o):
		return decision{retry: []int{n / 2, n - n/2}, attempts: attempts}
	}
	attempts++
	if *m.Retries != unlimited && attempts > *m.Retries {
		return decision{discarded: true, attempts: attempts}
	}
	return decision{retry: []int{n}, attempts: attempts}
}

// bisects reports whether a batch without a delivered record is split in two.
func (m *Mapping) bisects(o outcome) bool {
	return m.Bisect && (!o.named || m.Reading == BisectBatch)
}

// outlived counts the records at the start of a batch that are older than age. Only these are
// discarded; the others are delivered (Recorded,
// test_kinesis_maximum_record_age_exceeded_discard_records).
func outlived(items []*item, age time.Duration, now time.Time) int {
	n := 0
	for age > 0 && n < len(items) && now.Sub(*items[n].ApproximateArrivalTimestamp) > age {
		n++
	}
	return n
}

// pause returns the time before the next attempt after consecutive failures.
func pause(first time.Duration, failures int) time.Duration {
	d := first
	for range failures - 1 {
		d = min(2*d, max(first, maxRetryPause))
	}
	return d
}
