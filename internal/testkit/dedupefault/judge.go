package dedupefault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// judge knows all records that producers sent, and what happened to them. It finds violations of guarantees. The text
// of a violation begins with the name of the guarantee.
type judge struct {
	violation error // the first violation
	moment    int   // the number of events so far

	inputs        []*input
	byRecord      map[string][]*input // by shard and sequence number
	invocations   map[string]*invocation
	keys          map[dedupe.Key]bool      // the keys of the entries in the ledger
	held          map[dedupe.Digest]int    // when an owner first held an entry
	acked         map[dedupe.OwnerMark]int // when an ack first named a record
	objects       map[string][]byte        // the objects of the dead-letter store in memory
	notifications map[string]int           // the number of notifications, by owner
	counted       int64                    // the number of records that were counted as new or synthetic
}

func newJudge() judge {
	return judge{
		byRecord: map[string][]*input{}, invocations: map[string]*invocation{}, keys: map[dedupe.Key]bool{},
		held: map[dedupe.Digest]int{}, acked: map[dedupe.OwnerMark]int{}, objects: map[string][]byte{}, notifications: map[string]int{},
	}
}

// input is one record of a producer.
type input struct {
	User
	n            int
	data         []byte
	position     dedupe.Position
	partitionKey string
	arrival      time.Time
	keys         []dedupe.Key // the keys under which the ledger may have it: of its id, and of ids derived from it

	deliveries []delivery
	confirmed  bool      // the sink reported the record as delivered
	storedAt   int       // the moment when it was dead-lettered; 0 means never
	passedAt   int       // the moment when a sink first refused it; 0 means never
	refused    bool      // the function was told so
	offered    bool      // a stream sink refused it: its entry is in the ledger
	givenUp    bool      // the mapping gave the record up, and stored the whole batch
	oldest     time.Time // if givenUp: the first arrival in that batch, whose age decides about a redrive of the batch
}

func (in *input) String() string {
	return fmt.Sprintf("record %d (%s, %s, %s)", in.n, in.User, shortOwner(in.position.Owner().String()), in.arrival.Sub(epoch))
}

// hasKeys reports whether these are the record's keys. A record in an aggregate has keys of its own.
func (in *input) hasKeys(partitionKey, explicitHashKey string) bool {
	if in.position.Sub == dedupe.Plain {
		return partitionKey == in.partitionKey && explicitHashKey == ""
	}
	return partitionKey == aggregateKey && explicitHashKey == aggregateHashKey
}

// mayArrive reports whether an invocation may send a record to the sink. inv is nil for a sink that is read at the
// end.
func (in *input) mayArrive(inv *invocation) bool {
	switch in.Kind {
	case Refused:
		return inv == nil || inv.level == Objects
	case Correctable:
		return inv == nil || inv.redrives
	}
	return in.Kind == Good
}

// passedOver reports whether the sink had refused the record before a moment.
func (in *input) passedOver(moment int) bool { return in.passedAt > 0 && in.passedAt < moment }

func (in *input) delivered() bool { return len(in.deliveries) > 0 }

// handled reports whether the record itself is delivered, dead-lettered or given up.
func (in *input) handled() bool {
	return in.delivered() || in.confirmed || in.storedAt > 0 || in.givenUp
}

// shortOwner returns an owner without its stream.
func shortOwner(owner string) string {
	return strings.TrimPrefix(owner, streamName.String()+"/shardId-")
}

// delivery is one arrival of a record in the sink.
type delivery struct {
	id         string
	moment     int
	outOfOrder bool // the sink did not deliver a record that comes before this one
	effect     bool // the sink delivers more strictly than at least once
}

// invocation is one invocation, and the record of its actions.
type invocation struct {
	*eventsource.Invocation
	level      Level // the level of its sink
	redrives   bool  // this is the program that redrives dead letters, not the function
	cancel     context.CancelFunc
	began      int
	acked      map[dedupe.OwnerMark]bool // the records that the acks named when it read them
	sendFailed bool                      // a Send, or the Put of a record that a Send refused
	refused    map[string]bool           // the owners of the records that the sink refused
	notStored  bool                      // a Put of dead letters failed: those behind it are not tried
	sent       map[int]bool
	confirmed  map[int]bool
	stored     map[string]bool // the owners of the dead letters that it stored
	tally      *dedupe.Tally
}

