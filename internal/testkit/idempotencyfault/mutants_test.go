package idempotencyfault

import (
	"cmp"
	"flag"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

var mutantPlays = flag.Int("plays", 0, "how many histories TestMutants plays; 0: as many as the mutant says")

// mutant breaks a rule in the source of the package or of the store.
type mutant struct {
	name string
	// plays is the number of histories that find it: at least ten times the number after which it was found first.
	plays   int
	changes []mutanttest.Change
}

const root = "../../.." // of the module

const (
	call    = "pkg/idempotency/call.go"
	do      = "pkg/idempotency/do.go"
	hold    = "pkg/idempotency/hold.go"
	operate = "pkg/idempotency/operate.go"
	times   = "pkg/idempotency/times.go"
	leases  = "internal/shared/lease/lease.go"
	store   = "internal/testkit/memstore/calls.go"
	clock   = "internal/aws/serverclock/clock.go"

	begin      = "pkg/idempotency/internal/exchange/begin.go"
	exchange   = "pkg/idempotency/internal/exchange/exchange.go"
	httpKey    = "pkg/idempotency/internal/exchange/key.go"
	stored     = "pkg/idempotency/internal/exchange/stored.go"
	problems   = "pkg/idempotency/internal/exchange/problem.go"
	middleware = "pkg/idempotency/oncehttp/middleware.go"
	recorder   = "pkg/idempotency/oncehttp/recorder.go"
	handler    = "pkg/idempotency/oncelambda/handler.go"
	format     = "pkg/idempotency/oncelambda/format.go"
	typed      = "pkg/idempotency/oncelambda/event.go"
	jmespath   = "pkg/idempotency/oncelambda/jmespath.go"
	messages   = "pkg/idempotency/oncelambda/messages.go"
	executions = "pkg/idempotency/execution.go"
)

// in breaks a rule in one place.
func in(name string, plays int, file, from, to string) mutant {
	return mutant{name, plays, []mutanttest.Change{{File: file, Old: from, New: to}}}
}

// inStore changes the condition of a write of the store. The text before it tells the write.
func inStore(name string, plays int, write, from, to string) mutant {
	return in(name, plays, store, write+from, write+to)
}

const (
	prolongs = "token string, ends engine.Ends) (engine.Answer, error) {\n" + changes
	changes  = "\treturn s.write(ctx, key, func(old *engine.Record) *engine.Record {\n\t\tif old == nil || "
	finishes = "errTooLarge\n\t}\n" + changes
	releases = "token, next string) (engine.Answer, error) {\n" + changes
	mineOnly = "old.Token != token || "
	current  = "old.Status != engine.InProgress"
	cached   = "c.useCopy(c.r.copies.get(c.key.Name), "
)

// mutants has a mutant for each rule, in the order of the protocol.
var mutants = []mutant{
	// Rule 2: begin.
	in("new-token-on-a-retry", 100, call,
		"\tc.lease = c.newLease()\n",
		"\tc.lease = c.newLease()\n\tc.token, _ = c.r.newToken()\n"),
	in("number-and-lease-of-the-refused-try", 500, call,
		"if err == nil && a.Done {",
		"if err == nil && (a.Done || a.Row != nil && a.Row.Token == c.token && a.Row.Status == engine.InProgress) {"),
	in("payload-not-compared", 500, leases, "case !r.Same:", "case false:"),
	in("dead-execution-blocks-other-payloads", 100, leases,
		"case !r.Counts(early):",
		"case !r.Counts(early) && r.Same:"),
	in("twin-taken-over", 100, leases, "\treturn Twin\n", "\treturn Free\n"),
	in("twin-runs", 100, call,
		"\t\tcase lease.Twin:\n",
		"\t\tcase lease.Twin:\n\t\t\tif true {\n\t\t\t\treturn &row, nil\n\t\t\t}\n"),
	in("twin-does-not-wait", 100, call, "\tif c.r.settings.DoNotWait {\n", "\tif true {\n"),
	in("one-try", 100, call, "const maxTries = 10", "const maxTries = 1"),
	in("takeover-without-token-and-number", 50_000, store,
		"old.Token == version.Token && old.Number == version.Number &&", ""),
	in("takeover-without-number", 200_000, store, " && old.Number == version.Number", ""),
	in("takeover-without-status-and-expiry", 10_000, store,
		"return old.Status == version.Status && old.Token == version.Token && old.Number == version.Number &&\n"+
			"\t\told.LeaseEnd.Equal(version.LeaseEnd) && old.Expiry.Equal(version.Expiry)",
		"return old.Token == version.Token && old.LeaseEnd.Equal(version.LeaseEnd)"),
	in("takeover-without-lease-end-and-expiry", 10_000, store,
		"\n\t\told.LeaseEnd.Equal(version.LeaseEnd) && old.Expiry.Equal(version.Expiry)",
		" true"),
	in("number-may-fall", 500, times, "max(number, old.Number+1)", "number"),
	in("number-without-the-time", 100, times, "number := r.server.Early().UnixMilli()", "number := int64(1)"),
	in("number-of-the-late-clock", 100, times,
		"number := r.server.Early().UnixMilli()",
		"number := r.server.Late().UnixMilli()"),
	in("begins-with-little-lease", 1_000, call, ">= c.lease/2", "> -1<<62"),
	in("begins-while-a-put-is-on-its-way", 100_000, call,
		"if row.Number != tooShort && ",
		"if tooShort >= 0 && "),
	// Rule 3: copies.
	in("cheap-read-without-expiry", 10_000, call, "c.useCopy(a.Row, a.at.Late())", "c.useCopy(a.Row, time.Time{})"),
	in("copy-of-another-payload", 2_000, call,
		"case row.Payload != c.payload:\n\t\treturn nil, ErrOtherPayload\n\t}\n\treturn row, nil",
		"}\n\treturn row, nil"),
	in("cache-of-a-superseded-execution", 20_000, hold,
		"\tcompletion := h.r.completion(result)\n",
		"\tcompletion := h.r.completion(result)\n"+cachesOwn),
	in("cache-of-an-unknown-outcome", 20_000, hold,
		"\t\tif h.left() <= 0 || h.r.backOff(whole, tries) != nil {\n",
		"\t\tif h.left() <= 0 || h.r.backOff(whole, tries) != nil {\n"+cachesOwn),
	in("copy-without-expiry", 10_000, do,
		"last, _ := c.useCopy(line.last, r.server.Late()); last != nil",
		"last := line.last; last != nil"),
	in("copy-by-the-early-clock", 10_000, do,
		"c.useCopy(line.last, r.server.Late())",
		"c.useCopy(line.last, r.server.Early())"),
	in("cache-without-expiry", 1_000, call, cached+"c.r.server.Late()", cached+"time.Time{}"),
	in("cache-by-the-early-clock", 10_000, call, cached+"c.r.server.Late()", cached+"c.r.server.Early()"),
	in("cache-by-the-own-clock", 2_000, call, cached+"c.r.server.Late()", cached+"c.r.machine.Moment().Wall"),
	// Rule 4: clocks and lease.
	in("own-clock", 100, times,
		"\tr.server.Observe(a.Date, sent)\n",
		"\ta.Date = sent.Wall\n\tr.server.Observe(a.Date, sent)\n"),
	in("no-date-before-the-first-put", 100, call, "if c.r.server.Early().IsZero() {", "if false {"),
	in("no-lease", 100, times, "end := lease.End(r.server.Early(), length)", "end := lease.End(time.Unix(0, 0).UTC(), 0)"),
	in("lease-of-the-late-clock", 100, times,
		"end := lease.End(r.server.Early(), length)",
		"end := lease.End(r.server.Late(), length)"),
	in("others-by-the-late-clock", 2_000, call,
		"seen(&row, c.token, c.payload).Decide(a.at.Early())",
		"seen(&row, c.token, c.payload).Decide(a.at.Late())"),
	in("own-lease-by-the-early-clock", 10_000, hold,
		"h.leaseEnd.Sub(h.r.server.Late())",
		"h.leaseEnd.Sub(h.r.server.Early())"),
	in("first-look-by-the-early-clock", 1_000, call, "row.LeaseEnd.Sub(a.at.Late())", "row.LeaseEnd.Sub(a.at.Early())"),
	in("expiry-by-the-early-clock", 100, times, "roundUp(r.server.Late()", "roundUp(r.server.Early()"),
	in("no-round-trip-in-the-late-clock", 100, clock,
		"afterDate + roundTrip + passed",
		"afterDate + passed + 0*roundTrip"),
	in("early-clock-of-a-rounded-date", 500, clock, "beforeDate = 500 * time.Millisecond", "beforeDate = 0"),
	in("late-clock-of-a-cut-date", 500, clock, "afterDate  = 1500 * time.Millisecond", "afterDate  = 0"),
	in("no-wall-time-in-the-late-clock", 10_000, clock, "_, passed := c.machine()", "passed, _ := c.machine()"),
	in("no-lease-until-the-deadline", 1_000, call, "if c.deadline.IsZero() {", "if true {"),
	in("no-heartbeat", 2_000, hold, "\tif h.r.settings.LeaseUntilDeadline {", "\tif true {"),
	in("heartbeat-past-the-deadline", 2_000, hold, "\tif h.r.settings.LeaseUntilDeadline {", "\tif false {"),
	inStore("heartbeat-without-token", 200, prolongs, mineOnly, ""),
	inStore("heartbeat-without-status", 2_000, prolongs, mineOnly+current, mineOnly+"false"),
	in("heartbeat-with-an-earlier-end", 1_000, store, " || !old.LeaseEnd.Before(ends.LeaseEnd)", ""),
	in("heartbeat-without-expiry", 100, store,
		"record.LeaseEnd, record.Expiry, record.PurgeAt = ends.LeaseEnd, ends.Expiry, ends.PurgeAt",
		"record.LeaseEnd = ends.LeaseEnd"),
	in("heartbeat-counts-unconfirmed", 10_000, hold,
		"\tcase err != nil:\n\t\treturn false, err\n",
		"\tcase err != nil:\n\t\th.confirmed(ends.LeaseEnd)\n"),
	in("no-end-of-the-context", 10_000, times, "\t\tend(ErrLeaseLost)\n", ""),
	// Rule 5: complete.
	inStore("completion-without-token", 2_000, finishes, mineOnly, ""),
	inStore("completion-without-status", 500, finishes, mineOnly+current, mineOnly+"false"),
	in("completion-of-an-absent-row", 2_000, store,
		finishes+mineOnly+current+" {\n\t\t\treturn nil\n\t\t}\n",
		"errTooLarge\n\t}\n"+
			"\treturn s.write(ctx, key, func(old *engine.Record) *engine.Record {\n"+
			"\t\tif old != nil && ("+mineOnly+current+") {\n\t\t\treturn nil\n\t\t}\n\t\tif old == nil {\n"+
			"\t\t\told = &engine.Record{Token: token}\n\t\t}\n"),
	in("completed-by-ignored", 1_000, hold, "row.CompletedBy == h.token", "false"),
	in("own-result-when-superseded", 2_000, hold,
		"\t\t\trecord, err := h.superseded(ctx, a)\n\t\t\treturn record, nil, err\n",
		"\t\t\treturn &engine.Record{Number: h.number, Expiry: completion.Expiry, Result: result}, f, nil\n"),
	in("superseded-is-refused", 2_000, hold,
		"\t\tdefault:\n\t\t\treturn nil, ErrLeaseLost\n",
		"\t\tdefault:\n\t\t\treturn nil, ErrOtherPayload\n"),
	in("unknown-outcome-called-lost", 2_000, hold,
		"return nil, nil, fmt.Errorf(\"%w: %w\", ErrOutcomeUnknown, err)",
		"return nil, nil, ErrLeaseLost"),
	in("failure-called-unknown", 100, hold, "\t\treturn nil, nil, f.err\n", "\t\treturn nil, nil, ErrOutcomeUnknown\n"),
	in("failure-called-try-again", 100, hold, "\t\treturn nil, nil, f.err\n", "\t\treturn nil, nil, ErrTryAgain\n"),
	in("final-failure-frees-the-key", 100, do, "case isFinal:", "case false && isFinal:"),
	in("completion-ends-with-its-caller", 1_000, hold, "WithoutCancel(ctx)\n\tcompletion :=", "WithValue(ctx, 0, 0)\n\tcompletion :="),
	in("result-of-another-payload-when-superseded", 50_000, hold,
		"seen(a.Row, h.token, h.payload).Decide(a.at.Early())",
		"seen(a.Row, h.token, a.Row.Payload).Decide(a.at.Early())"),
	// Rule 6: release.
	inStore("release-without-token", 500, releases, mineOnly, ""),
	in("release-keeps-the-token", 100, store,
		"record.LeaseEnd, record.Token = time.UnixMilli(0).UTC(), next",
		"record.LeaseEnd = time.UnixMilli(0).UTC()"),
	in("release-keeps-the-lease", 100, store,
		"record.LeaseEnd, record.Token = time.UnixMilli(0).UTC(), next",
		"record.Token = next"),
	in("release-does-nothing", 100, store,
		"record.LeaseEnd, record.Token = time.UnixMilli(0).UTC(), next",
		"_ = next"),
	in("release-forgets-the-number", 100, store,
		"record.LeaseEnd, record.Token = time.UnixMilli(0).UTC(), next",
		"record.LeaseEnd, record.Token, record.Number = time.UnixMilli(0).UTC(), next, 0"),
	in("release-while-running", 100, hold,
		"\tcase err != nil:\n\t\treturn false, err\n",
		"\tcase err != nil:\n\t\th.release(ctx)\n\t\treturn false, err\n"),
	in("release-while-unknown", 500, hold,
		"\t\tif h.left() <= 0 || h.r.backOff(whole, tries) != nil {\n",
		"\t\tif h.left() <= 0 || h.r.backOff(whole, tries) != nil {\n\t\t\th.release(ctx)\n"),
	in("panic-keeps-the-key", 100, hold, "\t\tif f == nil {\n", "\t\tif false {\n"),
	in("release-ends-with-its-caller", 1_000, hold, "WithoutCancel(ctx)\n\tnext", "WithValue(ctx, 0, 0)\n\tnext"),
	in("no-release", 100, hold, "\tif !ok {\n\t\t_, _ = h.release(ctx)\n", "\tif !ok {\n"),
	in("large-result-frees-the-key", 100, do,
		"return missing(fmt.Sprintf(\"it has %d bytes, and the store keeps up to %d\", f.result.size(), limit))",
		"f.err = ErrTryAgain\n\t\treturn engine.Result{}, false"),
	// Rule 9: effects in the same transaction.
	in("content-not-fixed", 500, hold, "if f.effects == nil { // the content", "if true { // the content"),
	in("effects-of-a-superseded-execution", 500, store,
		finishes+mineOnly+current+" {\n\t\t\treturn nil\n\t\t}\n\t\tif !effects() {\n",
		"errTooLarge\n\t}\n"+
			"\treturn s.write(ctx, key, func(old *engine.Record) *engine.Record {\n"+
			"\t\tif !effects() || old == nil || "+mineOnly+current+" {\n"),
	in("effects-of-a-final-failure", 500, effects, "\t\tf.effects = nil\n", ""),
	in("refused-effects-keep-the-key", 500, effects,
		"\trow, err := h.release(ctx)\n\tswitch {",
		"\tvar row *engine.Record\n\tvar err error\n\tswitch {"),
	in("release-ignores-a-completion", 100_000, effects, "case h.completed(row):", "case h.completed(row) && false:"),
	in("refusal-without-a-confirmed-release", 100_000, effects,
		"case err != nil:\n\t\treturn nil, nil,",
		"case err != nil && false:\n\t\treturn nil, nil,"),
	in("refusal-without-the-row", 100_000, hold, "\t\t\treturn a.Row, errNotHeld\n", "\t\t\treturn a.Row, failed\n"),
	// Rule 10: purge.
	in("purge-without-grace", 100, times,
		"roundUp(expiry.Add(purgeGrace), time.Second)",
		"roundUp(expiry, time.Second)"),
	in("purge-rounded-down", 100, times,
		"roundUp(expiry.Add(purgeGrace), time.Second)",
		"expiry.Add(purgeGrace).Truncate(time.Second)"),
	// Evictions.
	in("evict-keeps-the-token", 100, operate, "next, err := r.newToken()", "next, err := row.Token, error(nil)"),
	in("eviction-of-a-later-execution", 20_000, operate, "case row.Number != e.Number:", "case false:"),
	in("eviction-within-the-lease", 1_000, operate, " && !e.Running:", " && false:"),
	in("eviction-forgets-the-number", 1_000, operate, "Number: row.Number, LeaseEnd", "LeaseEnd"),
	in("eviction-keeps-the-lease", 1_000, operate, "LeaseEnd: time.UnixMilli(0).UTC(),", "LeaseEnd: row.LeaseEnd,"),
	in("evicted-row-purged-at-once", 1_000, operate, "PurgeAt: row.PurgeAt, ", ""),
	in("eviction-without-an-effect", 20_000, operate, "\treturn nil, ErrChanged\n", "\treturn row, nil\n"),
}

// byTest is a mutant that a test of a package finds. Histories find it very rarely, or only with programs of others
// that write the same rows.
type byTest struct {
	name, pkg, test, file, from, to string
	more                            []mutanttest.Change
}

const (
	domain      = "pkg/idempotency"
	memory      = "internal/testkit/memstore"
	onDynamo    = "pkg/idempotency/dynamostore"
	effects     = "pkg/idempotency/effects.go"
	transact    = "internal/aws/dynamo/transact.go"
	serverClock = "internal/aws/serverclock"
	theirRows   = "pkg/idempotency/dynamostore/powertools.go"
	rules       = "pkg/idempotency/internal/exchange"
	server      = "pkg/idempotency/oncehttp"
	lambda      = "pkg/idempotency/oncelambda"
)

// cachesOwn puts the own result into the cache.
const cachesOwn = "h.r.copies.add(h.key.Name, &engine.Record{Status: engine.Completed, Payload: h.payload, " +
	"Expiry: completion.Expiry, Result: result})\n"

var mutantsByTest = []byTest{
	{name: "hash-of-the-payload-after-the-function", pkg: domain, test: "TestSuperseded", file: hold,
		from: "seen(a.Row, h.token, h.payload).Decide(a.at.Early())",
		to:   "seen(a.Row, h.token, func() string { s, _ := h.r.hash(h.raw); return s }()).Decide(a.at.Early())",
		more: []mutanttest.Change{
			{File: call, Old: "\tpayload string // hash\n", New: "\tpayload string // hash\n\traw []byte\n"},
			{File: call, Old: "payload: hashed}", New: "payload: hashed, raw: payload}"},
		}},
	{name: "takeover-without-status", pkg: memory, test: "TestCalls", file: store,
		from: "old.Status == version.Status && ",
		to:   ""},
	{name: "takeover-without-token", pkg: memory, test: "TestCalls", file: store,
		from: "old.Token == version.Token && ",
		to:   ""},
	{name: "takeover-without-lease-end", pkg: memory, test: "TestCalls", file: store,
		from: "old.LeaseEnd.Equal(version.LeaseEnd) && ",
		to:   ""},
	{name: "takeover-without-expiry", pkg: memory, test: "TestCalls", file: store,
		from: " && old.Expiry.Equal(version.Expiry)",
		to:   ""},
	{name: "heartbeat-without-token", pkg: memory, test: "TestCalls", file: store,
		from: prolongs + mineOnly,
		to:   prolongs},
	{name: "heartbeat-without-status", pkg: memory, test: "TestCalls", file: store,
		from: prolongs + mineOnly + current,
		to:   prolongs + mineOnly + "false"},
	{name: "heartbeat-with-an-earlier-end", pkg: memory, test: "TestCalls", file: store,
		from: " || !old.LeaseEnd.Before(ends.LeaseEnd)",
		to:   ""},
	{name: "completion-without-token", pkg: memory, test: "TestCalls", file: store,
		from: finishes + mineOnly,
		to:   finishes},
	{name: "completion-without-status", pkg: memory, test: "TestCalls", file: store,
		from: finishes + mineOnly + current,
		to:   finishes + mineOnly + "false"},
	{name: "release-without-token", pkg: memory, test: "TestCalls", file: store,
		from: releases + mineOnly,
		to:   releases},
	{name: "release-without-status", pkg: memory, test: "TestCalls", file: store,
		from: releases + mineOnly + current,
		to:   releases + mineOnly + "false"},
	{name: "release-keeps-the-token", pkg: memory, test: "TestCalls", file: store,
		from: "time.UnixMilli(0).UTC(), next",
		to:   "time.UnixMilli(0).UTC(), token"},

	// The clock of the store.
	{name: "later-date-kept", pkg: serverClock, test: "TestClock", file: clock,
		from: "sent.Monotonic >= c.last.sent.Monotonic {",
		to:   "date.After(c.last.date.Add(received.Monotonic-c.last.received.Monotonic)) {"},
	{name: "last-arrival-counts", pkg: serverClock, test: "TestClock", file: clock,
		from: "sent.Monotonic >= c.last.sent.Monotonic {",
		to:   "true {"},
	{name: "early-capped-by-the-own-clock", pkg: serverClock, test: "TestClock", file: clock,
		from: "\treturn last.date.Add(passed - beforeDate).UTC()\n",
		to: "\tearly := last.date.Add(passed - beforeDate).UTC()\n" +
			"\tif wall := c.machine().Wall; wall.Before(early) {\n\t\treturn wall\n\t}\n\treturn early\n"},
	{name: "late-capped-by-the-own-clock", pkg: serverClock, test: "TestClock", file: clock,
		from: "\treturn last.date.Add(afterDate + roundTrip + passed).UTC()\n",
		to: "\tlate := last.date.Add(afterDate + roundTrip + passed).UTC()\n" +
			"\tif wall := c.machine().Wall; wall.Before(late) {\n\t\treturn wall\n\t}\n\treturn late\n"},
	{name: "wall-time-in-the-early-bound", pkg: serverClock, test: "TestClock", file: clock,
		from: "passed, _ := c.machine().since(last.received)\n\treturn last.date.Add(passed - beforeDate)",
		to:   "_, passed := c.machine().since(last.received)\n\treturn last.date.Add(passed - beforeDate)"},

	{name: "refused-heartbeat-ignored", pkg: domain, test: "TestRefusedHeartbeat", file: hold,
		from: "\t\treturn false, nil\n",
		to:   "\t\treturn true, nil\n"},
	{name: "cheap-read-by-the-early-clock", pkg: domain, test: "TestCheapReadAndTheLateClock", file: call,
		from: "c.useCopy(a.Row, a.at.Late())",
		to:   "c.useCopy(a.Row, a.at.Early())"},
	{name: "twins-of-any-payload", pkg: domain, test: "TestAnotherPayloadDoesNotWait", file: do,
		from: "turnKey{c.key, c.payload}", to: "turnKey{c.key, \"\"}"},
	{name: "cache-without-limit", pkg: domain, test: "TestCacheBytes", file: "pkg/idempotency/cache.go",
		from: "c.bytes > c.limit;",
		to:   "false;"},
	{name: "eviction-leaves-the-copy", pkg: domain, test: "TestEvictAndCaches", file: operate,
		from: "\t\t\tr.copies.evict(key, e.Number)\n",
		to:   ""},
	{name: "late-reply-brings-an-evicted-copy-back", pkg: domain, test: "TestEvictAndStaleReads", file: "pkg/idempotency/cache.go",
		from: "record.Number == old.Number && ",
		to:   "false && "},
	{name: "result-without-json-frees-the-key", pkg: domain, test: "TestResultsThatCannotBeStored", file: do,
		from: "case isBroken:",
		to:   "case false && isBroken:"},
	{name: "twins-send-requests", pkg: domain, test: "TestTwinsInOneProcess", file: do,
		from: "r.server.Late()); last != nil {",
		to:   "r.server.Late()); false && last != nil {"},
	{name: "reason-longer-than-a-result", pkg: domain, test: "TestResultsThatCannotBeStored", file: do,
		from: "Body: shorten(why, limit)",
		to:   "Body: []byte(why)"},
	{name: "panic-of-the-encoding-frees-the-key", pkg: domain, test: "TestResultsThatCannotBeStored", file: do,
		from: "body, err := encode(value)",
		to:   "body, err := json.Marshal(value)"},
	{name: "failure-longer-than-a-result", pkg: domain, test: "TestFinalTextFits", file: do,
		from: "Body: shorten(f.err.Error(), limit)",
		to:   "Body: []byte(f.err.Error())"},
	{name: "completion-is-tried-once", pkg: domain, test: "TestCompletionsThatFail", file: hold,
		from: "if h.left() <= 0 || ",
		to:   "if tries > 0 || "},
	{name: "final-failure-of-another-key", pkg: domain, test: "TestFinalOfAnotherKey", file: do,
		from: "failed.Cause = causeOf(ran.err)",
		to:   "failed.Cause = ran.err"},
	{name: "goexit-keeps-the-key", pkg: domain, test: "TestGoexitFreesTheKey", file: hold,
		from: "\t\tif f == nil {\n",
		to:   "\t\tif f == nil && recover() != nil {\n"},

	// Rule 9: effects in the same transaction.
	{name: "effects-dropped-when-the-result-is", pkg: domain, test: "TestEffectsOfAResultThatCannotBeStored", file: effects,
		from: "f.err != nil && !isBroken {",
		to:   "f.err != nil || isBroken {"},
	{name: "panic-of-effects-keeps-the-key", pkg: domain, test: "TestEffectsThatPanic", file: effects,
		from: "\t\tif !ended {\n",
		to:   "\t\tif false && !ended {\n"},
	{name: "effects-decide-before-the-record", pkg: onDynamo, test: "TestReasons", file: transact,
		from: "own.Reason == ConditionFailed {",
		to:   "own.Reason == ConditionFailed && len(reasons) == 1 {"},
	{name: "effects-refused-while-an-item-is-busy", pkg: onDynamo, test: "TestReasons", file: transact,
		from: "\t\tcase Conflict, Throttled:\n\t\t\treturn Outcome{}\n",
		to:   ""},
	{name: "effect-on-the-record", pkg: onDynamo, test: "TestActions", file: transact,
		from: "case name == own.name(names):",
		to:   "case false && name == own.name(names):"},
	{name: "no-room-for-the-record", pkg: onDynamo, test: "TestActions", file: "pkg/idempotency/dynamostore/transact.go",
		from: "const MaxActions = 99",
		to:   "const MaxActions = 100"},
	{name: "new-request-token-for-each-try", pkg: onDynamo, test: "TestRequestTokens", file: "pkg/idempotency/dynamostore/transact.go",
		from: "ClientRequestToken: aws.String(requestToken(key, token)),",
		to:   "ClientRequestToken: aws.String(requestToken(key, time.Now().String())),"},
	{name: "refused-effects-complete", pkg: "pkg/idempotency/sqlitestore", test: "TestEngine", file: "pkg/idempotency/sqlitestore/transact.go",
		from: "return &engine.RefusedError{Reason: err} // which",
		to:   "return nil // which"},
	{name: "effects-without-the-record", pkg: "pkg/idempotency/sqlitestore", test: "TestEngine", file: "pkg/idempotency/sqlitestore/transact.go",
		from: "err != nil || !a.Done {",
		to:   "err != nil {"},

	// Rows of Powertools.
	{name: "their-completion-taken-for-ours", pkg: onDynamo, test: "TestTheirLateCompletion", file: theirRows,
		from: "engine.Completed, r.CompletedBy",
		to:   "engine.Completed, r.Token"},
	{name: "own-result-in-a-mixed-fleet", pkg: "internal/testkit/idempotencyfault", test: "TestMixedFleets", file: hold,
		from: "row.CompletedBy == h.token",
		to:   "row.Token == h.token"},
	{name: "their-records-have-one-number", pkg: onDynamo, test: "TestEvictTheirs", file: theirRows,
		from: "\t\treturn r.Expiry\n",
		to:   "\t\treturn 0\n"},
	{name: "their-unreadable-row-blocks-for-ever", pkg: onDynamo, test: "TestTheirUnreadableRow", file: theirRows,
		from: "!ok && date.After(",
		to:   "!ok && date.IsZero() && date.After("},
	{name: "their-row-without-a-lease-is-free", pkg: onDynamo, test: "TestTheirRowBlocks", file: theirRows,
		from: "\t\treturn expiry\n",
		to:   "\t\treturn time.UnixMilli(0).UTC()\n"},
	{name: "released-row-blocks-them", pkg: onDynamo, test: "TestReleasedForThem", file: "pkg/idempotency/dynamostore/store.go",
		from: "row{lease: zero, s.rows.token()",
		to:   "row{lease + \"_other\": zero, s.rows.token()"},
	{name: "window-shorter-than-late-requests", pkg: onDynamo, test: "TestPowertoolsRefusals", file: "pkg/idempotency/runner.go",
		from: "case settings.Window < least:",
		to:   "case settings.Window < least && false:"},
	{name: "cache-of-rows-that-others-change", pkg: onDynamo, test: "TestPowertoolsRefusals",
		file: "pkg/idempotency/runner.go",
		from: "case settings.CacheBytes > 0:",
		to:   "case settings.CacheBytes > 0 && false:"},

	// HTTP.
	{name: "http-key-not-required", pkg: server, test: "TestKeys", file: exchange,
		from: "|| x.keyOptional && len(keys) == 0",
		to:   "|| len(keys) == 0"},
	{name: "http-shared-namespace-without-caller", pkg: server, test: "TestCallers", file: exchange,
		from: "case caller == \"\":",
		to:   "case false:"},
	{name: "http-callers-share-keys", pkg: server, test: "TestCallers", file: exchange,
		from: "KeyOf(caller, key), fingerprint",
		to:   "KeyOf(\"\", key), fingerprint"},
	{name: "http-ambiguous-names", pkg: rules, test: "TestKeyOf", file: httpKey,
		from: "strconv.Quote(caller) + \" \" + strconv.Quote(key)",
		to:   "strconv.Quote(caller + \" \" + key)"},
	{name: "http-payload-without-method", pkg: server, test: "TestOtherPayload", file: httpKey,
		from: "[]string{r.Method, r.Path, r.Query}",
		to:   "[]string{r.Path, r.Query}"},
	{name: "http-payload-without-path", pkg: server, test: "TestOtherPayload", file: httpKey,
		from: "[]string{r.Method, r.Path, r.Query}",
		to:   "[]string{r.Method, r.Query}"},
	{name: "http-payload-without-query", pkg: server, test: "TestOtherPayload", file: httpKey,
		from: "[]string{r.Method, r.Path, r.Query}",
		to:   "[]string{r.Method, r.Path}"},
	{name: "http-payload-without-body", pkg: server, test: "TestOtherPayload", file: httpKey,
		from: "h.Write(body)",
		to:   "h.Write(body[:0])"},
	{name: "http-payload-without-lengths", pkg: rules, test: "TestFingerprint", file: httpKey,
		from: "\t\th.Write(length[:])\n",
		to:   ""},
	{name: "http-set-cookie-in-the-allowlist", pkg: server, test: "TestHeadersThatAreNeverStored", file: stored,
		from: "case never:",
		to:   "case never && false:"},
	{name: "http-all-headers-stored", pkg: server, test: "TestReplay", file: stored,
		from: "for _, name := range x.stored {",
		to:   "for name := range r.Header {"},
	{name: "http-server-errors-are-results", pkg: server, test: "TestFailuresFreeTheKey", file: exchange,
		from: "return status >= http.StatusInternalServerError",
		to:   "return false"},
	{name: "http-client-errors-free-the-key", pkg: server, test: "TestFailuresFreeTheKey", file: exchange,
		from: "return status >= http.StatusInternalServerError",
		to:   "return status >= http.StatusBadRequest"},
	{name: "http-busy-is-a-result", pkg: server, test: "TestFailuresFreeTheKey", file: exchange,
		from: ",\n\t\thttp.StatusTooManyRequests:",
		to:   ":"},
	{name: "http-replay-not-told", pkg: server, test: "TestReplay", file: exchange,
		from: "\tresponse.Header.Set(ReplayedHeader, \"true\")\n",
		to:   ""},
	{name: "http-headers-of-outer-handlers-lost", pkg: server, test: "TestHeadersOfOuterHandlers", file: middleware,
		from: "header: outer.Clone()",
		to:   "header: http.Header{}"},
	{name: "http-headers-of-outer-handlers-stored", pkg: server, test: "TestHeadersOfOuterHandlers", file: recorder,
		from: "\tw.keepChanges()\n",
		to:   ""},
	{name: "lambda-replay-of-other-bytes", pkg: lambda, test: "TestTextThatIsNotUTF8", file: format,
		from: "if !utf8.ValidString(r.body) {",
		to:   "if false {"},
	{name: "http-client-ends-the-handler", pkg: server, test: "TestClientGoesAway", file: middleware,
		from: "detached := context.WithoutCancel(ctx)",
		to:   "detached := ctx"},
	{name: "http-begins-without-its-client", pkg: server, test: "TestClientGoesAwayBeforeTheHandler", file: begin,
		from: "if !c.begin() {",
		to:   "if c.begin(); false {"},
	{name: "http-stream-requests-run", pkg: server, test: "TestStreams", file: exchange,
		from: "if r.Streams {",
		to:   "if false {"},
	{name: "http-handler-flushes", pkg: server, test: "TestHandlerCannotStream", file: recorder,
		from: "func (w *recorder) Header() http.Header",
		to:   "func (w *recorder) Flush() {}\nfunc (w *recorder) Header() http.Header"},
	{name: "http-chunked-bodies-without-limit", pkg: server, test: "TestLimits", file: middleware,
		from: "http.MaxBytesReader(w, r.Body, int64(limit))",
		to:   "r.Body"},
	{name: "http-body-read-before", pkg: server, test: "TestBodyReadBefore", file: middleware,
		from: "case int64(len(body)) < r.ContentLength,",
		to:   "case false,"},
	{name: "http-twin-without-retry-after", pkg: server, test: "TestTwins", file: problems,
		from: "header.Set(\"Retry-After\", secondsOf(running.Left))",
		to:   "_ = running"},
	{name: "http-error-text-to-the-client", pkg: server, test: "TestErrors", file: problems,
		from: "Detail: p.detail, Instance",
		to:   "Detail: err.Error(), Instance"},
	{name: "lambda-body-without-limit", pkg: lambda, test: "TestRefusals", file: format,
		from: "case len(body) > limit:",
		to:   "case false:"},
	{name: "lambda-response-that-cannot-be-sent-frees-the-key", pkg: lambda, test: "TestFinalErrors", file: handler,
		from: "err = idempotency.Final(err)",
		to:   "_ = err"},
	{name: "lambda-waits-past-the-deadline", pkg: lambda, test: "TestWaitsUntilTheDeadline", file: handler,
		from: "deadline.WithMargin(ctx)",
		to:   "deadline.WithMargin(context.WithoutCancel(ctx))"},
	// Events and messages.
	{name: "calls-of-no-runner-share-a-key", pkg: domain, test: "TestKeysForCalls", file: executions,
		from: "if e.key == (engine.Key{}) {",
		to:   "if false {"},
	{name: "event-without-key-runs", pkg: lambda, test: "TestEventWithoutKey", file: typed,
		from: "case key == \"\" && !s.KeyOptional:",
		to:   "case false:"},
	{name: "events-without-key-share-a-record", pkg: lambda, test: "TestEventWithoutKey", file: typed,
		from: "case key == \"\" || s.Payload == nil:",
		to:   "case key == \"\":\n\t\treturn \"none\", \"\", nil\n\tcase s.Payload == nil:"},
	{name: "call-without-key-in-an-execution", pkg: lambda, test: "TestCallsWithin", file: typed,
		from: "next(exchange.Unprotected(ctx), in)",
		to:   "next(ctx, in)"},
	{name: "message-without-key-in-an-execution", pkg: lambda, test: "TestCallsWithin", file: messages,
		from: "b.next(exchange.Unprotected(ctx), m)",
		to:   "b.next(ctx, m)"},
	{name: "event-payload-not-compared", pkg: lambda, test: "TestEventPayload", file: typed,
		from: "return key, payload, err",
		to:   "return key, key, err"},
	{name: "event-payload-loses-bytes", pkg: lambda, test: "TestBinaryPayloads", file: typed,
		from: "[]byte(payload)",
		to:   "[]byte(string([]rune(payload)))"},
	{name: "event-waits-past-the-deadline", pkg: lambda, test: "TestEventWaitsUntilTheDeadline", file: typed,
		from: "deadline.WithMargin(ctx)",
		to:   "deadline.WithMargin(context.WithoutCancel(ctx))"},
	{name: "event-of-a-durable-execution", pkg: lambda, test: "TestDurable", file: typed,
		from: "if isDurable(in) {",
		to:   "if false {"},
	{name: "key-of-nulls", pkg: lambda, test: "TestJMESPath", file: jmespath,
		from: "err != nil || missing(found)",
		to:   "err != nil || found == nil"},
	{name: "key-of-empty-texts", pkg: lambda, test: "TestJMESPath", file: jmespath,
		from: "return v == \"\"",
		to:   "return false"},
	{name: "key-loses-digits", pkg: lambda, test: "TestNumbersKeepTheirDigits", file: jmespath,
		from: "err == nil && exact(v.String(), f)",
		to:   "err == nil"},
	{name: "key-of-wrong-utf-8", pkg: lambda, test: "TestJMESPathErrors", file: jmespath,
		from: "if !utf8.Valid(data) {",
		to:   "if !utf8.Valid(data) && false {"},
	{name: "gzip-without-limit", pkg: lambda, test: "TestJMESPathErrors", file: jmespath,
		from: "case len(data) > mostOpened:",
		to:   "case false:"},
	{name: "jmespath-error-with-a-part-of-the-event", pkg: lambda, test: "TestJMESPathErrors", file: jmespath,
		from: "errors.New(\"a function gets a value of a type that it does not take\")",
		to:   "err"},
	{name: "message-failure-counts-as-done", pkg: lambda, test: "TestMessageThatFails", file: messages,
		from: "\t\tname(id)\n\t}\n",
		to:   "\t}\n"},
	{name: "message-overtakes-in-a-fifo-queue", pkg: lambda, test: "TestMessageThatFails", file: messages,
		from: "\t\t\torder = queued\n",
		to:   ""},
	{name: "record-overtakes-in-a-stream", pkg: lambda, test: "TestMessageThatFails", file: messages,
		from: "case o == streamed:",
		to:   "case false:"},
	{name: "first-record-is-named", pkg: lambda, test: "TestMessageThatFails", file: messages,
		from: "case o == streamed && id == b.read(messages[0]).id && len(messages) > 1:",
		to:   "case false:"},
	{name: "first-sequence-number-is-named", pkg: lambda, test: "TestEnhancedFanOut", file: messages,
		from: "id == b.read(messages[0]).id",
		to:   "i == 0"},
	{name: "message-panic-fails-the-batch", pkg: lambda, test: "TestMessageThatFails", file: messages,
		from: "if p := recover(); p != nil {",
		to:   "if p := any(nil); p != nil {"},
	{name: "message-waits-for-its-twin", pkg: lambda, test: "TestMessageConstructors", file: messages,
		from: "!set.LeaseUntilDeadline || !set.DoNotWait",
		to:   "!set.LeaseUntilDeadline"},
	{name: "message-payload-not-compared", pkg: lambda, test: "TestMessageKeys", file: messages,
		from: "return message{m.MessageId, m.MessageId, func() (string, error) { return m.Body, nil }}",
		to:   "return message{m.MessageId, m.MessageId, func() (string, error) { return \"\", nil }}"},
	{name: "message-begins-at-the-deadline", pkg: lambda, test: "TestMessagesBeforeTheDeadline", file: messages,
		from: "deadline.WithMargin(ctx)",
		to:   "deadline.WithMargin(context.WithoutCancel(ctx))"},
	{name: "message-named-twice", pkg: lambda, test: "TestMessageTwiceInABatch", file: messages,
		from: "if !named[id] {",
		to:   "if true {"},
	{name: "message-of-another-source", pkg: lambda, test: "TestOtherMessages", file: messages,
		from: "if b.read(m).id == \"\" {",
		to:   "if b.read(m).id == \"\" && i < 0 {"},
	{name: "records-with-one-sequence-number", pkg: lambda, test: "TestEnhancedFanOut", file: messages,
		from: "if !hasKey && len(e.Records) > 0",
		to:   "if !hasKey && len(e.Records) < 0"},
	// Evictions.
	{name: "own-eviction-not-recognised", pkg: domain, test: "TestEvictSentTwice", file: operate,
		from: " || wrote.Row != nil && wrote.Row.Token == next:",
		to:   ":"},
}

// TestMutantsByTest checks that the named tests find each broken rule.
func TestMutantsByTest(t *testing.T) {
	testengine.CheckOnly(t)
	byPackage := map[string][]byTest{}
	for _, m := range mutantsByTest {
		byPackage[m.pkg] = append(byPackage[m.pkg], m)
	}
	for pkg, mutants := range byPackage {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			mutantsOf(t, pkg, mutants)
		})
	}
}

