package dedupefault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// These are the times of all scenarios. No record is processed later than the horizon after its arrival: the mapping
// gives up records that are older than recordAge, and a late invocation ends at most mostLate after its time-out.
const (
	timeout   = time.Minute
	recordAge = 10 * time.Minute
	mostLate  = 4 * time.Minute
	horizon   = recordAge + timeout + mostLate + time.Minute
	window    = 3 * time.Minute
)

// Kind says whether a user record is good, or what is wrong with it.
type Kind string

// These are the kinds. All but Good, Kills and Refused are poison.
const (
	Good   Kind = ""
	Broken Kind = "broken"
	NoID   Kind = "no id"
	Large  Kind = "too large"
	Panics Kind = "panics"
	Kills  Kind = "kills the process"

	// Correctable is a record that the function cannot read, but that a redrive of dead letters can read.
	Correctable Kind = "correctable"

	// Refused is a readable record that a sink always refuses, unless it is an object sink.
	Refused Kind = "refused"
)

func (k Kind) poison() bool { return !k.readable() && k != Kills }

// identified reports whether a record has an id and a fingerprint, for the function or at least for a redrive.
func (k Kind) identified() bool { return k.readable() || k == Correctable }

// readable reports whether the function finds an id and a fingerprint in the record.
func (k Kind) readable() bool { return k == Good || k == Refused }

// User is a record of a producer.
type User struct {
	ID, FP string
	Kind   Kind
}

func (u User) String() string {
	if u.ID == "" {
		return string(u.Kind)
	}
	return u.ID + "/" + u.FP
}

// These are the steps.
const (
	Put     = "put"     // Users as one Kinesis record; several make a KPL aggregate
	Wait    = "wait"    // waits for For
	Split   = "split"   // splits the open shard with index Key
	Merge   = "merge"   // merges the open shards with indexes Key and Key + 1
	Restart = "restart" // restarts the mapping at its checkpoint
	Replay  = "replay"  // starts another mapping at the beginning of the stream
	Second  = "second"  // starts another mapping at the checkpoint of the first
	Switch  = "switch"  // gives the function a transactional sink
	Redrive = "redrive" // redrives the dead letters
	Again   = "again"   // redrives all dead letters, also those that are marked as done
	Sweep   = "sweep"   // purges entries whose purge time has passed, as TTL deletion does
)

// Step is one event outside the function.
type Step struct {
	Do    string
	Key   int // the partition key of a Put; the index of a shard
	Users []User
	For   time.Duration
}

func (s Step) String() string {
	text := s.Do
	if s.Do == Put || s.Do == Split || s.Do == Merge {
		text += fmt.Sprintf(" %d", s.Key)
	}
	for _, u := range s.Users {
		text += " " + u.String()
	}
	if s.For > 0 {
		text += " " + s.For.String()
	}
	return text
}

// put returns a step that puts good records as one Kinesis record. Each text is "id/fingerprint".
func put(key int, users ...string) Step {
	s := Step{Do: Put, Key: key}
	for _, text := range users {
		id, fp, _ := strings.Cut(text, "/")
		s.Users = append(s.Users, User{ID: id, FP: fp})
	}
	return s
}

// refused returns a step that puts a record "id/fingerprint" that the sink refuses.
func refused(user string) Step {
	s := put(0, user)
	s.Users[0].Kind = Refused
	return s
}

func bad(kind Kind) Step { return Step{Do: Put, Users: []User{{Kind: kind}}} }

// correctable returns a step that puts a record "id/fingerprint" that only a redrive can read.
func correctable(user string) Step {
	s := put(0, user)
	s.Users[0].Kind = Correctable
	return s
}

func wait(d time.Duration) Step { return Step{Do: Wait, For: d} }

// Level is what a sink promises.
type Level string

// These are the levels.
const (
	AtLeastOnce   Level = ""
	Transactional Level = "-transactional"
	Objects       Level = "-objects"
)

