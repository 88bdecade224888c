package kinesissink

import (
	"container/heap"
	"slices"
)

// queue has the records of a round. A record waits for the record before it of each of its keys, until that one was
// sent. Plain records of one key wait only until that one is in the request, too. So each record is looked at once, also
// if all records are of one key.
type queue struct {
	records   []record
	keys      []string // of the outputs
	followers [][]int  // by record: the records that wait for it
	waits     []int    // by record: how many records it waits for
	ready     indexes  // the records that wait for none
	request   []int    // the records of the last request
}

func newQueue(records []record, keys []string) *queue {
	q := &queue{records, keys, make([][]int, len(records)), make([]int, len(records)), nil, nil}
	last := map[string]int{} // the last record of each key
	for i := range records {
		for _, output := range records[i].outputs {
			before, found := last[keys[output]]
			if last[keys[output]] = i; found && before != i {
				q.followers[before] = append(q.followers[before], i)
				q.waits[i]++
			}
		}
		if q.waits[i] == 0 {
			q.ready = append(q.ready, i) // ascending, which is a heap
		}
	}
	return q
}

// next takes the next request, in the order of the records. The request before was sent. A record with a refused key
// stays, and so do all that wait for it. The request is empty if no record can be sent.
func (q *queue) next(refused keySet) (request []record) {
	for _, i := range q.request {
		q.release(i)
	}
	q.request = q.request[:0]
	size := 0
	for len(q.ready) > 0 {
		i := q.ready[0]
		r := &q.records[i]
		if len(request) == maxRecords || len(request) > 0 && size+r.size() > maxBytes {
			break
		}
		heap.Pop(&q.ready)
		if refused.hasAny(q.keys, r) {
			continue
		}
		request, size = append(request, *r), size+r.size()
		q.request = append(q.request, i)
		if q.sharesRequest(i) {
			q.release(i)
		}
	}
	return request
}

// sharesRequest reports whether a record and those that wait for it may be in one request: all of them are plain.
func (q *queue) sharesRequest(i int) bool {
	return q.records[i].shard == nil &&
		!slices.ContainsFunc(q.followers[i], func(f int) bool { return q.records[f].shard != nil })
}

// release ends the wait for a record.
func (q *queue) release(i int) {
	for _, follower := range q.followers[i] {
		if q.waits[follower]--; q.waits[follower] == 0 {
			heap.Push(&q.ready, follower)
		}
	}
	q.followers[i] = nil
}

// indexes is a heap of indexes of records: the lowest one is the first.
type indexes []int

func (x indexes) Len() int           { return len(x) }
func (x indexes) Less(i, j int) bool { return x[i] < x[j] }
func (x indexes) Swap(i, j int)      { x[i], x[j] = x[j], x[i] }

// Push implements heap.Interface.
func (x *indexes) Push(i any) { *x = append(*x, i.(int)) }

// Pop implements heap.Interface.
func (x *indexes) Pop() any {
	last := len(*x) - 1
	i := (*x)[last]
	*x = (*x)[:last]
	return i
}
