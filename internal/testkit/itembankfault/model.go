package itembankfault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// This file is the model of claims: the claims that a claimant may have, and the places where an item may be, after a
// request and its result. A State folds requests whose order is known. For requests of several clients at the same
// time, porcupine looks for an order.

// fold returns the states after a request that follows all earlier requests. There are none if the request cannot have
// its result.
func fold[S comparable](states []S, o op, step func(S, op) []S) (all []S) {
	for _, s := range states {
		for _, next := range step(s, o) {
			if !slices.Contains(all, next) {
				all = append(all, next)
			}
		}
	}
	return all
}

// opKind is the kind of a request.
type opKind string

const (
	claimOp    opKind = "claim"
	releaseOp  opKind = "release"
	loadOp     opKind = "load"
	withdrawOp opKind = "withdraw"
	sweepOp    opKind = "sweep"
	sweepDueOp opKind = "sweep what is due"
	confirmOp  opKind = "confirm"
	prolongOp  opKind = "prolong"
	giveUpOp   opKind = "release by the holder"
	replaceOp  opKind = "replace"
	advanceOp  opKind = "advance"
)

// op is one request and its result.
type op struct {
	kind     opKind
	bank     int    // the number of the Bank that gets the request
	campaign string // its name, or the end of it
	claimant string
	items    []string
	forward  time.Duration // how far the request moves the clock forward

	chosen []string // the items that a claim names
	more   []string // the other items of a claim with several

	seen int64   // the end that a prolongation names
	ends []int64 // the ends that a prolongation without an answer may have made, as others saw them

	next granted // the claim that a replacement was answered with; the other fields name the claim to replace

	id                   string // the id of the claim that was granted, or that the client's request names
	item                 string
	endsAt               int64 // milliseconds; 0: never
	replayed, returned   bool
	result               result
	elsewhere            string
	call, done           int64 // when the call began and ended, as places in the order of all events
	clockCall, clockDone int64 // the clock's times then, in milliseconds
}

// granted names the claim of one item that an answer has.
type granted struct {
	id, item string
	endsAt   int64
}

func (o op) String() string {
	return fmt.Sprintf("[%d-%d, clock %d-%d] %s %q %s%v%v %s -> %s %s%v %s %v replayed %t returned %t",
		o.call, o.done, o.clockCall, o.clockDone, o.kind, o.campaign, o.claimant, o.items, o.chosen, o.forward, o.result, o.item, o.more, o.id, o.next, o.replayed, o.returned)
}

// answered returns the request as a claim that was granted: of a replacement, the claim that it was answered with.
func (o op) answered() op {
	if o.kind == replaceOp {
		o.kind, o.id, o.item, o.endsAt, o.more = claimOp, o.next.id, o.next.item, o.next.endsAt, nil
	}
	return o
}

type result string

const (
	ok              result = "ok"
	refused         result = "refused"
	soldOut         result = "sold out"
	elsewhere       result = "claimed elsewhere"
	notFree         result = "item taken"
	alreadyReleased result = "already released"
	noClaim         result = "no claim"
	otherID         result = "another claim"
	isPermanent     result = "confirmed"
	unknown         result = "unknown"

	unexpected result = "unexpected error"
)

// names notes a claim, in a request about it or in an answer.
func (o *op) names(claim itembank.Claim) {
	if o.id, o.endsAt = claim.ID, 0; !claim.EndsAt.IsZero() {
		o.endsAt = claim.EndsAt.UnixMilli()
	}
	if len(claim.Items) > 0 {
		o.item, o.more = claim.Items[0], claim.Items[1:]
	}
}

// grantedBy names a claim of one item.
func grantedBy(claim itembank.Claim) granted {
	var o op
	o.names(claim)
	return granted{o.id, o.item, o.endsAt}
}

// isAbout reports whether a request names the item, or is about a claim that holds it.
func (o op) isAbout(item string) bool {
	return o.item == item || o.next.item == item || slices.Contains(o.more, item) || slices.Contains(o.items, item)
}

// register is the model of one claimant's claim.
type register struct {
	held     bool
	id       string // "": the reply with the claim was lost
	campaign string
	item     string
	endsAt   int64

	over  bool   // a claim was held before
	older string // the id of that claim; "": the reply with it was lost
}

