package kinesissink

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// aggregationMaxSize is the size of the largest aggregate in bytes, without its partition key. It is the default of
// the KPL's AggregationMaxSize (configuration.h of awslabs/amazon-kinesis-producer). A record that does not fit is
// sent plain.
const aggregationMaxSize = 51_200

// aggregateKey is the partition key of an aggregate, as in the KPL: its explicit hash key chooses the shard.
const aggregateKey = "a"

// The limits of one request, in records and in bytes of data and partition keys (API reference, PutRecords).
const (
	maxRecords = 500
	maxBytes   = 10 << 20
)

// record is a Kinesis record: one output, or an aggregate of several.
type record struct {
	entry   types.PutRecordsRequestEntry
	outputs []int  // indexes of its outputs
	shard   *shard // the planned shard of an aggregate; nil for a plain record
}

func (r *record) size() int { return len(r.entry.Data) + len(*r.entry.PartitionKey) }

// keyOf returns the key that chooses the shard of an output. Outputs with the same key keep their order.
func keyOf(o dedupe.Output) string {
	if o.ExplicitHashKey != "" {
		return o.ExplicitHashKey
	}
	return partitionKey(o)
}

// pack makes Kinesis records from all outputs that are not delivered. Outputs of one key keep their order.
func (d *delivery) pack(shards *shardMap) []record {
	limit := min(aggregationMaxSize, d.sink.maxRecord-len(aggregateKey))
	p := packer{delivery: d, limit: limit, open: map[*shard]*aggregate{}}
	for i, o := range d.outputs {
		switch {
		case d.sent.Delivered[i]:
		case shards == nil:
			p.addPlain(i)
		default:
			p.add(i, shards.of(hashOf(o)), d.wantsAggregate(i))
		}
	}
	p.close()
	return p.records
}

// wantsAggregate reports whether an output is to be aggregated if possible.
func (d *delivery) wantsAggregate(i int) bool {
	switch d.sink.aggregation {
	case AggregateAlways:
		return !d.plain[i]
	case AggregateAuto:
		return !d.plain[i] && d.outputs[i].Aggregated
	}
	return false
}

// packer makes Kinesis records, with one open aggregate for each shard.
type packer struct {
	*delivery
	limit   int // of an aggregate, in bytes
	open    map[*shard]*aggregate
	order   []*aggregate // in the order in which they were opened
	records []record
}

// aggregate is an aggregate that is being filled.
type aggregate struct {
	kpl.Encoder
	outputs []int
	keys    keySet // of the outputs
	shard   *shard
}

// add adds an output for a shard, which is nil if it is not known.
func (p *packer) add(i int, s *shard, aggregated bool) {
	user := p.userRecord(i)
	a := p.open[s]
	var alone kpl.Encoder
	if s == nil || !aggregated || alone.SizeWith(user) > p.limit {
		if a != nil && a.keys.has(p.keys[i]) {
			p.flush(a)
		}
		p.addPlain(i)
		return
	}
	if a == nil {
		a = &aggregate{shard: s, keys: keySet{}}
		p.open[s], p.order = a, append(p.order, a)
	}
	if a.SizeWith(user) > p.limit {
		p.flush(a)
	}
	a.Add(user)
	a.outputs = append(a.outputs, i)
	a.keys[p.keys[i]] = struct{}{}
}

func (p *packer) userRecord(i int) kpl.UserRecord {
	o := p.outputs[i]
	user := kpl.UserRecord{Data: o.Data, PartitionKey: []byte(partitionKey(o))}
	if o.ExplicitHashKey != "" {
		user.ExplicitHashKey = []byte(o.ExplicitHashKey)
	}
	return user
}

func (p *packer) addPlain(i int) {
	o := p.outputs[i]
	e := types.PutRecordsRequestEntry{Data: o.Data, PartitionKey: aws.String(partitionKey(o))}
	if e.Data == nil {
		e.Data = []byte{} // with nil the request would lack this member
	}
	if o.ExplicitHashKey != "" {
		e.ExplicitHashKey = aws.String(o.ExplicitHashKey)
	}
	p.records = append(p.records, record{entry: e, outputs: []int{i}})
}

// flush ends an aggregate, and empties it for the next one of its shard. Like the KPL, it makes a plain record of a
// single output.
func (p *packer) flush(a *aggregate) {
	if len(a.outputs) == 1 {
		p.addPlain(a.outputs[0])
	} else {
		p.records = append(p.records, record{outputs: a.outputs, shard: a.shard, entry: types.PutRecordsRequestEntry{
			Data: a.Bytes(), PartitionKey: aws.String(aggregateKey), ExplicitHashKey: &a.shard.start,
		}})
	}
	a.Reset()
	a.outputs = nil
	clear(a.keys)
}

func (p *packer) close() {
	for _, a := range p.order {
		if len(a.outputs) > 0 {
			p.flush(a)
		}
	}
}

// keySet is a set of keys of records.
type keySet map[string]struct{}

func (k keySet) add(keys []string, r *record) {
	for _, i := range r.outputs {
		k[keys[i]] = struct{}{}
	}
}

func (k keySet) has(key string) bool {
	_, found := k[key]
	return found
}

func (k keySet) hasAny(keys []string, r *record) bool {
	return len(k) > 0 && slices.ContainsFunc(r.outputs, func(i int) bool { return k.has(keys[i]) })
}
