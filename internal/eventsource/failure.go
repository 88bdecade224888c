package eventsource

import "time"

// verdict is what becomes of a batch after an attempt: it is given up, or the first
// records are delivered and the others are tried again.
type verdict struct {
	delivered int
	givenUp   bool
	retry     []int // sizes of the batches that the others make, in order
	attempts  int   // that these have behind them
}

// judge decides that, for a batch of n records.
//
//   - A throttle is no attempt: retries are for when "the function returns an error.
//     This doesn't apply to service errors or throttles where the batch didn't reach
//     the function" (Options).
//   - Of a batch that was delivered in part "Lambda retries only the remaining records"
//     (Partial). These make a batch of their own, with all attempts before them: without
//     bisect and with 3 retries, AWS sent the rest four times more (Recorded,
//     test_kinesis_report_batch_item_failures).
//   - A batch that failed is split in two, "regardless of your
//     ReportBatchItemFailures setting" (Partial). "Splitting batches doesn't consume the
//     retry quota" (Discarded).
//
// Assumed: that is so with bisect too; a batch whose first record is the failed one failed
// as a whole; and the first half is the smaller one.
func judge(n, attempts int, o outcome, bisect bool, retries int) verdict {
	switch {
	case o.throttled:
		return verdict{retry: []int{n}, attempts: attempts}
	case !o.failed:
		return verdict{delivered: n}
	case o.delivered > 0:
		return verdict{delivered: o.delivered, retry: []int{n - o.delivered}}
	case bisect && n > 1:
		return verdict{retry: []int{n / 2, n - n/2}, attempts: attempts}
	}
	attempts++
	if retries != forever && attempts > retries {
		return verdict{givenUp: true, attempts: attempts}
	}
	return verdict{retry: []int{n}, attempts: attempts}
}

// outlived counts the records at the start of a batch that are older than age. Only
// these are discarded, and the others delivered: each record has an age of its own
// (Recorded, test_kinesis_maximum_record_age_exceeded_discard_records).
func outlived(items []*item, age time.Duration, now time.Time) int {
	n := 0
	for age > 0 && n < len(items) && now.Sub(*items[n].ApproximateArrivalTimestamp) > age {
		n++
	}
	return n
}

// pause is the time before the next try after so many failures in a row.
func pause(first time.Duration, failures int) time.Duration {
	d := first
	for range failures - 1 {
		d = min(2*d, max(first, mostRetryPause))
	}
	return d
}