// rules are the rules of a campaign.
type rules struct {
	onEnd itembank.OnEnd
	// stale: for about a second, a claimant may still get an earlier claim as an answer, and a holder a burned item. The
	// documents say so for campaigns that burn items.
	stale bool
	// untold: the model does not know all requests. So an answer may repeat a claim that the model does not know.
	untold bool
	item   string // of stepItem
}

const graceMillis = int64(endGrace / time.Millisecond)

// mayBeClosed reports whether a request may have found the ended claim and closed it.
func mayBeClosed(endsAt int64, o op) bool { return endsAt != 0 && endsAt+graceMillis < o.clockDone }

// releases reports whether a request is a release.
func (o op) releases() bool { return o.kind == releaseOp || o.kind == giveUpOp }

// mayRelease reports whether a release may end a claim with this end. A holder can release only holds.
func mayRelease(o op, endsAt int64) bool { return o.kind == releaseOp || endsAt != 0 }

// stepClaimant plays one request of a claimant.
func (r rules) stepClaimant(s register, o op) []register {
	if r.stale && s.over && o.kind == claimOp && o.replayed && (s.older == o.id || s.older == "") {
		s.older = o.id
		return append([]register{s}, playClaimant(s, o, r)...)
	}
	return playClaimant(s, o, r)
}

// playClaimant plays one request, and records the claim that it ended.
func playClaimant(s register, o op, r rules) []register {
	after := nextOfClaimant(s, o, r)
	for i := range after {
		if n := &after[i]; s.held && (!n.held || n.id != s.id && s.id != "") {
			n.over, n.older = true, s.id
		} else {
			n.over, n.older = s.over, s.older
		}
	}
	return after
}

// nextOfClaimant returns the claims that the claimant may have after a request. There are none if the request cannot
// have its result.
func nextOfClaimant(s register, o op, r rules) []register {
	switch o.kind {
	case claimOp:
		return stepGranted(s, o, r)
	case confirmOp, prolongOp:
		return stepEnd(s, o)
	case replaceOp:
		return stepReplaced(s, o, r)
	}
	return stepReleased(s, o)
}

// free reports whether a request may find the claimant without a claim.
func (s register) free(o op) bool { return !s.held || mayBeClosed(s.endsAt, o) }

// mayBe reports whether the claimant may hold a claim that is repeated.
func (s register) mayBe(granted register) bool {
	lost := s.held && s.id == "" && s.campaign == granted.campaign
	s.over, s.older = false, ""
	return lost || s == granted
}

// stepGranted plays a claim.
func stepGranted(s register, o op, r rules) []register {
	granted := register{held: true, id: o.id, campaign: o.campaign, item: o.item, endsAt: o.endsAt}
	switch o.result {
	case ok:
		untold := r.untold && s.free(o) && s.id != o.id
		if o.replayed && (s.mayBe(granted) || untold) || !o.replayed && s.free(o) {
			return []register{granted}
		}
	case soldOut, notFree, refused:
		if s.free(o) {
			return []register{{}}
		}
	case elsewhere:
		if s.held && s.campaign == o.elsewhere && s.campaign != o.campaign {
			return []register{s}
		}
	default: // unknown
		if s.free(o) {
			soonest := o.clockCall + (historyClaimLife - mostBehind).Milliseconds() // the server's time may be behind
			return []register{s, {}, {held: true, campaign: o.campaign, endsAt: soonest}}
		}
		return []register{s}
	}
	return nil
}

// stepReleased plays a release.
func stepReleased(s register, o op) []register {
	mine := s.id == o.id
	switch o.result {
	case isPermanent:
		if s.held && mine && s.endsAt == 0 {
			return []register{s}
		}
	case ok:
		if s.held && mine && mayRelease(o, s.endsAt) {
			return []register{{}}
		}
	case alreadyReleased:
		if !mine {
			return []register{s}
		}
		if s.free(o) {
			return []register{{}}
		}
	default: // the reply was lost
		if mine && mayRelease(o, s.endsAt) {
			return []register{s, {}}
		}
		return []register{s}
	}
	return nil
}