func (w *World) newInvocation(inv *eventsource.Invocation) *invocation {
	return &invocation{
		Invocation: inv, began: w.tick(), sent: map[int]bool{}, confirmed: map[int]bool{}, stored: map[string]bool{},
		refused: map[string]bool{},
	}
}

// mark returns the record's mark in an ack. wholeMark returns the mark of the Kinesis record that contains it.
func (in *input) mark() dedupe.OwnerMark { return in.position.Owner().Mark() }

func (in *input) wholeMark() dedupe.OwnerMark {
	whole := in.position
	whole.Sub = dedupe.Plain
	return whole.Owner().Mark()
}

// skips reports whether the acks that the invocation has read name the record.
func (inv *invocation) skips(in *input) bool {
	return inv.acked[in.mark()] || inv.acked[in.wholeMark()]
}

// noteAck records an ack, and checks that every record it names is done.
func (w *World) noteAck(key dedupe.AckKey, a dedupe.Ack) {
	now := w.tick()
	for mark := range a.Marks() {
		known := false
		for _, in := range w.inputs {
			if in.mark() != mark && in.wholeMark() != mark {
				continue
			}
			known = true
			if !w.isDelivered(in) && in.storedAt == 0 && !w.hasCopy(in, w.holds) {
				w.violate("ack: %v is acknowledged, and is not done", in)
			}
			if !between(in.position.Sequence, a.First, a.Last) {
				w.violate("ack: %v is not between %s and %s", in, a.First, a.Last)
			}
		}
		if !known {
			w.violate("ack: it names a record that is not in %s", key.Shard)
		}
		if w.acked[mark] == 0 {
			w.acked[mark] = now
		}
	}
}

// isDelivered reports whether the function knows that a record is delivered. It knows from the sink's answer, or from
// the record's entry in a transactional sink.
func (w *World) isDelivered(in *input) bool {
	return in.confirmed || w.scenario.Sink != AtLeastOnce && in.effects() > 0
}

// effects returns how often an exactly-once sink did the record's effect.
func (in *input) effects() (n int) {
	for _, d := range in.deliveries {
		if d.effect {
			n++
		}
	}
	return n
}

// switched records that the function has a new sink, for which no record is done yet.
func (w *World) switched() {
	clear(w.acked)
	for _, in := range w.inputs {
		in.confirmed = false
	}
}

func between(sequence, first, last string) bool {
	return dedupe.CompareSequence(first, sequence) <= 0 && dedupe.CompareSequence(sequence, last) <= 0
}

// noteRead records the acks that an invocation has read. It checks that they include all acks that were written
// before.
func (w *World) noteRead(inv *invocation, before int, acks []dedupe.Ack) {
	inv.acked = map[dedupe.OwnerMark]bool{}
	for _, a := range acks {
		for mark := range a.Marks() {
			inv.acked[mark] = true
		}
	}
	for record := range inv.Records {
		for _, in := range w.inputsOf(inv, record) {
			if inv.level != w.scenario.Sink {
				continue
			}
			for _, mark := range []dedupe.OwnerMark{in.mark(), in.wholeMark()} {
				if at := w.acked[mark]; at > 0 && at < before && !inv.acked[mark] {
					w.violate("ack: #%d did not find that of %v", inv.Number, in)
				}
			}
		}
	}
}

func (w *World) violate(format string, args ...any) {
	if w.violation == nil {
		w.violation = fmt.Errorf(format, args...)
	}
}

func (w *World) tick() int {
	w.moment++
	return w.moment
}

func recordKey(shard, sequence string) string { return shard + ":" + sequence }

// newInput makes a numbered record. The number is part of its data.
func (w *World) newInput(u User) *input {
	in := &input{User: u, n: w.tick()}
	switch u.Kind {
	case Broken:
		in.data = fmt.Appendf(nil, `{"n":%d`, in.n)
	case NoID:
		in.data = fmt.Appendf(nil, `{"n":%d}`, in.n)
	case Panics:
		in.data = fmt.Appendf(nil, "%s %d", panicData, in.n)
	case Kills:
		in.data = fmt.Appendf(nil, "%s %d", killData, in.n)
	case Large:
		in.ID = fmt.Sprint("large-", in.n)
		in.data = fmt.Appendf(nil, `{"id":%q,"fp":"x","n":%d,"more":%q}`, in.ID, in.n, strings.Repeat("x", MostData))
	case Correctable:
		in.data = fmt.Appendf(nil, `{"id":%q,"fp":%q,"n":%d,"more":%s}`, u.ID, u.FP, in.n, correctableData)
	case Refused:
		in.data = fmt.Appendf(nil, `{"id":%q,"fp":%q,"n":%d,"more":%s}`, u.ID, u.FP, in.n, refusedData)
	default:
		in.data = fmt.Appendf(nil, `{"id":%q,"fp":%q,"n":%d}`, u.ID, u.FP, in.n)
	}
	in.keys = possibleKeys(in.User)
	return in
}

