package itembank

import (
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// placeNamed returns a place by its name: "unknown", "free", "held", "held, withdrawn", "missing" or how the item ended.
// "withdrawn, held" is an item that was withdrawn while it was held, and has ended.
func placeNamed(name string) itemPlace {
	p := itemPlace{loaded: name != "unknown"}
	switch name {
	case "unknown", "free":
	case "missing":
		p.wrong = missing
	case "held", "held, withdrawn":
		p.held, p.withdraw = true, name != "held"
	default:
		state, _, held := strings.Cut(name, ", ")
		p.state, p.withdraw = engine.ItemState(state), held
	}
	return p
}

// DecideItem returns the decision about an item, in words.
func DecideItem(o ReplayOptions, onEnd OnEnd, was, now string) string {
	d := o.decideItem(placeNamed(was), placeNamed(now), onEnd)
	var words []string
	say := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	say(d.end != "", "end as "+string(d.end))
	say(d.add, "add")
	say(d.mark, "mark")
	say(d.withdrawal, "count a withdrawal")
	say(d.load, "count a load")
	say(d.refused != "", "refuse: "+d.refused)
	return strings.Join(words, ", ")
}

// Slot is a slot of a claimant. Now is the id of the claim in the new store, and Was of that in the old store, or "".
// Old is the place of its item there, and Here its place in the new store. Wanted is the place of the item of Was in the
// new store.
type Slot struct {
	Now, Was, Old, Here, Wanted string
	Blocked, Confirmed          bool
}

// DecideClaim returns the decision about a claim of the new store.
func DecideClaim(s Slot) string {
	places := func(name string) []itemPlace { return []itemPlace{placeNamed(name)} }
	slot := slotPlaces{
		its: places(s.Old), here: places(s.Here), wanted: places(s.Wanted), blocked: s.Blocked, confirmed: s.Confirmed,
	}
	if s.Was != "" {
		slot.was = &engine.Claim{ID: s.Was}
	}
	d := decideClaim(engine.Claim{ID: s.Now}, slot)
	switch {
	case d.refused.Outcome != "":
		return "refuse: " + d.refused.Outcome
	case d.close:
		return "close"
	case d.keep:
		return "keep"
	}
	return ""
}

// CloseAs returns how the item of a claim ends that a ReplayStore closes.
func CloseAs(o ReplayOptions, onEnd OnEnd, was string) string {
	if end := o.endOf(placeNamed(was), placeNamed("held"), onEnd); end != "" {
		return string(end)
	}
	return "returned"
}
