package dedupefault

import (
	"context"

	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// Mutant is one broken rule for records, with the tests that must find it. The product's code runs unchanged in every
// mutant. The mutant breaks the rule in a part that the code uses, or around the code.
type Mutant struct {
	Name     string
	CaughtBy []Catch
	// Rare says that the random histories of all levels of sinks may miss the mutant.
	Rare bool

	hook     func(Env) Hook
	format   func(dedupe.Format) dedupe.Format
	framing  func(dedupe.Framing) dedupe.Framing
	scenario func(*Scenario)
	objects  func(*World) deadletter.Objects
	around   func(w *World, f function, product handleFunc) handleFunc
	storage  memobjects.Hook                                               // breaks the storage of an object sink
	sink     func(dedupe.ObjectSink, objectsink.Storage) dedupe.ObjectSink // breaks an object sink
	letters  func(*World, dedupe.DeadLetter) dedupe.DeadLetter             // changes the dead letters that come again
	log      bool                                                          // breaks a log ledger, so that its engine is MemoryLog
}

// engine is the engine on which the tests find the mutant.
func (m *Mutant) engine() Engine {
	if m.log {
		return MemoryLog
	}
	return Memory
}

// Catch is a test that must find a mutant. It is a case of package enginetest, a case of the tests of package dedupe,
// a case of the level "objects" of package sinktest, a scenario of this package, played with its faults, or the
// histories of "queues" or "objects". For the last two, Violates is the beginning of the violation. If it is
// empty, any violation will do.
type Catch struct{ Engine, Processor, Sink, Scenario, Histories, Violates string }

// Env holds the parts that a mutant can use.
type Env struct {
	Engine    dedupe.Store // the engine itself
	Store     dedupe.Store // the store that the mutant wraps
	Retention dedupe.Retention
	World     *World // nil outside of scenarios
}

// Mutants lists all mutants for records. TestMutants here and in package dedupe finds each of them, in this process.
var Mutants = []Mutant{
	// Engines.
	{
		Name: "no-time-in-the-condition", hook: noTimeInCondition, Rare: true,
		CaughtBy: []Catch{{Engine: "store/purged-entries-are-absent"}},
	},
	{
		Name: "owner-in-the-condition", hook: ownerInCondition,
		CaughtBy: []Catch{{Engine: "store/owner-is-not-a-condition"}, {Scenario: "timed-out", Violates: "G11"}},
	},
	{
		Name: "acks-without-scope", hook: acksWithoutScope, Rare: true,
		CaughtBy: []Catch{{Engine: "store/acks-are-separate"}},
	},
	{
		Name: "acks-without-sink", hook: acksWithoutSink, Rare: true,
		CaughtBy: []Catch{{Engine: "store/acks-are-separate"}},
	},
	{
		Name: "acks-found-by-text", hook: acksAsText, Rare: true,
		CaughtBy: []Catch{{Engine: "store/acks"}},
	},
	{
		Name: "one-ack-an-end", hook: oneAckForEachEnd, Rare: true,
		CaughtBy: []Catch{{Engine: "store/acks-of-one-end"}},
	},

	// Open.
	{
		Name: "room-for-each-frame", framing: roomForEachFrame, Rare: true,
		CaughtBy: []Catch{{Processor: "framing/too-much-in-an-aggregate"}},
	},
	{
		Name: "too-much-is-one-frame", framing: tooMuchIsOneFrame, Rare: true,
		CaughtBy: []Catch{{Processor: "framing/too-much-in-an-aggregate"}},
	},

	// Decide.
	{
		Name: "entries-without-owner", hook: entriesWithoutOwner,
		CaughtBy: []Catch{{Processor: "records/redelivered-batch"}, {Scenario: "timed-out", Violates: "G8"}},
	},
	{
		Name: "owner-made-from-the-batch", hook: ownerFromBatch,
		CaughtBy: []Catch{{Processor: "records/bisected-batch"}, {Scenario: "bisected", Violates: "G8"}},
	},
	{
		Name: "owner-compared-after-the-fingerprint", hook: fingerprintFirst,
		CaughtBy: []Catch{{Processor: "records/crash-before-the-sink"}, {Scenario: "timed-out", Violates: "G8"}},
	},
	{
		Name: "failed-put-taken-for-a-duplicate", hook: failedPutIsDuplicate, scenario: noAcks,
		CaughtBy: []Catch{{Processor: "records/ledger-failures-are-not-duplicates"}, {Scenario: "copies", Violates: "G6"}},
	},
	{
		Name: "synthetic-decided-in-the-batch", format: syntheticInBatch, Rare: true,
		CaughtBy: []Catch{{Processor: "records/synthetic-by-the-ledger"}},
	},
	{
		Name: "purge-at-the-end-of-the-window", hook: purgeAtWindowEnd,
		CaughtBy: []Catch{{Processor: "records/late-copy-inside-the-window"}, {Scenario: "late-copy", Violates: "G7"}},
	},
	{
		Name: "no-raised-purge-time", hook: noRaise,
		CaughtBy: []Catch{{Processor: "records/id-outlives-its-derived-ids"}, {Scenario: "name-outlives", Violates: "G7"}},
	},
	{
		Name: "failed-raise-taken-as-raised", hook: failedRaiseIsRaised, Rare: true,
		CaughtBy: []Catch{
			{Processor: "records/ledger-failures-are-not-duplicates"}, {Scenario: "name-outlives", Violates: "G7"},
		},
	},
	{
		Name: "raised-for-every-owner", hook: raisedForEveryOwner, Rare: true,
		CaughtBy: []Catch{{Processor: "records/id-taken-by-another-meanwhile"}, {Scenario: "name-taken", Violates: "G7"}},
	},
	{
		Name: "another-id-on-each-attempt", format: newIDEachTime,
		CaughtBy: []Catch{{Processor: "records/outcomes"}, {Scenario: "timed-out", Violates: "G9"}},
	},
	{
		Name: "chunk-before-the-ledger-step-of-the-one-before", around: ledgerAhead,
		CaughtBy: []Catch{{Scenario: "copies", Violates: "order"}},
	},

	// Deliver.
	{
		Name: "work-continued-after-the-first-failure", hook: sendAfterFailure,
		CaughtBy: []Catch{{Processor: "records/crash-after-the-sink"}, {Scenario: "timed-out", Violates: "order"}},
	},
	{
		Name: "partial-failure-taken-as-delivered", hook: partTakenAsDelivered, scenario: noAcks,
		CaughtBy: []Catch{{Processor: "records/sink-fails-in-the-middle"}, {Scenario: "timed-out", Violates: "G6"}},
	},
	{
		Name: "failed-dead-letter-taken-as-stored", hook: deadLetterTakenAsStored, scenario: noAcks,
		CaughtBy: []Catch{{Processor: "records/poison-that-cannot-be-stored"}, {Scenario: "poison", Violates: "G6"}},
	},
	{
		Name: "dead-letter-stored-anew-each-time", objects: overwritten,
		CaughtBy: []Catch{{Scenario: "poison", Violates: "notifier"}},
	},
	{
		Name: "never-taken-as-not-now", hook: neverIsNotNow,
		CaughtBy: []Catch{
			{Processor: "refused/alone"}, {Scenario: "refused", Violates: "G10"}, {Histories: "queues", Violates: "G10"},
		},
	},
	{
		Name: "not-now-taken-as-never", hook: notNowIsNever,
		CaughtBy: []Catch{
			{Processor: "refused/and-not-now"}, {Scenario: "copies", Violates: "G10"}, {Histories: "queues", Violates: "G10"},
		},
	},
	{
		Name: "id-of-a-refused-record-freed", hook: freesRefused, Rare: true,
		CaughtBy: []Catch{{Processor: "refused/alone"}, {Scenario: "refused", Violates: "G7"}},
	},
	{
		Name: "poison-that-blocks", hook: deadLetterNeverStored, Rare: true,
		CaughtBy: []Catch{{Processor: "records/poison"}, {Scenario: "poison", Violates: "G10"}},
	},
	{
		Name: "half-of-an-aggregate-taken-as-done", hook: halfAggregate,
		scenario: func(s *Scenario) { s.NoAcks, s.Chunk = true, 500 },
		CaughtBy: []Catch{{Scenario: "aggregates", Violates: "G6"}},
	},

	// Transactional sinks.
	{
		Name: "entry-of-mine-taken-as-done", hook: ownEntryIsDone, Rare: true,
		CaughtBy: []Catch{{Processor: "tx/finishes-entries-of-a-stream-sink"}, {Scenario: "switched", Violates: "ack"}},
	},
	{
		Name: "owner-in-the-condition-of-an-effect", hook: ownerInTxCondition, scenario: transactional,
		CaughtBy: []Catch{{Scenario: "timed-out", Violates: "G11"}},
	},
	{
		Name: "entry-before-the-effect", hook: entryFirst, scenario: transactional,
		CaughtBy: []Catch{{Scenario: "copies", Violates: "G8"}},
	},
	{
		Name: "effect-before-the-entry", hook: effectFirst, scenario: transactional,
		CaughtBy: []Catch{{Scenario: "copies", Violates: "G7"}},
	},
	{
		Name: "effects-of-a-partition-key-in-any-order", around: uniqueKeys, hook: keysRestored, scenario: transactional,
		CaughtBy: []Catch{{Scenario: "bisected", Violates: "order"}},
	},

	// Object sinks and redrive.
	{
		Name: "objects-without-a-fence", storage: noFence, scenario: intoObjects,
		CaughtBy: []Catch{{Sink: "another-writer"}, {Scenario: "late", Violates: "G11"}, {Histories: "objects"}},
	},
	{
		Name: "skips-from-the-name", storage: skipsFromTheName, Rare: true,
		CaughtBy: []Catch{{Sink: "given-up-in-between"}, {Histories: "objects"}},
	},
	{
		Name: "no-late-links", storage: noLateLinks, Rare: true,
		CaughtBy: []Catch{{Sink: "many-late"}, {Histories: "objects"}},
	},
	{
		Name: "hint-before-the-object", storage: hintBeforeTheObject, Rare: true,
		CaughtBy: []Catch{{Histories: "objects"}},
	},
	{
		Name: "objects-named-by-first-record", sink: namedByFirstRecord, Rare: true,
		CaughtBy: []Catch{{Histories: "objects"}},
	},
	{
		Name: "aggregates-in-parts", sink: aggregatesInParts, Rare: true,
		CaughtBy: []Catch{{Histories: "objects"}},
	},
	{
		Name: "letters-judged-by-ranges", sink: lettersJudgedByRanges, Rare: true,
		CaughtBy: []Catch{{Histories: "objects"}},
	},
	{
		Name: "only-the-head-counts", sink: onlyTheHeadCounts, Rare: true,
		CaughtBy: []Catch{{Sink: "once"}, {Histories: "objects"}},
	},
	{
		Name: "forgets-what-it-met", sink: forgetsFoundObjects, Rare: true,
		CaughtBy: []Catch{{Sink: "another-writer-of-later-records"}, {Histories: "objects"}},
	},
	{
		Name: "redriven-under-another-owner", letters: anotherOwner,
		CaughtBy: []Catch{{Scenario: "redriven", Violates: "ack"}},
	},

	// Acknowledge.
	{
		Name: "ack-before-the-sink", hook: ackBeforeSink,
		CaughtBy: []Catch{{Scenario: "copies", Violates: "ack"}},
	},
	{
		Name: "ack-of-what-failed", hook: ackOfFailed,
		CaughtBy: []Catch{{Scenario: "copies", Violates: "ack"}},
	},
	{
		Name: "ack-of-a-range", hook: ackedRange,
		CaughtBy: []Catch{{Scenario: "bisected", Violates: "G8"}},
	},
	{
		Name: "ack-of-a-part-for-the-whole", hook: wholeForPart,
		CaughtBy: []Catch{{Scenario: "aggregates", Violates: "G6"}},
	},
	{
		Name: "acks-not-read", hook: acksNotRead, Rare: true,
		CaughtBy: []Catch{{Scenario: "timed-out", Violates: "G11"}},
	},

	// Answer.
	{
		Name: "all-failures-named", around: answerWith(func(all []string, failed int) []string { return all[failed:] }),
		CaughtBy: []Catch{{Scenario: "copies", Violates: "answer"}},
	},
	{
		Name: "first-of-the-batch-named", around: answerWith(func(all []string, _ int) []string { return all[:1] }),
		CaughtBy: []Catch{{Scenario: "copies", Violates: "answer"}},
	},
	{
		Name: "record-after-the-failed-one-named", scenario: noAcks,
		around:   answerWith(func(all []string, failed int) []string { return all[failed+1 : min(failed+2, len(all))] }),
		CaughtBy: []Catch{{Scenario: "copies", Violates: "G6"}},
	},

	// A message of a queue that is in a batch twice.
	{
		Name: "repeat-fails-its-batch", around: onQueue(repeatFails), Rare: true,
		CaughtBy: []Catch{{Histories: "queues", Violates: "G10"}},
	},
	{
		Name: "repeat-done-whatever-became-of-the-first", around: onQueue(repeatIsDone), Rare: true,
		CaughtBy: []Catch{{Histories: "queues", Violates: "G6"}},
	},
	{
		Name: "repeat-of-a-done-message-named", around: onQueue(repeatOfDoneNamed), Rare: true,
		CaughtBy: []Catch{{Histories: "queues", Violates: "answer"}},
	},

	// Messages of a queue are in progress, and then done. TestQueueMutants has more of these.
	{
		Name: "message-taken-over-whatever-has-changed", hook: takenOverInAnyCase, Rare: true,
		CaughtBy: []Catch{{Engine: "store/holds-are-taken-over"}, {Histories: "queues", Violates: "G11"}},
	},
	{
		Name: "message-finished-by-every-run", hook: finishedByAll, Rare: true,
		CaughtBy: []Catch{
			{Engine: "store/holds-are-finished"}, {Processor: "queue/taken-over-meanwhile"},
		},
	},
	{
		Name: "message-finished-for-every-record-of-its-run", hook: finishedForAll, Rare: true,
		CaughtBy: []Catch{
			{Engine: "store/holds-are-finished"}, {Processor: "queue/key-that-is-free-again"},
		},
	},
	{
		Name: "message-without-a-lease", hook: noLease, Rare: true,
		CaughtBy: []Catch{{Processor: "queue/in-progress"}, {Histories: "queues", Violates: "G11"}},
	},
	{
		Name: "message-marked-before-the-sink", hook: markedBeforeTheSink, Rare: true,
		CaughtBy: []Catch{{Histories: "queues", Violates: "G"}},
	},
	{
		Name: "unconfirmed-mark-taken-as-stored", hook: markTakenAsStored, Rare: true,
		CaughtBy: []Catch{{Processor: "queue/mark-that-fails"}, {Histories: "queues", Violates: "G7"}},
	},
	{
		Name: "message-not-marked", hook: notMarked, Rare: true,
		CaughtBy: []Catch{{Processor: "queue/done-once"}, {Histories: "queues", Violates: "G7"}},
	},
	{
		Name: "purge-time-of-the-new-holder", hook: purgeTimeLowered, Rare: true,
		CaughtBy: []Catch{{Processor: "queue/purge-time-of-a-take-over"}},
	},
}

// HookIn returns the hook that breaks calls of a store, a sink or a dead-letter store. For a nil mutant the hook
// breaks nothing.
func (m *Mutant) HookIn(e Env) Hook {
	if m == nil || m.hook == nil {
		return func(ctx context.Context, c *Call) error { return c.Do(ctx) }
	}
	return m.hook(e)
}

// FormatOf returns the format of one Processor. It is broken if the mutant breaks formats.
func (m *Mutant) FormatOf(f dedupe.Format) dedupe.Format {
	if m == nil || m.format == nil {
		return f
	}
	return m.format(f)
}

// FramingOf returns the framing of one Processor. It is broken if the mutant breaks framings.
func (m *Mutant) FramingOf(f dedupe.Framing) dedupe.Framing {
	if m == nil || m.framing == nil {
		return f
	}
	return m.framing(f)
}

// objectSink returns the object sink of one instance. It is broken if the mutant breaks object sinks.
func (m *Mutant) objectSink(s dedupe.ObjectSink, storage objectsink.Storage) dedupe.ObjectSink {
	if m == nil || m.sink == nil {
		return s
	}
	return m.sink(s, storage)
}

// breakFunction returns the dedupe function of a scenario, broken if the mutant breaks it.
func (m *Mutant) breakFunction(w *World, f function) handleFunc {
	hook := m.HookIn(Env{Engine: w.engine, Store: f.store, Retention: retention, World: w})
	f.store, f.sink, f.format = HookStore(f.store, hook), HookSink(f.sink, hook), m.FormatOf(f.format)
	if f.tx != nil {
		f.tx = HookTx(f.tx, hook)
	}
	if m != nil && m.objects != nil {
		f.deadLetters = HookDeadLetters(w.deadLettersIn(m.objects(w)), w.faultHook)
	}
	f.deadLetters = HookDeadLetters(f.deadLetters, hook)
	var product handleFunc = f.handler(w).Handle
	if m != nil && m.around != nil {
		return m.around(w, f, product)
	}
	return product
}

// in changes a scenario as the mutant needs it.
func (m *Mutant) in(s Scenario) Scenario {
	if m.scenario != nil {
		m.scenario(&s)
	}
	return s
}