// Scenario describes a mapping, its function and the steps.
type Scenario struct {
	Name      string
	Sink      Level
	Shards    int // 0 means 1
	BatchSize int // 0 means 10
	Chunk     int // the chunk size of the function; 0 means 2
	Parallel  int // batches of a shard at a time; 0 means 1
	Instances int // the number of instances of the function; 0 means 1
	GiveUp    int // the retries after which the mapping gives up; 0 means that it gives up only by age, -1 no retries
	NoBisect  bool
	NoAcks    bool
	Loses     bool // the mapping may give up good records
	Repeats   bool // records may reach the sink twice even without faults, because of a crash between sink and ack
	Reading   eventsource.Reading
	Seed      uint64
	Objects   ObjectOptions
	Steps     []Step
	Fates     map[int]eventsource.Fate // the fates of invocations, by number, from 1
}

// ObjectOptions are the options of an object sink and of its storage.
type ObjectOptions struct {
	Size      int64 // of an object; 0 means the sink's default
	HintEvery int   // 0 means 3
	ListPage  int   // the number of keys in a page of a listing; 0 means the default
}

// lastingCalls is the number of further calls of a method that a lasting fault hits.
const lastingCalls = 6

// Scenarios are the scenarios in which TestFaults fails every call in every way.
var Scenarios = []Scenario{
	{
		Name: "copies", BatchSize: 4,
		Steps: []Step{
			put(0, "a/x"), put(0, "b/x"), put(0, "a/x"), put(0, "a/y"), put(0, "a/y"), put(0, "c/x"), put(0, "b/y"),
			wait(5 * time.Second),
			put(0, "a/x"), put(0, "a/z"), put(0, "d/x"),
		},
	},
	{
		Name: "poison",
		Steps: []Step{
			put(0, "a/x"), bad(Broken), put(0, "b/x"), bad(NoID), bad(Large), put(0, "a/x"), bad(Panics),
			put(0, "c/x"),
		},
	},
	{
		Name: "poison-together", BatchSize: 8, Chunk: 500,
		Steps: []Step{
			put(0, "a/x"), bad(Broken), put(0, "b/x"), bad(NoID),
			{Do: Put, Users: []User{{ID: "c", FP: "x"}, {Kind: Broken}, {ID: "d", FP: "x"}, {Kind: NoID}}},
			bad(Large), put(0, "a/x"), put(0, "e/x"),
		},
	},
	{
		Name: "aggregates", BatchSize: 3,
		Steps: []Step{
			put(0, "a/x"), put(0, "b/x", "a/x", "b/y", "c/x"), put(0, "d/x"),
			{Do: Put, Users: []User{{ID: "e", FP: "x"}, {Kind: Broken}, {ID: "a", FP: "y"}}}, put(0, "e/x"),
			put(0, "f/x"),
		},
	},
	{
		Name: "bisected", BatchSize: 6, Chunk: 500,
		Steps: []Step{put(0, "a/x"), put(0, "b/x"), put(0, "a/x"), put(0, "a/y"), put(0, "c/x"), put(0, "d/x")},
		Fates: map[int]eventsource.Fate{1: {Err: errThrown}, 3: {Skip: true, Err: errThrown}, 4: {Throttle: true}},
	},
	{
		Name: "killer", BatchSize: 8, GiveUp: 2 + lastingCalls,
		Steps: []Step{put(0, "a/x"), put(0, "b/x"), bad(Kills), put(0, "a/x"), put(0, "c/x"), put(0, "a/y")},
	},
	{
		Name: "timed-out", BatchSize: 5,
		Steps: []Step{put(0, "a/x"), put(0, "b/x"), put(0, "a/x"), put(0, "a/y"), put(0, "c/x")},
		Fates: map[int]eventsource.Fate{1: {Takes: time.Hour}, 2: {Delay: time.Hour}},
	},
	{
		Name: "late", BatchSize: 4, Chunk: 1,
		Steps: []Step{put(0, "a/x"), put(0, "b/x"), put(0, "a/y"), put(0, "a/x"), put(0, "c/x")},
		Fates: map[int]eventsource.Fate{1: {Delay: timeout + 1500*time.Millisecond, Zombie: true}},
	},
	{
		Name: "resharded", Shards: 2, BatchSize: 2,
		Steps: []Step{
			put(0, "a/x"), put(1, "b/x"), put(2, "a/x"), put(3, "a/y"), {Do: Split}, put(0, "a/y"), put(1, "c/x"),
			put(2, "d/x"), put(3, "b/x"),
			wait(5 * time.Second), {Do: Merge, Key: 1}, put(0, "c/x"), put(1, "a/z"), put(2, "e/x"), put(3, "d/y"),
		},
	},
	{
		Name: "restarted", BatchSize: 3,
		Steps: []Step{
			put(0, "a/x"), put(0, "b/x"), put(0, "a/x"), {Do: Put, Users: []User{{Kind: NoID}}},
			wait(500 * time.Millisecond), {Do: Restart},
			put(0, "c/x"), put(0, "a/y"), wait(2 * time.Second), {Do: Restart}, put(0, "d/x"),
		},
		Fates: map[int]eventsource.Fate{1: {Takes: 2 * time.Second, Zombie: true}},
	},
	{
		Name: "two-pollers", Shards: 2, BatchSize: 3,
		Steps: []Step{
			put(0, "a/x"), put(1, "b/x"), {Do: Second}, put(2, "a/x"), put(3, "a/y"), put(0, "c/x"), bad(Broken),
			put(1, "a/y"), put(2, "b/y"),
		},
	},
	{
		Name: "lanes", BatchSize: 2, Parallel: 3,
		Steps: []Step{
			put(0, "a/x"), put(1, "b/x"), put(2, "a/x"), put(3, "a/y"), put(0, "c/x"), put(1, "a/y"), put(2, "d/x"),
			put(3, "e/x"),
		},
	},
	{
		// A batch ends the process after its first chunk, and the mapping bisects it. A part of an aggregate is
		// delivered again.
		Name: "dies-after-a-chunk", BatchSize: 8, Chunk: 3,
		Steps: []Step{
			put(0, "a/x"), put(0, "b/x"), put(0, "c/x"), put(0, "d/x", "a/x", "e/x", "e/y"), bad(Kills), put(0, "f/x", "g/x"),
			put(0, "b/x"), put(0, "h/x"),
		},
		GiveUp: 2 + lastingCalls,
	},
	{
		// After a reshard, a second mapping begins where the first began, and reads all records again. Nothing is
		// sent again.
		Name: "replayed", Shards: 2, BatchSize: 3,
		Steps: []Step{
			put(0, "a/x"), put(1, "b/x"), put(2, "a/x", "c/x"), put(3, "a/y"), {Do: Split}, put(0, "d/x"), put(1, "e/x"),
			wait(5 * time.Second), {Do: Merge, Key: 1}, put(2, "f/x"), bad(Broken), wait(20 * time.Second), {Do: Replay},
			put(0, "g/x"), wait(20 * time.Second),
		},
	},
	{
		// An invocation answers late. It processes its records after the next invocation has processed them and later
		// ones.
		Name: "out-of-order", BatchSize: 2, Parallel: 2, NoBisect: true,
		Steps: []Step{
			put(0, "a/x"), put(0, "b/x"), put(1, "c/x"), put(1, "a/y"), put(0, "d/x"), put(1, "e/x"),
			wait(3 * time.Minute), {Do: Replay}, wait(20 * time.Second),
		},
		Fates: map[int]eventsource.Fate{1: {Delay: timeout + 10*time.Second, Zombie: true}, 3: {Takes: time.Hour}},
	},
	{
		Name: "given-up", BatchSize: 3, GiveUp: 1, Loses: true,
		Steps: []Step{put(0, "a/x"), put(0, "b/x"), put(0, "a/y"), put(0, "a/x"), put(0, "c/x"), put(0, "a/y")},
		Fates: map[int]eventsource.Fate{1: {Err: errThrown}, 2: {Takes: time.Hour}},
	},
	{
		// A copy that arrives at the end of the window is processed late. If entries lived only for the window, the
		// entry of the first record would be gone by then.
		Name: "late-copy", BatchSize: 2, Loses: true,
		Steps: []Step{
			put(0, "a/x"), wait(window - time.Second), put(0, "a/x"), put(0, "a/y"), wait(5 * time.Minute),
			{Do: Sweep}, wait(2 * time.Minute),
		},
		Fates: map[int]eventsource.Fate{
			2: {Takes: time.Hour}, 3: {Takes: time.Hour}, 4: {Takes: time.Hour}, 5: {Takes: time.Hour},
		},
	},
	{
		// The entry of an id ends while the entry of a derived id still counts.
		Name: "name-outlives", BatchSize: 2,
		Steps: []Step{
			put(0, "a/x"), wait(window + horizon - 30*time.Second), put(0, "a/y"), wait(40 * time.Second), {Do: Sweep},
			put(0, "a/y"), put(0, "b/x"), wait(5 * time.Second), put(0, "a/x"),
		},
	},
	{
		// The entry of an id ends and a copy takes the id, while another record is about to derive an id from it.
		Name: "name-taken", Shards: 2, BatchSize: 2,
		Steps: []Step{
			put(0, "a/x"), wait(window + horizon - 10*time.Second), put(0, "a/y"), wait(15 * time.Second), {Do: Sweep},
			put(1, "a/y"), wait(5 * time.Second), put(1, "a/x"),
		},
	},
	{
		// Dead letters are redriven. A copy of one letter was delivered before.
		Name: "redriven", BatchSize: 3,
		Steps: []Step{
			put(0, "a/x"), correctable("b/x"), put(0, "a/x"), correctable("c/x"), bad(Broken), correctable("a/y"), wait(5 * time.Second),
			put(0, "c/x"), wait(5 * time.Second), {Do: Redrive}, put(0, "b/x"), put(0, "a/y"), wait(5 * time.Second), {Do: Redrive},
		},
	},
	{
		// The sink refuses records, also in an aggregate. Copies of them come, and they are redriven.
		Name: "refused", BatchSize: 4, Chunk: 3,
		Steps: []Step{
			put(0, "a/x"), refused("b/x"), put(0, "c/x"), refused("b/x"), refused("a/y"),
			{Do: Put, Users: []User{{ID: "d", FP: "x"}, {ID: "e", FP: "x", Kind: Refused}, {ID: "f", FP: "x"}}}, put(0, "e/x"),
			wait(5 * time.Second), put(0, "b/x"), put(0, "b/y"), wait(5 * time.Second), {Do: Redrive}, put(0, "g/x"),
			wait(5 * time.Second),
		},
	},
	{
		// The function gets a transactional sink when the ledger has entries without an effect.
		Name: "switched", BatchSize: 3,
		Steps: []Step{
			put(0, "a/x"), put(0, "b/x"), put(0, "a/y"), put(0, "a/x"), put(0, "c/x"), wait(4 * time.Second), {Do: Switch},
			put(0, "a/x"), put(0, "d/x"), put(0, "b/y"),
		},
		Fates: map[int]eventsource.Fate{1: {Err: errThrown}, 2: {Takes: time.Hour}},
	},
}

func (s Scenario) orDefaults() Scenario {
	set(&s.Shards, 1)
	set(&s.BatchSize, 10)
	set(&s.Chunk, 2)
	set(&s.Parallel, 1)
	set(&s.Instances, 1)
	set(&s.Objects.HintEvery, 3)
	return s
}

// redrives reports whether the scenario redrives dead letters.
func (s Scenario) redrives() bool {
	return slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Do == Redrive || step.Do == Again })
}

// needsTx reports whether the scenario needs a transactional sink at any time.
func (s Scenario) needsTx() bool {
	return s.Sink == Transactional || slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Do == Switch })
}

func set(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}
