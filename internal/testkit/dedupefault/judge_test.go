package dedupefault

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// testWorld is a World in which nothing runs. A test reports the events to its judge.
type testWorld struct{ *World }

func newTestWorld(t *testing.T) *testWorld {
	w := &testWorld{&World{
		ctx: t.Context(), scenario: Scenario{}.orDefaults(), scope: "judged", sim: eventsource.NewSim(epoch, 1),
		checkpoint: new(eventsource.Checkpoint), judge: newJudge(),
	}}
	t.Cleanup(w.sim.Close)
	w.parts = Parts{DeadLetter: w.deadLetterInMemory, Notifications: [2]int{0, 1}}
	w.stream = eventsource.NewStream(1, w.sim.Now)
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	return w
}

const testShard = "shardId-000000000000"

// good adds a record "id/fingerprint" that arrives at a time after the epoch.
func (w *testWorld) good(text string, at time.Duration) *input {
	id, fp, _ := strings.Cut(text, "/")
	return w.sends(User{ID: id, FP: fp}, at)
}

func (w *testWorld) sends(u User, at time.Duration) *input {
	in := w.newInput(u)
	in.position = dedupe.Position{Stream: streamName, Shard: testShard, Sequence: fmt.Sprint(100 + in.n), Sub: dedupe.Plain}
	in.arrival, in.partitionKey = epoch.Add(at), "key"
	w.addInput(in)
	return in
}

// invoked begins an invocation with these records.
func (w *testWorld) invoked(inputs ...*input) *invocation {
	inv := w.newInvocation(&eventsource.Invocation{Number: len(w.invocations) + 1, Shard: testShard})
	for _, in := range inputs {
		inv.Records = append(inv.Records, types.Record{SequenceNumber: &in.position.Sequence})
	}
	w.invocations[fmt.Sprint(inv.Number)] = inv
	return inv
}

func in(ctx context.Context, inv *invocation) context.Context {
	return context.WithValue(ctx, invocationKey{}, inv)
}

// puts gives the record the entry of its key.
func (w *testWorld) puts(of *input) {
	w.noteEntry(dedupe.Entry{Key: format.KeyOf(of.ID), Owner: of.position.Owner(), Fingerprint: of.FP}, nil)
}

// delivers gives the record its entry, puts it into the sink, and reports it as delivered.
func (w *testWorld) delivers(inv *invocation, of *input) {
	w.puts(of)
	w.sendsAs(inv, of, of.ID, string(of.data))
}

func (w *testWorld) sendsAs(inv *invocation, of *input, id, data string) {
	ctx, o := in(w.ctx, inv), dedupe.Output{ID: id, PartitionKey: of.partitionKey, Data: []byte(data)}
	_, _ = memorySink{w.World}.Send(ctx, []dedupe.Output{o})
	w.confirm(ctx, []dedupe.Output{o})
}

// commits delivers the record to an object sink whose storage has it in these objects.
func (w *testWorld) commits(of *input, objects ...string) {
	w.scenario.Sink, w.storage = Objects, memobjects.New()
	inv := w.invoked(of)
	inv.level = Objects
	w.delivers(inv, of)
	w.answers(inv)
	for _, key := range objects {
		_ = w.storage.Put(w.ctx, key, objectsink.Content{Body: append(of.data, '\n')})
	}
}

// stores puts the record into the dead-letter store.
func (w *testWorld) stores(inv *invocation, of *input, change func(*dedupe.DeadLetter)) {
	f := dedupe.DeadLetter{
		Scope: w.scope, Owner: of.position.Owner().String(), Position: of.position, Reason: "bad",
		PartitionKey: of.partitionKey, Arrival: of.arrival, Data: of.data,
	}
	if change != nil {
		change(&f)
	}
	_, _ = deadletter.New(memoryObjects{w.World}).Put(w.ctx, []dedupe.DeadLetter{f})
	w.stored(f.Owner)
	inv.stored[f.Owner] = true
}

