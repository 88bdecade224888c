package enginetest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/records/memledger"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
)

// mutant is a ledger that breaks one guarantee, and the cases that must find it.
type mutant struct {
	name     string
	caughtBy []string
	// ask asks a correct ledger, and changes the question or the answers.
	ask func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error)
	// rules are the rules that the mutant claims; nil means OneRowAKey.
	rules *enginetest.Rules
	// alone says that each process has its own data.
	alone bool
}

// memory is the ledger that a mutant asks, and the mutant's own memory.
type memory struct {
	*memledger.Ledger
	mu     sync.Mutex
	owners int
	first  map[string]dedupe.Candidate // by id and content, or by owner
	latest time.Time
}

func newMemory() *memory {
	return &memory{Ledger: memledger.New(), first: map[string]dedupe.Candidate{}}
}

func content(q dedupe.Question, c dedupe.Candidate) string {
	return q.Scope + " " + c.ID + " " + c.Fingerprint
}

// firstOf returns the first record that came with a name.
func (m *memory) firstOf(name string, c dedupe.Candidate) dedupe.Candidate {
	if _, found := m.first[name]; !found {
		m.first[name] = c
	}
	return m.first[name]
}

type ledgerFunc func(context.Context, dedupe.Question) ([]dedupe.Answer, error)

func (f ledgerFunc) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	return f(ctx, q)
}

func (m mutant) open() enginetest.Open {
	var shared *memory
	return func(testing.TB, func() time.Time) dedupe.Ledger {
		own := shared
		if own == nil || m.alone {
			own = newMemory()
			shared = own
		}
		return ledgerFunc(func(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
			own.mu.Lock()
			defer own.mu.Unlock()
			q.Records = slices.Clone(q.Records)
			return m.ask(own, ctx, q)
		})
	}
}

type asked = func(*memory, context.Context, dedupe.Question) ([]dedupe.Answer, error)

// onQuestion changes questions.
func onQuestion(change func(*dedupe.Question)) asked {
	return func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
		change(&q)
		return m.Enter(ctx, q)
	}
}

// onRecord changes records before they are entered.
func onRecord(change func(*memory, *dedupe.Candidate)) asked {
	return func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
		for i := range q.Records {
			if !q.Records[i].Poison {
				change(m, &q.Records[i])
			}
		}
		return m.Enter(ctx, q)
	}
}

// onAnswer changes answers.
func onAnswer(change func(*memory, dedupe.Question, dedupe.Candidate, *dedupe.Answer)) asked {
	return func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
		answers, err := m.Enter(ctx, q)
		for i := range answers {
			if !q.Records[i].Poison {
				change(m, q, q.Records[i], &answers[i])
			}
		}
		return answers, err
	}
}

// notSeen changes an answer to that of a ledger that does not see an entry.
func notSeen(a *dedupe.Answer) {
	if a.Found == dedupe.Same {
		a.Found = dedupe.Put
	}
}