func (w *World) addInput(in *input) {
	w.inputs = append(w.inputs, in)
	key := recordKey(in.position.Shard, in.position.Sequence)
	w.byRecord[key] = append(w.byRecord[key], in)
}

func (w *World) inputOf(n int) *input {
	i := slices.IndexFunc(w.inputs, func(in *input) bool { return in.n == n })
	if i < 0 {
		return nil
	}
	return w.inputs[i]
}

func (w *World) inputAt(owner string) *input {
	i := slices.IndexFunc(w.inputs, func(in *input) bool { return in.position.Owner().String() == owner })
	if i < 0 {
		return nil
	}
	return w.inputs[i]
}

// noteEntry records the entry that is in the ledger after a put: the new entry, or the existing one.
func (w *World) noteEntry(e dedupe.Entry, existing *dedupe.Existing) {
	owner := e.Owner.Digest()
	if existing != nil {
		owner = existing.Owner // an earlier put with a lost reply may have written it
	}
	w.keys[e.Key] = true
	if w.held[owner] == 0 {
		w.held[owner] = w.tick()
	}
}

// holds reports whether a record is known to hold an entry, or to have held one.
func (w *World) holds(in *input) bool { return w.held[in.position.Owner().Digest()] > 0 }

// sentPayload is the data of a record in the sink.
type sentPayload struct {
	ID string `json:"id"`
	FP string `json:"fp"`
	N  int    `json:"n"`
}

// arrive records that a record is in the sink.
func (w *World) arrive(inv *invocation, o dedupe.Output) {
	var p sentPayload
	if err := json.Unmarshal(o.Data, &p); err != nil {
		w.violate("G10: the sink got %q", o.Data)
		return
	}
	in := w.inputOf(p.N)
	switch {
	case in == nil || !in.mayArrive(inv):
		w.violate("G10: the sink got %s", o.Data)
		return
	case p.ID != o.ID:
		w.violate("G9: %v went out as %s, and says that it is %s", in, o.ID, p.ID)
	case p.FP != in.FP, o.ID == in.ID && string(o.Data) != string(in.data):
		w.violate("G6: %v went out changed: %s", in, o.Data)
	case (inv == nil || inv.level != Objects) && !in.hasKeys(o.PartitionKey, o.ExplicitHashKey):
		w.violate("G6: %v went out with partition key %s and hash key %q", in, o.PartitionKey, o.ExplicitHashKey)
	case inv != nil && w.sim.Now().Sub(in.arrival) > horizon:
		w.violate("harness: %v was processed later than the horizon", in)
	}
	if inv != nil {
		if inv.sent[in.n] && !inv.redrives { // a redrive may find a record in two batches
			w.violate("G11: #%d sent %v twice", inv.Number, in)
		}
		if inv.level != AtLeastOnce && in.effects() > 0 {
			w.violate("G11: #%d did the effect of %v a second time", inv.Number, in)
		}
		if inv.skips(in) && !inv.redrives { // a redrive ignores acks
			w.violate("G11: #%d sent %v again, and had read that it is done", inv.Number, in)
		}
		inv.sent[in.n] = true
	}
	in.deliveries = append(in.deliveries, delivery{
		id: o.ID, moment: w.tick(), outOfOrder: inv != nil && inv.redrives, effect: inv != nil && inv.level != AtLeastOnce,
	})
	w.checkDelivery(in)
}

// outOfOrder records that the sink did not deliver the records between these outputs.
func (w *World) outOfOrder(outputs []dedupe.Output) {
	for _, o := range outputs {
		if in := w.inputOfOutput(o); in != nil && in.delivered() {
			in.deliveries[len(in.deliveries)-1].outOfOrder = true
		}
	}
}