// refuses gives the record its entry, and tells the function that the sink refuses it.
func (w *testWorld) refuses(inv *invocation, of *input) {
	w.puts(of)
	o := dedupe.Output{ID: of.ID, PartitionKey: of.partitionKey, Data: of.data}
	w.passOver(o, w.tick())
	w.refused(in(w.ctx, inv), o)
}

// storedPoison adds a poison record that is dead-lettered.
func (w *testWorld) storedPoison() *input {
	a := w.sends(User{Kind: NoID}, 0)
	inv := w.invoked(a)
	w.stores(inv, a, nil)
	w.answers(inv)
	return a
}

// notified adds a notification about the record to the queue.
func (w *testWorld) notified(of *input, key, reason string) {
	w.parts.Notified = func(context.Context) (arrived, notSent []deadletter.Notification, err error) {
		return []deadletter.Notification{{Place: deadletter.Place{Bucket: "b", Key: key}, Owner: of.position.Owner().String(), Reason: reason}}, nil, nil
	}
}

// answers ends the invocation with an answer that names these records as failed.
func (w *testWorld) answers(inv *invocation, failed ...*input) {
	var answer events.KinesisEventResponse
	for _, of := range failed {
		answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: of.position.Sequence})
	}
	w.checkAnswer(inv, answer, nil)
}

// acks writes an ack that names the records.
func (w *testWorld) acks(inputs ...*input) (a dedupe.Ack) {
	a.First, a.Last = inputs[0].position.Sequence, inputs[len(inputs)-1].position.Sequence
	for _, of := range inputs {
		mark := of.mark()
		a.Owners = append(a.Owners, mark[:]...)
	}
	w.noteAck(dedupe.AckKey{Shard: testShard}, a)
	return a
}

