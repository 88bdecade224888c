// Package simulated plays claims against a bank in memory, and records against log ledgers, in simulated time. It
// measures their cost in banks and at rates that are too large for a local engine.
//
// Its functions run in a bubble of testing/synctest, where time passes only while all goroutines wait. So it uses the
// Bank of production, with its own clock and its own goroutines:
//
//	synctest.Test(t, func(t *testing.T) {
//		store, err = simulated.Play(model, simulated.Customers(model.Items), 32, nil)
//	})
//
// # The model
//
// A request takes a minimum time and an exponentially distributed time on top. The engine does all its work at the end
// of this time, so transactions never conflict. Requests fail only at the limits below. Items never end, and claims are
// never released.
//
// Each container has one Bank, with a memory and a source of random numbers of its own, and serves one customer at a
// time.
//
// With Limits, each table has a number of partitions, and each partition key lies on a random one of them: in the bank
// table the key of each shard and that of the campaign row, in the claims table each of the keys that claimants hash
// to. A partition is two token buckets, of write units and of read units, that hold the units of a moment only.
// DynamoDB saves up to five minutes of unused units and splits partitions that stay hot, so it is kinder than this
// model.
//
//   - A Take needs two write units on the partition of the bank row and two on that of the claim row, also if a
//     condition fails. If one of them has not enough left, the Take is throttled, spends nothing and names the row.
//     The SDK does not send a cancelled transaction again.
//   - A read needs a read unit for each 4 KB that are started, at 120 bytes a row. It needs half of that if it is
//     eventually consistent, and twice that if it is isolated. A throttled read spends nothing. The SDK sends it again,
//     as Retries says, unless it is isolated, which is a transaction. Then it is engine.ErrThrottled.
//
// # Log ledgers
//
// LogLoad runs the real log ledgers, one for each shard, against a Log in memory. A request has its effect in the middle
// of its time, so that two appends can race. Items and answers take a time by their size: 20 µs a KB is 50 MB a second,
// and a row takes 0.5 µs, which is what the processor needs to take one into memory (0.3 to 0.5 µs were measured on 2
// shared cores). A read that is not consistent asks one of three replicas, and one of these is late. DynamoDB documents
// no distribution of that time: 10 ms in the mean is assumed. The latency is the same as for claims. It is longer than the few
// milliseconds of DynamoDB, which makes more appends race.
//
// A shard gives its environment a batch when it has enough records. Shards begin at random times. No lane is throttled:
// LogReport has the busiest one's units.
//
// LogDay is a model of the same requests without records, which is fast enough for a day.
//
// # One seed
//
// Times and places are hashes of the seed and of what they belong to, such as "shard 7, the third read of container
// 12". The requests of two containers never end at the same nanosecond. So nothing depends on the order in which
// goroutines run, and runs of one seed agree, as long as each container makes its requests one after the other.
// What goroutines of one container do at once has no such order: requests that end at the same time, and random numbers
// that they draw from the Bank's source.
package simulated