// confirm records the outputs that the sink reported as delivered.
func (w *World) confirm(ctx context.Context, outputs []dedupe.Output) {
	for _, o := range outputs {
		var p sentPayload
		if json.Unmarshal(o.Data, &p) != nil {
			continue
		}
		inv := invocationOf(ctx)
		inv.confirmed[p.N] = true
		if inv.level == w.scenario.Sink {
			w.inputOf(p.N).confirmed = true
		}
	}
}

// passOver records that the sink refuses an output from a moment on. It may take those behind it.
func (w *World) passOver(o dedupe.Output, moment int) {
	if in := w.inputOfOutput(o); in != nil && in.passedAt == 0 {
		in.passedAt = moment
	}
}

// refused records that the function was told that the sink refuses an output.
func (w *World) refused(ctx context.Context, o dedupe.Output) {
	inv, in := invocationOf(ctx), w.inputOfOutput(o)
	if in == nil {
		return
	}
	in.refused, inv.refused[in.position.Owner().String()] = true, true
	if inv.level == AtLeastOnce { // a transaction leaves no entry
		in.offered = true
		w.checkCopies(in)
	}
}

// inputOfOutput returns the record of an output, or nil if it is not one.
func (w *World) inputOfOutput(o dedupe.Output) *input {
	var p sentPayload
	if json.Unmarshal(o.Data, &p) != nil {
		return nil
	}
	return w.inputOf(p.N)
}

// notStored records that dead letters are not stored.
func (w *World) notStored(ctx context.Context, letters []dedupe.DeadLetter) {
	inv := invocationOf(ctx)
	inv.notStored = inv.notStored || len(letters) > 0
	for _, l := range letters {
		inv.sendFailed = inv.sendFailed || inv.refused[l.Owner]
	}
}

// checkCopies checks G7 for a record that a stream sink has got or refused.
func (w *World) checkCopies(in *input) {
	for _, o := range w.inputs {
		if same(in, o) && o.arrival.Sub(in.arrival).Abs() <= window && (o.offered || in.offered && o.delivered()) {
			w.violate("G7: %v was refused, and its copy %v came to the sink", o, in)
		}
	}
}

func (w *World) giveUp(d eventsource.Discard) {
	w.note("given up: %s %s, %s", d.Shard, sequences(d.Records), d.Condition)
	w.discards = append(w.discards, d)
	var oldest time.Time
	for _, r := range d.Records {
		for _, in := range w.byRecord[recordKey(d.Shard, *r.SequenceNumber)] {
			if oldest.IsZero() { // records are in the order of their arrival
				oldest = in.arrival
			}
			if in.givenUp = true; in.oldest.Before(oldest) {
				in.oldest = oldest
			}
			if in.Kind != Kills && !w.scenario.Loses {
				w.violate("G10: %v was given up", in)
			}
		}
	}
}

// possibleKeys returns the key of a record's id, and then those of the ids that may be derived from it.
func possibleKeys(u User) []dedupe.Key {
	keys, id := []dedupe.Key{format.KeyOf(u.ID)}, u.ID
	for range 3 {
		id = format.DerivedID(id, u.FP)
		keys = append(keys, format.KeyOf(id))
	}
	return keys
}

// isDuplicate reports whether one record may be a duplicate of the other. A log ledger does not find a record by an id
// that was derived for it.
func (w *World) isDuplicate(a, b *input) bool {
	if w.onLog() {
		return same(a, b)
	}
	return copies(a, b)
}

// onLog reports whether the ledger is a log. A log does not recognise a producer that sends a derived id as its own
// id.
func (w *World) onLog() bool {
	_, ok := w.engine.(LogStore)
	return ok
}

// copies reports whether one record may be a duplicate of the other. Both must have the same fingerprint. Their
// ids must be equal, or one must be derived from the other.
func copies(a, b *input) bool {
	return a != b && a.Kind.identified() && b.Kind.identified() && a.FP == b.FP &&
		(slices.Contains(a.keys, b.keys[0]) || slices.Contains(b.keys, a.keys[0]))
}

func same(a, b *input) bool {
	return a != b && a.Kind.identified() && b.Kind.identified() && a.FP == b.FP && a.keys[0] == b.keys[0]
}

func (w *World) hasCopy(in *input, pick func(*input) bool) bool {
	return slices.ContainsFunc(w.inputs, func(o *input) bool { return w.isDuplicate(in, o) && pick(o) })
}