var mutants = []mutant{
	{
		name: "owner-not-compared", caughtBy: []string{"ledger/answers", "ledger/histories"},
		ask: onRecord(func(m *memory, c *dedupe.Candidate) {
			m.owners++
			c.Owner.Sequence = fmt.Sprint("record ", m.owners)
		}),
	},
	{
		name: "owner-without-its-source", caughtBy: []string{"ledger/answers"},
		ask: onRecord(func(_ *memory, c *dedupe.Candidate) { c.Owner.Source, c.Owner.Sub = "", dedupe.Plain }),
	},
	{
		name: "owner-compared-after-the-content", caughtBy: []string{"ledger/owner-before-content"},
		ask: onRecord(func(m *memory, c *dedupe.Candidate) {
			if m.firstOf(c.Owner.String(), *c).Fingerprint != c.Fingerprint {
				c.Owner.Sequence += " with another content"
			}
		}),
	},
	{
		name: "content-not-compared", caughtBy: []string{"ledger/answers", "ledger/histories"},
		ask: onRecord(func(_ *memory, c *dedupe.Candidate) { c.Fingerprint += c.Owner.String() }),
	},
	{
		name: "ids-compared-as-texts", caughtBy: []string{"ledger/answers"},
		ask: onRecord(func(_ *memory, c *dedupe.Candidate) { c.ID = "id " + c.ID }),
	},
	{
		name: "only-the-first-entry-compared", caughtBy: []string{"ledger/derived", "ledger/histories"},
		ask: onAnswer(func(_ *memory, _ dedupe.Question, _ dedupe.Candidate, a *dedupe.Answer) {
			if a.Derived > 0 {
				a.Found = dedupe.Put
			}
		}),
	},
	{
		name: "derived-id-of-a-retry-lost", caughtBy: []string{"ledger/one-id-on-every-attempt", "ledger/derived"},
		ask: onAnswer(func(_ *memory, _ dedupe.Question, _ dedupe.Candidate, a *dedupe.Answer) {
			if a.Found == dedupe.Mine {
				a.Derived = 0
			}
		}),
	},
	{
		name: "another-content-under-the-same-id", caughtBy: []string{"ledger/one-id-on-every-attempt", "ledger/histories"},
		ask: onAnswer(func(_ *memory, _ dedupe.Question, _ dedupe.Candidate, a *dedupe.Answer) { a.Derived = 0 }),
	},
	{
		name: "derived-ids-apart-from-ids", caughtBy: []string{"ledger/derived-names"},
		ask: onRecord(func(_ *memory, c *dedupe.Candidate) { c.ID = strings.ReplaceAll(c.ID, "-", "_") }),
	},
	{
		name: "keep-ids-ignored", caughtBy: []string{"ledger/keep-ids"},
		ask: onQuestion(func(q *dedupe.Question) { q.KeepIDs = false }),
	},
	{
		name: "kept-id-entered", caughtBy: []string{"ledger/keep-ids"},
		ask: func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
			keep := q.KeepIDs
			q.KeepIDs = false
			answers, err := m.Enter(ctx, q)
			for i := range answers {
				if keep && answers[i].Found == dedupe.Put && answers[i].Derived > 0 {
					answers[i] = dedupe.Answer{Found: dedupe.Other}
				}
			}
			return answers, err
		},
	},
	{
		name: "no-answer-for-poison", caughtBy: []string{"ledger/poison"},
		ask: func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
			n := len(q.Records)
			q.Records = slices.DeleteFunc(q.Records, func(c dedupe.Candidate) bool { return c.Poison })
			answers, err := m.Enter(ctx, q)
			return append(answers, make([]dedupe.Answer, n-len(answers))...), err
		},
	},
	{
		name: "batch-in-another-order", caughtBy: []string{"ledger/in-order", "ledger/histories"},
		ask: func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
			slices.Reverse(q.Records)
			answers, err := m.Enter(ctx, q)
			slices.Reverse(answers)
			return answers, err
		},
	},
	{
		name: "records-of-a-batch-not-compared", caughtBy: []string{"ledger/in-order", "ledger/large-batch"},
		ask: onAnswer(func(m *memory, q dedupe.Question, c dedupe.Candidate, a *dedupe.Answer) {
			first := m.firstOf(content(q, c), c)
			if slices.ContainsFunc(q.Records, func(r dedupe.Candidate) bool { return r.Owner == first.Owner }) {
				notSeen(a)
			}
		}),
	},
	{
		name: "large-batch-cut", caughtBy: []string{"ledger/large-batch"},
		ask: func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
			n := len(q.Records)
			q.Records = q.Records[:min(n, 4096)]
			answers, err := m.Enter(ctx, q)
			return append(answers, slices.Repeat([]dedupe.Answer{{Found: dedupe.Put}}, n-len(answers))...), err
		},
	},
	{
		name: "window-only-backwards", caughtBy: []string{"ledger/window", "ledger/late-batch", "ledger/histories"},
		ask: onAnswer(func(m *memory, q dedupe.Question, c dedupe.Candidate, a *dedupe.Answer) {
			if m.firstOf(content(q, c), c).Arrival.After(c.Arrival) {
				notSeen(a)
			}
		}),
	},
	{
		name: "window-a-millisecond-too-short", caughtBy: []string{"ledger/window", "ledger/histories"},
		ask: onAnswer(func(m *memory, q dedupe.Question, c dedupe.Candidate, a *dedupe.Answer) {
			if m.firstOf(content(q, c), c).Arrival.Sub(c.Arrival).Abs() == q.Retention.Window {
				notSeen(a)
			}
		}),
	},
	{
		name: "purged-at-the-end-of-the-window", caughtBy: []string{"ledger/purged", "ledger/histories"},
		ask: onQuestion(func(q *dedupe.Question) { q.Retention.Horizon = 0 }),
	},
	{
		name: "never-purged", caughtBy: []string{"ledger/purged"},
		ask: onQuestion(func(q *dedupe.Question) { q.Retention.ForGood = true }),
	},
	{
		name: "purged-though-for-good", caughtBy: []string{"ledger/for-good"},
		ask: onQuestion(func(q *dedupe.Question) {
			q.Retention.ForGood = false
			q.Retention.Horizon = time.Hour
		}),
	},
	{
		name: "for-good-taken-as-no-window", caughtBy: []string{"ledger/for-good"}, rules: &enginetest.Rules{},
		ask: onQuestion(func(*dedupe.Question) {}),
	},
	{
		name: "entries-forgotten-when-the-window-is-over", caughtBy: []string{"ledger/late-batch", "ledger/histories"},
		ask: onAnswer(func(m *memory, q dedupe.Question, c dedupe.Candidate, a *dedupe.Answer) {
			if c.Arrival.After(m.latest) {
				m.latest = c.Arrival
			}
			if m.latest.Sub(c.Arrival) > q.Retention.Window && a.Found != dedupe.Other {
				a.Found = dedupe.Put
			}
		}),
	},
	{
		name: "no-look-at-the-clock", caughtBy: []string{"ledger/arrivals-ahead"}, rules: &enginetest.Rules{Ahead: time.Hour},
		ask: onQuestion(func(*dedupe.Question) {}),
	},
	{
		name: "one-scope-for-all", caughtBy: []string{"ledger/scopes-are-separate"},
		ask: onQuestion(func(q *dedupe.Question) { q.Scope = "all" }),
	},
	{
		name: "each-process-alone", caughtBy: []string{"ledger/race", "ledger/histories"}, alone: true,
		ask: onQuestion(func(*dedupe.Question) {}),
	},
	{
		name: "ended-context-taken-as-success", caughtBy: []string{"ledger/ended-context"},
		ask: func(m *memory, ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
			if ctx.Err() != nil {
				return slices.Repeat([]dedupe.Answer{{Found: dedupe.Put}}, len(q.Records)), nil
			}
			return m.Enter(ctx, q)
		},
	},
}

// TestMutants: each mutant is found by all cases that it names, and each case finds a mutant.
func TestMutants(t *testing.T) {
	t.Parallel()
	finds := map[string]bool{}
	cases := enginetest.LedgerCases()
	for _, m := range mutants {
		for _, name := range m.caughtBy {
			finds[name] = true
			c := mutanttest.Named(t, cases, name, func(c enginetest.LedgerCase) string { return c.Name })
			rules := enginetest.OneRowAKey
			if m.rules != nil {
				rules = *m.rules
			}
			t.Run(m.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				mutanttest.MustFail(t, func(tb testing.TB) { c.Run(tb, rules, m.open()) })
			})
		}
	}
	for _, c := range cases {
		if !finds[c.Name] {
			t.Errorf("%s finds no mutant", c.Name)
		}
	}
}