// endsAfter returns the ends that the claim of a confirmation or prolongation may have after it, if it had this end.
// There are none if the request cannot have its answer.
func (o op) endsAfter(end int64) []int64 {
	moves := o.kind == prolongOp && end == o.seen // and not a claim that is confirmed, or was prolonged before
	switch {
	case o.kind == confirmOp && o.result == ok:
		return []int64{0}
	case o.kind == confirmOp:
		return []int64{end, 0}
	case moves && o.result == unknown:
		return append([]int64{end}, o.ends...)
	case o.result == unknown || end == o.endsAt:
		return []int64{end}
	case moves && o.endsAt > end:
		return []int64{o.endsAt}
	}
	return nil
}

// stepEnd plays a confirmation or a prolongation of a claimant.
func stepEnd(s register, o op) (after []register) {
	mine := s.held && s.id == o.id
	switch {
	case mine && (o.result == ok || o.result == unknown):
		for _, end := range o.endsAfter(s.endsAt) {
			s.endsAt = end
			after = append(after, s)
		}
		return after
	case o.result == noClaim && s.free(o):
		return []register{{}}
	case o.result == otherID && s.held && !mine && s.campaign == o.campaign,
		o.result == elsewhere && s.held && !mine && s.campaign == o.elsewhere:
		return []register{s}
	case o.result == unknown:
		return []register{s}
	}
	return nil
}

// replaces reports whether a claim with the id next replaced the claim with an id, directly or after others.
func replaces(next, id string) bool { return strings.HasPrefix(next, id+".") }

// stepReplaced plays a replacement of a claimant's claim.
func stepReplaced(s register, o op, r rules) []register {
	mine, later := s.held && s.id == o.id, replaces(s.id, o.id)
	over := s.endsAt != 0 && s.endsAt <= o.clockDone
	next := register{held: true, id: o.next.id, campaign: s.campaign, item: o.next.item, endsAt: o.next.endsAt}
	switch o.result {
	case ok:
		made := mine && next.endsAt == s.endsAt && (!o.replayed || r.untold)
		if replaces(next.id, o.id) && (made || o.replayed && s.mayBe(next)) {
			return []register{next}
		}
	case soldOut:
		if mine {
			return []register{s}
		}
	case noClaim: // an ended claim may wait to be closed
		if over && !s.free(o) {
			return []register{s}
		}
		if s.free(o) {
			return []register{s, {}}
		}
	case otherID:
		if s.held && !mine && !later && s.campaign == o.campaign {
			return []register{s}
		}
	case elsewhere:
		if s.held && !mine && s.campaign == o.elsewhere {
			return []register{s}
		}
	case unknown:
		if mine {
			return []register{s, {held: true, campaign: s.campaign, endsAt: s.endsAt}}
		}
		return []register{s}
	}
	return nil
}

// place says where an item is, as far as clients know. An item in the bank may also be in a claim whose reply was
// lost.
type place struct {
	where  where
	id     string // the id of the claim
	endsAt int64
	marked bool // it was withdrawn while a claim held it, and ends with the claim
}

type where int

const (
	notLoaded where = iota
	inBank
	held
	ended
)

// stepItem plays one request for an item. It returns the places where the item may be then. There are none if the
// request cannot have its result.
func (r rules) stepItem(s place, o op) []place {
	switch {
	case o.kind == loadOp:
		return stepLoadedItem(s, o)
	case o.kind == claimOp:
		return stepClaimedItem(s, o, r)
	case o.kind == confirmOp || o.kind == prolongOp:
		return stepItemEnd(s, o, r)
	case o.kind == replaceOp && o.next.item == r.item:
		return stepClaimedItem(s, o.answered(), r)
	case o.kind == replaceOp:
		return stepReplacedItem(s, o, r)
	case o.releases():
		return stepReleasedItem(s, o, r)
	case o.kind == withdrawOp:
		return stepWithdrawnItem(s, o, r)
	}
	return nil
}

var (
	freeItem = place{where: inBank}
	overItem = place{where: ended}
)

// after returns the item's place after its claim has ended.
func (s place) after(r rules) place {
	if r.onEnd == itembank.Burn || s.marked {
		return overItem
	}
	return freeItem
}