// checkDelivery checks G7 and G9 when a record arrives in the sink.
func (w *World) checkDelivery(in *input) {
	w.checkCopies(in)
	id := in.deliveries[len(in.deliveries)-1].id
	if first := in.deliveries[0].id; first != id {
		w.violate("G9: %v went out as %s and as %s", in, first, id)
	}
	for _, o := range w.inputs {
		if o == in || !o.delivered() || o.arrival.Sub(in.arrival).Abs() > window {
			continue
		}
		if same(in, o) {
			w.violate("G7: %v and its copy %v were both delivered", o, in)
		}
		ofOneID := format.KeyOf(o.ID) == format.KeyOf(in.ID)
		if format.KeyOf(o.deliveries[0].id) == format.KeyOf(id) && (ofOneID || !w.onLog()) {
			w.violate("G9: %v and %v both went out as %s", o, in, id)
		}
	}
}

// checkAnswer compares the answer of an invocation with its actions.
func (w *World) checkAnswer(inv *invocation, answer events.KinesisEventResponse, err error) {
	failed := len(inv.Records)
	switch {
	case errors.Is(err, recordhandler.ErrNoProgress) && failed > 1:
		failed = 0
		if w.allDone(inv, 0) {
			w.violate("answer: #%d fails, and all of its first record is done", inv.Number)
		}
	case err != nil:
		w.violate("handler: %w", err)
		return
	}
	if len(answer.BatchItemFailures) > 1 {
		w.violate("answer: #%d names %d records, and not the lowest alone", inv.Number, len(answer.BatchItemFailures))
		return
	}
	for _, f := range answer.BatchItemFailures {
		failed = slices.IndexFunc(sequencesOf(inv), func(s string) bool { return s == f.ItemIdentifier })
		if failed < 0 {
			w.violate("answer: #%d names %q, which is not one of its records", inv.Number, f.ItemIdentifier)
			return
		}
		if failed == 0 && len(inv.Records) > 1 {
			w.violate("answer: #%d names its first record: nothing is done, and the invocation must fail", inv.Number)
		}
		if w.allDone(inv, failed) {
			w.violate("answer: #%d names %s, of which all is done", inv.Number, f.ItemIdentifier)
		}
	}
	for owner := range inv.refused {
		if !inv.stored[owner] && !inv.notStored {
			w.violate("G10: #%d did not dead-letter %v, which the sink has refused", inv.Number, w.inputAt(owner))
		}
	}
	for later := failed + 1; later < len(inv.Records); later++ {
		for _, in := range w.inputsOf(inv, later) {
			if inv.confirmed[in.n] && !inv.sendFailed && w.mustFollow(inv, in, failed) {
				w.violate("order: #%d delivered %v, which comes after the record that it names", inv.Number, in)
			}
		}
	}
	done := w.checkDone(inv, failed)
	if t := inv.tally; t != nil {
		w.checkTally(inv, *t, done, failed == len(inv.Records))
	}
}

// mustFollow reports whether a record may be delivered only after an earlier record of the same invocation. A
// transactional sink keeps the order within each partition key, and stores dead letters later.
func (w *World) mustFollow(inv *invocation, in *input, earlier int) bool {
	return slices.ContainsFunc(w.inputsOf(inv, earlier), func(o *input) bool {
		return inv.level != Transactional || o.key() == in.key() && o.Kind == Good &&
			!inv.confirmed[o.n] && !w.isDelivered(o) && !w.hasCopy(o, w.holds)
	})
}

// key is the record's partition key.
func (in *input) key() string {
	if in.position.Sub != dedupe.Plain {
		return aggregateKey
	}
	return in.partitionKey
}

func sequencesOf(inv *invocation) (all []string) {
	for _, r := range inv.Records {
		all = append(all, *r.SequenceNumber)
	}
	return all
}

func (w *World) inputsOf(inv *invocation, record int) []*input {
	return w.byRecord[recordKey(inv.Shard, *inv.Records[record].SequenceNumber)]
}

// allDone reports whether the invocation itself knew that a record is delivered or dead-lettered.
func (w *World) allDone(inv *invocation, record int) bool {
	return !slices.ContainsFunc(w.inputsOf(inv, record), func(in *input) bool {
		return !inv.confirmed[in.n] && !inv.stored[in.position.Owner().String()] && !inv.skips(in)
	})
}

// done holds the numbers of records before the failed one, by result.
type done struct{ delivered, stored, dropped, skipped int64 }

