package valkeystore

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// maxRecords is the largest number of records in a script call. A server does nothing else during a call. It takes a
// few milliseconds if each id has few contents. With this number, a slice number in a call fits into 2 bytes.
const maxRecords = 1000

// calls divides records into script calls: one for each group, or several if a group has many records. The calls of a
// group are in order, and so are the records of each call.
func (sh *shards) calls(records []placed) [][]placed {
	var open [groups][]placed
	var calls [][]placed
	for _, r := range records {
		group := r.bucket % groups
		if len(open[group]) == maxRecords {
			calls = append(calls, open[group])
			open[group] = nil
		}
		open[group] = append(open[group], r)
	}
	for _, rest := range open {
		if len(rest) > 0 {
			calls = append(calls, rest)
		}
	}
	return calls
}

// slice is a hash of rows.
type slice struct {
	bucket uint64
	number int64
}

func (s slice) compare(other slice) int {
	return cmp.Or(cmp.Compare(s.bucket, other.bucket), cmp.Compare(s.number, other.number))
}

// command is the script call for records of one group.
func (sh *shards) command(conn connection, q dedupe.Question, records []placed) valkey.Completed {
	// The slices of a record are consecutive among the slices of all records of its bucket.
	var all []slice
	for _, r := range records {
		own := conn.number(r.arrival)
		for number := own - conn.sees; number <= own+conn.sees; number++ {
			all = append(all, slice{r.bucket, number})
		}
	}
	slices.SortFunc(all, slice.compare)
	all = slices.Compact(all)

	packed := make([]byte, 0, len(records)*recordSize)
	for i := range records {
		r := &records[i]
		first, _ := slices.BinarySearchFunc(all, slice{r.bucket, conn.number(r.arrival) - conn.sees}, slice.compare)
		packed = r.appendTo(packed, 1+first)
	}
	keepIDs := "0"
	if q.KeepIDs {
		keepIDs = "1"
	}
	prefix := "{oncebox:" + q.Scope + ":" + strconv.FormatUint(records[0].bucket%groups, 10) + "}" +
		strconv.Itoa(len(sh.servers)) + "." + strconv.FormatUint(sh.buckets, 10) + "."
	keys := make([]string, len(all))
	args := make([]string, 0, 3+len(all))
	args = append(args, strconv.FormatInt(conn.sees, 10), keepIDs, string(packed))
	for i, s := range all {
		keys[i] = prefix + strconv.FormatUint(s.bucket, 36) + "." + strconv.FormatInt(s.number, 36)
		args = append(args, strconv.FormatInt(conn.expires(s.number), 10))
	}
	return conn.B().Evalsha().Sha1(conn.script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}