// TestJudge checks that the judge accepts permitted events, and finds violations of a guarantee.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		tell func(w *testWorld)
		want string // the beginning of the violation; empty: no violation
	}{
		{"delivered", func(w *testWorld) {
			a := w.good("a/x", 0)
			inv := w.invoked(a)
			w.delivers(inv, a)
			w.acks(a)
			w.answers(inv)
		}, ""},
		{"never handled", func(w *testWorld) { w.good("a/x", 0) }, "G6: record 1 (a/x, 000000000000/101, 0s) is lost"},
		{"called done and not delivered", func(w *testWorld) { a := w.good("a/x", 0); w.answers(w.invoked(a)) }, "G6: #1 did not deliver"},
		{"the copy of a delivered one", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/x", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.answers(inv)
		}, ""},
		{"the copy of one that is never delivered", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/x", 0)
			w.puts(a)
			w.answers(w.invoked(b))
		}, "G6: record 1"},
		{"another fingerprint is no copy", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/y", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.answers(inv)
		}, "G6: #1 did not deliver record 2"},
		{"two copies delivered, the window apart", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/x", window)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.delivers(inv, b)
		}, "G7: "},
		{"two copies delivered, further apart", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/x", window+time.Millisecond)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.delivers(inv, b)
			w.answers(inv)
		}, ""},
		{"delivered again by the next invocation", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			again := w.invoked(a)
			w.delivers(again, a)
			w.answers(again)
		}, ""},
		{"delivered again by the same", func(w *testWorld) {
			a := w.good("a/x", 0)
			inv := w.invoked(a)
			w.delivers(inv, a)
			w.delivers(inv, a)
		}, "G11: #1 sent record 1"},
		{"its own copy", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.puts(a)
			w.answers(w.invoked(a))
		}, "G8: #1"},
		{"another id the next time", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			w.sendsAs(w.invoked(a), a, "b", `{"id":"b","fp":"x","n":1}`)
		}, "G9: record 1"},
		{"the id of another", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.sendsAs(inv, b, "a", `{"id":"a","fp":"x","n":2}`)
		}, "G9: record 1"},
		{"an id that is not the payload's", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.sendsAs(w.invoked(a), a, "b", string(a.data))
		}, "G9: record 1"},
		{"a payload that lost something", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.sendsAs(w.invoked(a), a, "a", `{"id":"a","n":1}`)
		}, "G6: record 1"},
		{"another partition key", func(w *testWorld) {
			a := w.good("a/x", 0)
			_, _ = memorySink{w.World}.Send(in(w.ctx, w.invoked(a)), []dedupe.Output{{ID: "a", PartitionKey: "another", Data: a.data}})
		}, "G6: record 1"},
		{"an unknown hash key", func(w *testWorld) {
			a := w.good("a/x", 0)
			_, _ = memorySink{w.World}.Send(in(w.ctx, w.invoked(a)), []dedupe.Output{{ID: "a", PartitionKey: a.partitionKey, ExplicitHashKey: "7", Data: a.data}})
		}, "G6: record 1"},
		{"another partition key in a real sink", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.parts.Delivered = func() []dedupe.Output { return []dedupe.Output{{PartitionKey: "another", Data: a.data}} }
			w.readSink()
		}, "G6: record 1"},
		{"said to be delivered", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.confirm(in(w.ctx, w.invoked(a)), []dedupe.Output{{Data: a.data}})
		}, "G6: record 1 (a/x, 000000000000/101, 0s) is not in the sink"},
		{"dead-lettered", func(w *testWorld) { w.storedPoison() }, ""},
		{"poison called done", func(w *testWorld) { a := w.sends(User{Kind: Broken}, 0); w.answers(w.invoked(a)) }, "G6: #1 did not dead-letter"},
		{"poison dead-lettered in part", func(w *testWorld) {
			a := w.sends(User{Kind: NoID}, 0)
			w.stores(w.invoked(a), a, func(f *dedupe.DeadLetter) { f.Data = f.Data[1:] })
		}, "G6: record 1"},
		{"poison dead-lettered without its partition key", func(w *testWorld) {
			a := w.sends(User{Kind: NoID}, 0)
			w.stores(w.invoked(a), a, func(f *dedupe.DeadLetter) { f.PartitionKey = "" })
		}, "G10: record 1"},
		{"poison dead-lettered with another arrival", func(w *testWorld) {
			a := w.sends(User{Kind: NoID}, 0)
			w.stores(w.invoked(a), a, func(f *dedupe.DeadLetter) { f.Arrival = f.Arrival.Add(time.Second) })
		}, "G10: record 1"},
		{"poison delivered", func(w *testWorld) {
			a := w.sends(User{Kind: NoID}, 0)
			w.sendsAs(w.invoked(a), a, "", string(a.data))
		}, "G10: the sink got"},
		{"a good one dead-lettered", func(w *testWorld) { a := w.good("a/x", 0); w.stores(w.invoked(a), a, nil) }, "G10: record 1"},
		{"refused, and a copy dropped", func(w *testWorld) {
			a, b, c := w.good("a/x", 0), w.good("b/x", 0), w.good("a/x", 0)
			inv := w.invoked(a, b, c)
			w.refuses(inv, a)
			w.delivers(inv, b)
			w.stores(inv, a, nil)
			w.answers(inv)
		}, ""},
		{"refused, and not dead-lettered", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.refuses(inv, b)
			w.answers(inv, b)
		}, "G10: #1 did not dead-letter record 2"},
		{"refused, and its letter cannot be stored", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.refuses(inv, b)
			w.notStored(in(w.ctx, inv), []dedupe.DeadLetter{{Owner: b.position.Owner().String()}})
			w.answers(inv, b)
			again := w.invoked(b)
			w.delivers(again, b)
			w.answers(again)
		}, ""},
		{"a copy of a refused one sent", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/x", 0)
			w.refuses(w.invoked(a), a)
			w.delivers(w.invoked(b), b)
		}, "G7: record"},
		{"a good one given up", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.giveUp(eventsource.Discard{Shard: testShard, Records: w.invoked(a).Records})
		}, "G10: record 1"},
		{"a killer given up", func(w *testWorld) {
			a := w.sends(User{Kind: Kills}, 0)
			w.giveUp(eventsource.Discard{Shard: testShard, Records: w.invoked(a).Records})
		}, ""},
		{"a notification", func(w *testWorld) { a := w.storedPoison(); w.notifications[a.position.Owner().String()] = 1 }, ""},
		{"two notifications", func(w *testWorld) { a := w.storedPoison(); w.notifications[a.position.Owner().String()] = 2 }, "notifier: it sent 2 notifications of record 1"},
		{"no notification", func(w *testWorld) { w.storedPoison(); w.parts.Notifications[0] = 1 }, "notifier: it sent 0 notifications of record 1"},
		{"a notification that was not sent", func(w *testWorld) {
			a := w.storedPoison()
			w.parts.Notifications[0] = 1
			w.parts.Notified = func(context.Context) (arrived, notSent []deadletter.Notification, err error) {
				return nil, []deadletter.Notification{{Owner: a.position.Owner().String()}}, nil
			}
		}, ""},
		{"a notification of a delivered record", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			w.notifications[a.position.Owner().String()] = 1
		}, "notifier: it sent a notification of record 1"},
		{"a notification of an unknown record", func(w *testWorld) { w.notifications["x"] = 1 }, "notifier: it sent notifications of unknown records"},
		{"a message", func(w *testWorld) {
			a := w.storedPoison()
			w.notified(a, "prefix/"+deadletter.Name(w.scope, a.position.Owner().String(), a.data), "bad")
		}, ""},
		{"a message of another object", func(w *testWorld) { w.notified(w.storedPoison(), "prefix/"+deadletter.Name(w.scope, "x", nil), "bad") }, "notifier: it sent {"},
		{"a message without a reason", func(w *testWorld) {
			a := w.storedPoison()
			w.notified(a, "prefix/"+deadletter.Name(w.scope, a.position.Owner().String(), a.data), "")
		}, "notifier: it sent {"},
		{"an error in place of an answer", func(w *testWorld) {
			w.checkAnswer(w.invoked(), events.KinesisEventResponse{}, errThrown)
		}, "handler: "},
		{"two named", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			w.answers(w.invoked(a, b), a, b)
		}, "answer: #1 names 2"},
		{"another's record named", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			w.answers(w.invoked(a), b)
		}, `answer: #1 names "102"`},
		{"a delivered one named", func(w *testWorld) {
			a := w.good("a/x", 0)
			inv := w.invoked(a)
			w.delivers(inv, a)
			w.answers(inv, a)
		}, "answer: #1 names 101"},
		{"one before a delivered one named", func(w *testWorld) {
			a, b, c := w.good("a/x", 0), w.good("a/x", 0), w.good("b/x", 0)
			inv := w.invoked(a, b, c)
			w.delivers(inv, a)
			w.delivers(inv, c)
			w.answers(inv, b)
		}, "order: #1 delivered record 3"},
		{"one before one named that the same Send delivered", func(w *testWorld) {
			a, b, c := w.good("a/x", 0), w.good("a/x", 0), w.good("b/x", 0)
			inv := w.invoked(a, b, c)
			w.delivers(inv, a)
			w.delivers(inv, c)
			inv.sendFailed = true
			w.answers(inv, b)
		}, ""},
		{"one after a failed one named", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			w.answers(w.invoked(a, b), b)
		}, "G6: #1 did not deliver record 1"},
		{"delivered before the one before it", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			w.delivers(w.invoked(b), b)
			w.delivers(w.invoked(a), a)
		}, "order: record 2"},
		{"delivered before the poison before it was dead-lettered", func(w *testWorld) {
			a, b := w.sends(User{Kind: NoID}, 0), w.good("b/x", 0)
			w.delivers(w.invoked(b), b)
			w.stores(w.invoked(a), a, nil)
		}, "order: record 2"},
		{"the first of two copies dropped", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/x", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, b)
			w.answers(inv)
		}, "order: record 1"},
		{"an ack of what is not done", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			w.delivers(w.invoked(a), a)
			w.acks(a, b)
		}, "ack: record 2"},
		{"an ack of a duplicate", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			w.acks(a, b)
		}, ""},
		{"an ack that begins behind its record", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.delivers(inv, b)
			mark := a.mark()
			w.noteAck(dedupe.AckKey{}, dedupe.Ack{First: b.position.Sequence, Last: b.position.Sequence, Owners: mark[:]})
		}, "ack: record 1 (a/x, 000000000000/101, 0s) is not between"},
		{"an ack of no record", func(w *testWorld) {
			w.noteAck(dedupe.AckKey{Shard: testShard}, dedupe.Ack{Owners: make([]byte, dedupe.OwnerMarkSize)})
		}, "ack: it names a record that is not in"},
		{"an ack that is not found", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			w.acks(a)
			w.noteRead(w.invoked(a), w.tick(), nil)
		}, "ack: #2 did not find that of record 1"},
		{"an ack that is written while the acks are read", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			before := w.tick()
			w.acks(a)
			w.noteRead(w.invoked(a), before, nil)
		}, ""},
		{"sent again in spite of its ack", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			inv := w.invoked(a)
			w.noteRead(inv, w.tick(), []dedupe.Ack{w.acks(a)})
			w.delivers(inv, a)
		}, "G11: #2 sent record 1"},
		{"skipped by the acks that were read", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.delivers(w.invoked(a), a)
			inv := w.invoked(a)
			w.noteRead(inv, w.tick(), []dedupe.Ack{w.acks(a)})
			inv.tally = &dedupe.Tally{In: 1, Skipped: 1}
			w.answers(inv)
		}, ""},
		{"twice in the sink without a fault", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.faultless = true
			w.delivers(w.invoked(a), a)
			w.delivers(w.invoked(a), a)
		}, "G11: record 1 (a/x, 000000000000/101, 0s) came to the sink 2 times"},
		{"no progress", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			w.checkAnswer(w.invoked(a, b), events.KinesisEventResponse{}, recordhandler.ErrNoProgress)
			w.delivers(w.invoked(a), a)
			w.delivers(w.invoked(b), b)
		}, ""},
		{"no progress with one record", func(w *testWorld) {
			a := w.good("a/x", 0)
			w.checkAnswer(w.invoked(a), events.KinesisEventResponse{}, recordhandler.ErrNoProgress)
		}, "handler: "},
		{"no progress, and the first is done", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			inv := w.invoked(a, b)
			w.delivers(inv, a)
			w.checkAnswer(inv, events.KinesisEventResponse{}, recordhandler.ErrNoProgress)
		}, "answer: #1 fails"},
		{"the first of several named", func(w *testWorld) {
			a, b := w.good("a/x", 0), w.good("b/x", 0)
			w.answers(w.invoked(a, b), a)
		}, "answer: #1 names its first record"},
		{"a tally that does not add up", func(w *testWorld) {
			inv := w.invoked()
			inv.tally = &dedupe.Tally{In: 1}
			w.answers(inv)
		}, "tally: #1 does not add up"},
		{"a repeat that is not counted", func(w *testWorld) {
			a := w.good("a/x", 0)
			inv := w.invoked(a)
			w.delivers(inv, a)
			inv.tally = &dedupe.Tally{In: 1, Natural: 1}
			w.answers(inv)
		}, "tally: #1 counts"},
		{"in an object", func(w *testWorld) { w.commits(w.good("a/x", 0), "one") }, ""},
		{"in two objects", func(w *testWorld) { w.commits(w.good("a/x", 0), "one", "two") }, "G11: record 1"},
		{"in no object", func(w *testWorld) { w.commits(w.good("a/x", 0), "_head") }, "G6: record 1"},
		{"a repeat that is counted as new", func(w *testWorld) {
			a := w.good("a/x", 0)
			for range 2 {
				inv := w.invoked(a)
				w.delivers(inv, a)
				inv.tally = &dedupe.Tally{In: 1, New: 1, Out: 1}
				w.answers(inv)
			}
		}, "G11: 2 records"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestWorld(t)
			test.tell(w)
			if err := w.atRest(); err != nil {
				t.Fatal(err)
			}
			got := ""
			if w.violation != nil {
				got = w.violation.Error()
			}
			if !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("want the violation %q, got %q", test.want, got)
			}
		})
	}
}