// checkDone checks that all records before the failed one are done (G6 and G8).
func (w *World) checkDone(inv *invocation, failed int) (d done) {
	for record := range failed {
		of := w.inputsOf(inv, record)
		if inv.acked[of[0].wholeMark()] {
			d.skipped++
			continue
		}
		for _, in := range of {
			owner := in.position.Owner().String()
			switch held := w.held[in.position.Owner().Digest()]; {
			case inv.skips(in):
				d.skipped++
			case inv.stored[owner]:
				d.stored++
			case inv.confirmed[in.n], inv.level != AtLeastOnce && w.isDelivered(in):
				d.delivered++
			case !in.Kind.readable():
				w.violate("G6: #%d did not dead-letter %v, and says that it is done", inv.Number, in)
			case held > 0 && held < inv.began:
				w.violate("G8: #%d took %v for a duplicate of itself", inv.Number, in)
			case !w.hasCopy(in, w.holds):
				w.violate("G6: #%d did not deliver %v, which is no duplicate, and says that it is done", inv.Number, in)
			default:
				d.dropped++
			}
		}
	}
	return d
}

// checkTally checks the counts of an invocation. Above all, repeats must be counted as retries (G11). If the
// invocation failed, it is known only for the records before the failed one that they were dropped or skipped.
func (w *World) checkTally(inv *invocation, t dedupe.Tally, d done, all bool) {
	if t.In != t.New+t.Retry+t.Natural+t.Synthetic+t.DeadLettered+t.Skipped+t.Failed {
		w.violate("tally: #%d does not add up: %+v", inv.Number, t)
	}
	got := done{t.New + t.Retry + t.Synthetic, t.DeadLettered, t.Natural, t.Skipped}
	if !all {
		d.delivered, d.stored = int64(len(inv.confirmed)), int64(len(inv.stored))
		d.dropped, d.skipped = max(d.dropped, got.dropped), max(d.skipped, got.skipped)
	}
	if inv.level != AtLeastOnce {
		// A retry whose effect is done counts as delivered, although this invocation did not deliver it. Another
		// invocation may have delivered a record that this one dropped.
		d.delivered, got.delivered = d.delivered+d.dropped, got.delivered+got.dropped
		d.dropped, got.dropped = 0, 0
		if !all {
			d.delivered = max(d.delivered, got.delivered)
		}
	}
	if inv.level == Objects {
		d = got // a skipped record is in an object of another invocation; this one may learn that at any time
	}
	if got != d || t.Out != int64(len(inv.confirmed)) {
		w.violate("tally: #%d counts %+v, and did %+v", inv.Number, t, d)
	}
	w.counted += t.New + t.Synthetic
}

// atRest checks the conditions that must hold at the end.
func (w *World) atRest() error {
	w.readSink()
	var distinct int64
	for _, in := range w.inputs {
		if err := w.checkDeadLetter(in); err != nil {
			return err
		}
		if in.delivered() {
			distinct++
		} else if in.confirmed {
			w.violate("G6: %v is not in the sink, which said that it is", in)
		}
	}
	for i, in := range w.inputs {
		if !in.handled() && !w.hasCopy(in, (*input).handled) {
			w.violate("G6: %v is lost", in)
		}
		w.checkOrder(in, w.inputs[:i])
	}
	if w.counted > distinct {
		w.violate("G11: %d records were counted as new or synthetic, and there are %d: repeats are retries",
			w.counted, distinct)
	}
	w.checkRepeats()
	if err := w.checkObjects(); err != nil {
		return err
	}
	if err := w.checkLog(); err != nil {
		return err
	}
	if t := w.poller.Tally(); t != (eventsource.Tally{}) {
		w.violate("harness: the mapping lost records: %+v", t)
	}
	return w.checkNotifications()
}

// checkRepeats checks that no record arrives in the sink twice if there was no fault.
func (w *World) checkRepeats() {
	for _, in := range w.inputs {
		n := len(in.deliveries)
		if w.scenario.Sink != AtLeastOnce {
			n = in.effects()
		} else if !w.faultless || w.scenario.NoAcks {
			continue
		}
		if n > 1 {
			w.violate("G11: %v came to the sink %d times", in, n)
		}
	}
}

