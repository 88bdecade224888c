package valkeystore

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// enterBoth enters the records of a call while the servers change.
type enterBoth func(c change, call int, records []record, answers []dedupe.Answer)

func rightly(c change, _ int, records []record, answers []dedupe.Answer) { c.enter(records, answers) }

// changing has servers that change at epoch, in a scope of its own.
type changing struct {
	testing.TB
	scope     string
	l         *Ledger
	enter     enterBoth
	calls     int
	inBetween func() // runs between the two parts of the next call
}

func newChanging(t testing.TB, addresses [2]string, enter enterBoth) *changing {
	before, o := options(addresses[0]), options(addresses[1])
	o.Previous, o.Since = &before.Servers, epoch
	return &changing{TB: t, scope: newScope(), l: open(t, o), enter: enter, inBetween: func() {}}
}

func (c *changing) ask(r rec) dedupe.Answer {
	c.Helper()
	q := question(c.scope, r)
	records, answers := []record{recordOf(0, &q.Records[0])}, make([]dedupe.Answer, 1)
	parts := 0
	in := func(to *shards) enterIn {
		return func(records []record, answers []dedupe.Answer) {
			if parts++; parts == 2 {
				between := c.inBetween
				c.inBetween = func() {}
				between()
			}
			to.enter(c.Context(), q, records, answers)
		}
	}
	c.calls++
	c.enter(change{
		since: c.l.since, until: c.l.since + retention.Window.Milliseconds(), previous: in(c.l.previous), current: in(&c.l.current),
	}, c.calls, records, answers)
	return answers[0]
}

func (c *changing) want(r rec, answer string) {
	c.Helper()
	if got := text(c.ask(r)); got != answer {
		c.Errorf("%+v: want %s, got %s", r, answer, got)
	}
}

const (
	justBefore = -10 * time.Minute           // on the previous servers only
	inBoth     = 10 * time.Minute            // on both
	justAfter  = time.Hour + time.Minute     // on the current servers only, within the window of inBoth
	atTheEnd   = time.Hour                   // the last arrival that is on both
	atTheBegin = time.Duration(0)            // the first one
	after      = time.Hour + time.Nanosecond // still the same millisecond
)

var changeCases = map[string]func(*changing){
	"copies on both sides of the begin": func(c *changing) {
		c.want(rec{"a", "1", "x", justBefore}, "put")
		c.want(rec{"a", "2", "x", inBoth}, "same")
		c.want(rec{"b", "3", "x", inBoth}, "put")
		c.want(rec{"b", "4", "x", justBefore}, "same")
		c.want(rec{"c", "5", "x", atTheBegin}, "put")
		c.want(rec{"c", "6", "x", -time.Millisecond}, "same")
	},
	"copies on both sides of the end": func(c *changing) {
		c.want(rec{"a", "1", "x", inBoth}, "put")
		c.want(rec{"a", "2", "x", justAfter}, "same")
		c.want(rec{"b", "3", "x", atTheEnd}, "put")
		c.want(rec{"b", "4", "x", atTheEnd + time.Millisecond}, "same")
		c.want(rec{"c", "5", "x", after}, "put")
		c.want(rec{"c", "6", "x", justBefore}, "put") // further apart than the window, and on the other side
	},
	"two copies at the same time": func(c *changing) {
		var second dedupe.Answer
		c.inBetween = func() { second = c.ask(rec{"a", "2", "x", inBoth}) }
		first := c.ask(rec{"a", "1", "x", inBoth})
		if put := (first.Found == dedupe.Put) != (second.Found == dedupe.Put); !put {
			c.Errorf("want one of two copies to be put, got %s and %s", text(first), text(second))
		}
	},
	"one id on every attempt": func(c *changing) {
		c.want(rec{"a", "1", "x", justBefore}, "put")
		c.want(rec{"a", "2", "y", inBoth}, "put1")
		c.want(rec{"a", "2", "y", inBoth}, "mine1")
		c.want(rec{"a", "3", "y", justAfter}, "same1")
		c.want(rec{"a", "4", "x", justAfter}, "put1") // record 1 is too far away, and record 2 has another content
	},
	"the id stays with one of two records at the same time": func(c *changing) {
		var second dedupe.Answer
		c.inBetween = func() { second = c.ask(rec{"a", "2", "y", inBoth}) }
		if first := c.ask(rec{"a", "1", "x", inBoth}); text(first)+" "+text(second) != "put put1" {
			c.Errorf("got %s and %s", text(first), text(second))
		}
		c.want(rec{"a", "1", "x", inBoth}, "mine")
		c.want(rec{"a", "2", "y", inBoth}, "mine1")
		c.want(rec{"a", "3", "x", justAfter}, "same")
	},
	"a copy of a later record stays one": func(c *changing) {
		c.want(rec{"a", "1", "x", justAfter}, "put")
		c.want(rec{"a", "2", "x", inBoth}, "same") // but it is put on the previous servers
		c.want(rec{"a", "2", "x", inBoth}, "same")
	},
	"a record that a later one has renamed": func(c *changing) {
		c.want(rec{"a", "1", "x", justAfter}, "put")
		c.want(rec{"a", "2", "y", inBoth}, "put1")
		c.want(rec{"a", "2", "y", inBoth}, "mine1")
	},
	"a row that the previous servers have lost": func(c *changing) {
		c.want(rec{"a", "1", "x", inBoth}, "put")
		for _, s := range c.l.previous.servers { // a failover, before record 1 is delivered
			s.mu.Lock()
			keys, err := s.client.Do(c.Context(), s.client.B().Keys().Pattern("{oncebox:"+c.scope+":*").Build()).AsStrSlice()
			if err == nil {
				err = s.client.Do(c.Context(), s.client.B().Del().Key(keys...).Build()).Error()
			}
			s.mu.Unlock()
			if err != nil {
				c.Fatal(err)
			}
		}
		c.want(rec{"a", "2", "x", inBoth}, "same") // it was dropped for record 1
		c.want(rec{"a", "1", "x", inBoth}, "mine")
		c.want(rec{"a", "2", "x", inBoth}, "same")
	},
	"a call that ended in between": func(c *changing) {
		q := question(c.scope, rec{"a", "1", "x", inBoth})
		answers := make([]dedupe.Answer, 1)
		c.l.previous.enter(c.Context(), q, []record{recordOf(0, &q.Records[0])}, answers)
		c.want(rec{"a", "2", "x", inBoth}, "same")
		c.want(rec{"a", "1", "x", inBoth}, "mine")
		c.want(rec{"a", "3", "x", justAfter}, "same")
	},
}