// closable reports whether a request may find the item's claim ended, and close it.
func (s place) closable(o op) bool { return s.where == held && mayBeClosed(s.endsAt, o) }

// available reports whether a request may find the item free.
func (s place) available(o op, r rules) bool {
	return (s.where == inBank || s.closable(o) && r.onEnd == itembank.Return) && !s.marked
}

// heldFor reports whether the item is in the claim that a request names.
func (s place) heldFor(o op) bool { return s.where == held && s.id == o.id }

// stepLoadedItem plays a load.
func stepLoadedItem(s place, o op) []place {
	switch {
	case s.where != notLoaded:
		return []place{s}
	case o.result == ok:
		return []place{freeItem}
	}
	return []place{s, freeItem}
}

// stepClaimedItem plays a claim that holds the item.
func stepClaimedItem(s place, o op, r rules) []place {
	lost := s.where == inBank && o.replayed // the claim was made, and its reply was lost
	switch same := s.heldFor(o) && s.endsAt == o.endsAt; {
	case s.available(o, r) || lost || same:
		return []place{{held, o.id, o.endsAt, s.marked}}
	case r.stale && s.where == ended && o.replayed:
		return []place{s}
	}
	return nil
}

// stepReleasedItem plays a release of a claim on the item.
func stepReleasedItem(s place, o op, r rules) []place {
	mine, after := s.heldFor(o), s.after(r)
	released := mine && mayRelease(o, s.endsAt)
	switch o.result {
	case isPermanent:
		if mine && s.endsAt == 0 {
			return []place{s}
		}
	case ok:
		if released && (len(o.more) > 0 || o.returned == (after == freeItem)) {
			return []place{after}
		}
	case alreadyReleased:
		if !mine {
			return []place{s}
		}
		if s.closable(o) {
			return []place{after}
		}
	default: // the reply was lost
		if released {
			return []place{s, after}
		}
		return []place{s}
	}
	return nil
}

// stepWithdrawnItem plays a withdrawal of the item.
func stepWithdrawnItem(s place, o op, r rules) []place {
	switch {
	case o.result == ok && s.available(o, r):
		return []place{overItem}
	case o.result == ok:
		return nil
	case s.where != inBank && s.where != held:
		return []place{s}
	}
	// A claim holds the item, or held it until it ended. The reply with that claim may have been lost.
	marked := s
	marked.marked = true
	next := []place{marked}
	if o.result == unknown {
		next = append(next, s)
	}
	if s.where == inBank || s.closable(o) {
		next = append(next, overItem)
	}
	if s.available(o, r) && s.where == held { // a claim whose reply was lost may have closed that claim and taken the item
		next = append(next, place{where: inBank, marked: true})
	}
	return next
}

// stepItemEnd plays a confirmation or a prolongation of a claim on the item.
func stepItemEnd(s place, o op, r rules) (after []place) {
	mine := s.heldFor(o)
	switch {
	case mine && (o.result == ok || o.result == unknown):
		for _, end := range o.endsAfter(s.endsAt) {
			after = append(after, place{held, o.id, end, s.marked})
		}
		return after
	case o.result == ok:
		return nil
	case o.result != unknown && mine && s.closable(o):
		return []place{s.after(r)}
	case o.result != unknown && mine:
		return nil
	}
	return []place{s}
}

// stepReplacedItem plays a replacement of a claim on the item. The item ends, also where items return.
func stepReplacedItem(s place, o op, r rules) []place {
	mine := s.heldFor(o)
	over := s.endsAt != 0 && s.endsAt <= o.clockDone
	switch {
	case o.result == ok && !o.replayed && mine:
		return []place{overItem}
	case o.result == ok && !o.replayed, o.result == soldOut && !mine:
		return nil
	case o.result == unknown && mine:
		return []place{s, overItem}
	case o.result == noClaim && mine && over && s.closable(o):
		return []place{s, s.after(r)}
	case o.result == soldOut, o.result == noClaim && mine && over, !mine:
		return []place{s}
	case s.closable(o):
		return []place{s.after(r)}
	}
	return nil
}