// checkNotifications checks that there are notifications of all dead letters and no others.
func (w *World) checkNotifications() error {
	notSent := map[string]int{}
	if w.parts.Notified != nil {
		arrived, failed, err := w.parts.Notified(w.ctx)
		if err != nil {
			return err
		}
		for _, n := range arrived {
			w.notifications[n.Owner]++
			if in := w.inputAt(n.Owner); in == nil || n.Reason == "" ||
				!strings.HasSuffix(n.Key, deadletter.Name(w.scope, n.Owner, in.data)) {
				w.violate("notifier: it sent %+v", n)
			}
		}
		for _, n := range failed {
			notSent[n.Owner]++
		}
	}
	least, most := w.parts.Notifications[0], w.parts.Notifications[1]
	for _, in := range w.inputs {
		owner := in.position.Owner().String()
		n := w.notifications[owner]
		delete(w.notifications, owner)
		switch {
		case in.storedAt == 0 && n+notSent[owner] > 0:
			w.violate("notifier: it sent a notification of %v, which is not dead-lettered", in)
		case in.storedAt > 0 && (n+notSent[owner] < least || n > most):
			w.violate("notifier: it sent %d notifications of %v, want %d to %d", n, in, least, most)
		}
	}
	if len(w.notifications) > 0 {
		w.violate("notifier: it sent notifications of unknown records: %v", w.notifications)
	}
	return nil
}

// readSink reads the records in a sink that is not in memory.
func (w *World) readSink() {
	if w.parts.Delivered == nil {
		return
	}
	for _, o := range w.parts.Delivered() {
		var p sentPayload
		_ = json.Unmarshal(o.Data, &p) // arrive reports data that is not a record
		o.ID = p.ID
		w.arrive(nil, o)
		w.outOfOrder([]dedupe.Output{o}) // the order of repeated requests is not known
	}
}

// checkDeadLetter reads the dead letter of an input, and checks G6 and G10.
func (w *World) checkDeadLetter(in *input) error {
	l, err := w.parts.DeadLetter(w.ctx, w.scope, in.position.Owner().String(), in.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if in.Kind.poison() && !in.givenUp {
			w.violate("G6: %v is poison, and is not dead-lettered", in)
		}
		return nil
	case err != nil:
		return err
	case in.Kind.readable() && !in.refused:
		w.violate("G10: %v is dead-lettered: %s", in, l.Reason)
	case string(l.Data) != string(in.data) || !in.hasKeys(l.PartitionKey, l.ExplicitHashKey) ||
		!l.Arrival.Equal(in.arrival) || l.Position != in.position || l.Reason == "":
		w.violate("G10: %v is not dead-lettered whole: %+v", in, l)
	}
	w.stored(l.Owner)
	return nil
}

// stored records that a record is dead-lettered.
func (w *World) stored(owner string) {
	if in := w.inputAt(owner); in != nil && in.storedAt == 0 {
		in.storedAt = w.tick()
	}
}

// checkOrder checks that records are delivered in order, and that the first of several copies in a shard is
// delivered. The result must be as if records were decided one by one.
func (w *World) checkOrder(in *input, before []*input) {
	if !in.delivered() {
		return
	}
	for _, o := range before {
		ordered := o.position.Shard == in.position.Shard && (w.scenario.Parallel <= 1 || o.partitionKey == in.partitionKey)
		if w.scenario.Sink == Transactional && o.key() != in.key() && !w.isDuplicate(o, in) {
			ordered = false
		}
		if !ordered || o.givenUp || o.Kind == Correctable || in.deliveries[0].outOfOrder {
			continue
		}
		// A copy beyond the window may first be dropped and later be delivered.
		if w.hasCopy(o, func(c *input) bool { return w.holds(c) && o.arrival.Sub(c.arrival) > window }) {
			continue
		}
		first := in.deliveries[0]
		if o.delivered() && o.deliveries[0].effect != first.effect {
			continue // a late invocation still had the earlier sink
		}
		doneLater := o.delivered() && o.deliveries[0].moment > first.moment ||
			o.storedAt > first.moment && w.scenario.Sink != Transactional // it stores dead letters after the effects
		if !first.outOfOrder && doneLater && !o.passedOver(first.moment) {
			w.violate("order: %v was delivered before %v was done", in, o)
		}
		other := func(c *input) bool { return c != in && c.handled() }
		if o.Kind == Good && same(o, in) && !o.handled() && in.arrival.Sub(o.arrival) <= window && !w.hasCopy(o, other) {
			w.violate("order: %v was taken for a duplicate of %v, which came after it", o, in)
		}
	}
}
