package enginetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// model has what a ledger should know of one scope. It follows the answers of the ledger, record by record, and checks
// each. If the window does not decide whether an entry counts, it accepts both answers.
type model struct {
	retention dedupe.Retention
	entered   map[dedupe.Key][]entered
}

// entered is a record whose answer was dedupe.Put.
type entered struct {
	dedupe.Candidate
	derived int
}

// judge returns what is wrong with an answer. Its errors name the guarantees of docs/guarantees.md.
func (m *model) judge(c dedupe.Candidate, a dedupe.Answer, keepIDs bool) error {
	if a.Err != nil || a.Derived < 0 || a.Derived > dedupe.MaxDerivations {
		return errors.New("this is no decision")
	}
	var same, other, sameInWindow, inWindow bool
	for _, e := range m.entered[format.KeyOf(c.ID)] {
		if e.Owner == c.Owner {
			if want := (dedupe.Answer{Found: dedupe.Mine, Derived: e.derived}); a != want {
				return fmt.Errorf("a record that was entered comes again: want %s (G8, G9)", text(want))
			}
			return nil
		}
		near := m.near(e.Arrival, c.Arrival)
		inWindow = inWindow || near
		if e.Fingerprint == c.Fingerprint {
			same, sameInWindow = true, sameInWindow || near
		} else {
			other = true
		}
	}
	switch a.Found {
	case dedupe.Same:
		if !same {
			return errors.New("no record of this content was entered under this id (G6)")
		}
		return nil
	case dedupe.Other:
		if !other || !keepIDs || a.Derived > 0 {
			return errors.New("the record must get a new id, unless another content keeps the id (G6)")
		}
		if sameInWindow {
			return errors.New("a copy within the window was entered (G7)")
		}
		return nil
	case dedupe.Put:
		return m.put(c, a, sameInWindow, inWindow, other, keepIDs)
	}
	return errors.New("the record was not entered before (G6)")
}

func (m *model) put(c dedupe.Candidate, a dedupe.Answer, sameInWindow, inWindow, other, keepIDs bool) error {
	switch {
	case sameInWindow:
		return errors.New("a copy within the window was entered (G7)")
	case a.Derived == 0 && inWindow:
		return errors.New("two contents within the window get one id")
	case a.Derived > 0 && (!other || keepIDs):
		return errors.New("the id is derived without a reason (G9)")
	}
	if m.entered == nil {
		m.entered = map[dedupe.Key][]entered{}
	}
	m.entered[format.KeyOf(c.ID)] = append(m.entered[format.KeyOf(c.ID)], entered{c, a.Derived})
	return nil
}

// near reports whether an entry must count for a record.
func (m *model) near(a, b time.Time) bool {
	return m.retention.ForGood || a.Sub(b).Abs() <= m.retention.Window
}

// text returns an answer for people.
func text(a dedupe.Answer) string {
	names := map[dedupe.Found]string{dedupe.Put: "put", dedupe.Mine: "mine", dedupe.Same: "same", dedupe.Other: "other"}
	switch name := names[a.Found]; {
	case a.Err != nil:
		return "error " + a.Err.Error()
	case name == "":
		return fmt.Sprintf("answer %d", a.Found)
	case a.Derived > 0:
		return fmt.Sprintf("%s under derived id %d", name, a.Derived)
	default:
		return name
	}
}
