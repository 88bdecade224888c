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

// DecideClaim returns the decision about a claim of the new store. was is the id of the claimant's claim in the old
// store, or "". old is the place of its item there, and here its place in the new store. wanted is the place of the item
// of was in the new store.
func DecideClaim(now, was, old, here, wanted string) string {
	var claim *engine.Claim
	if was != "" {
		claim = &engine.Claim{ID: was}
	}
	places := func(name string) []itemPlace { return []itemPlace{placeNamed(name)} }
	d := decideClaim(engine.Claim{ID: now}, claim, places(old), places(here), places(wanted))
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
	if end := o.endOf(placeNamed(was), onEnd); end != "" {
		return string(end)
	}
	return "returned"
}