func twoServers(t testing.TB) [2]string {
	return [2]string{testengine.FreshValkey(t).Addr, testengine.FreshValkey(t).Addr}
}

func TestChange(t *testing.T) {
	servers := twoServers(t)
	for name, run := range changeCases {
		t.Run(name, func(t *testing.T) { run(newChanging(t, servers, rightly)) })
	}
}

// TestMutantsOfTheChange: each mutant is a simpler, wrong way to change servers.
func TestMutantsOfTheChange(t *testing.T) {
	servers := twoServers(t)
	for name, m := range map[string]struct {
		enter   enterBoth
		noticed string
	}{
		"the current servers only, from since on": {func(c change, _ int, records []record, answers []dedupe.Answer) {
			if records[0].arrival < c.since {
				c.previous(records, answers)
			} else {
				c.current(records, answers)
			}
		}, "copies on both sides of the begin"},
		"the previous servers only, until a window after since": {func(c change, _ int, records []record, answers []dedupe.Answer) {
			if records[0].arrival <= c.until {
				c.previous(records, answers)
			} else {
				c.current(records, answers)
			}
		}, "copies on both sides of the end"},
		"each call has an order of its own": {func(c change, call int, records []record, answers []dedupe.Answer) {
			if call%2 == 0 {
				c.previous, c.current = c.current, c.previous
			}
			c.enter(records, answers)
		}, "two copies at the same time"},
		"the current servers first, and they decide": {func(c change, _ int, records []record, answers []dedupe.Answer) {
			if records[0].arrival < c.since {
				c.previous(records, answers)
				return
			}
			if c.current(records, answers); records[0].arrival <= c.until {
				c.previous(records, make([]dedupe.Answer, len(answers)))
			}
		}, "copies on both sides of the begin"},
		"the id is not kept": {func(c change, _ int, records []record, answers []dedupe.Answer) {
			current := c.current
			c.current = func(records []record, answers []dedupe.Answer) {
				for i := range records {
					records[i].has = noID
				}
				current(records, answers)
			}
			c.enter(records, answers)
		}, "one id on every attempt"},
		"the own id is not kept": {func(c change, _ int, records []record, answers []dedupe.Answer) {
			current := c.current
			c.current = func(records []record, answers []dedupe.Answer) {
				for i := range records {
					if records[i].has == ownID {
						records[i].has = noID
					}
				}
				current(records, answers)
			}
			c.enter(records, answers)
		}, "the id stays with one of two records at the same time"},
		"a drop on the previous servers decides": {func(c change, _ int, records []record, answers []dedupe.Answer) {
			current := c.current
			c.current = func(records []record, answers []dedupe.Answer) {
				if records[0].has != dropped {
					current(records, answers)
				}
			}
			c.enter(records, answers)
		}, "a row that the previous servers have lost"},
		"mine on the previous servers decides":                {mineDecides, "a copy of a later record stays one"},
		"only what is new on the previous servers is on both": {mineDecides, "a call that ended in between"},
	} {
		t.Run(name, func(t *testing.T) {
			mutanttest.MustFail(t, func(t testing.TB) { changeCases[m.noticed](newChanging(t, servers, m.enter)) })
		})
	}
}

func mineDecides(c change, _ int, records []record, answers []dedupe.Answer) {
	if records[0].arrival <= c.until {
		if c.previous(records, answers); answers[0].Found == dedupe.Mine {
			return
		}
	}
	c.enter(records, answers)
}