// mutantsOf checks that the tests of a package find its mutants, and nothing without a mutant.
func mutantsOf(t *testing.T, pkg string, mutants []byTest) {
	var all []mutanttest.Mutant
	var tests []string
	for _, m := range mutants {
		changes := append(m.more, mutanttest.Change{File: m.file, Old: m.from, New: m.to})
		all = append(all, mutanttest.Mutant{Name: m.test + "/" + m.name, Changes: changes})
		tests = append(tests, m.test)
	}
	built := mutanttest.Build(t, root, pkg, all...)
	run := func(t *testing.T, bin mutanttest.Binary, tests ...string) (string, error) {
		flag := "-test.run=^(" + strings.Join(tests, "|") + ")$"
		output, err := bin.Command(t.Context(), flag).CombinedOutput()
		return string(output), err
	}
	if output, err := run(t, built.Intact(), tests...); err != nil {
		t.Fatalf("without a mutant: %v\n%s", err, output)
	}
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			output, err := run(t, built.Of(t, all[i].Name), m.test)
			if err == nil || !strings.Contains(output, "--- FAIL: "+m.test) {
				t.Errorf("%s does not find it: %v\n%s", m.test, err, output)
			}
		})
	}
}

// TestMutants checks that the histories find each broken rule.
func TestMutants(t *testing.T) {
	testengine.CheckOnly(t)
	var all []mutanttest.Mutant
	for _, m := range mutants {
		all = append(all, mutanttest.Mutant{Name: m.name, Changes: m.changes})
	}
	built := mutanttest.Build(t, root, "internal/testkit/idempotencyfault", all...)
	if output, err := search.In(t, built.Intact(), "-seed=0", "-seeds=500"); err != nil {
		t.Fatalf("without a mutant: %v\n%s", err, output)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			plays := cmp.Or(*mutantPlays, m.plays)
			seed := search.FirstIn(t, built.Of(t, m.name), plays)
			if plays < 10*(seed+1) {
				t.Errorf("%d histories are too few: the mutant needs ten times the %d that find it", plays, seed+1)
			}
		})
	}
}
