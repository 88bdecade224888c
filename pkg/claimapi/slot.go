package claimapi

import (
	"net/url"
	"strconv"
)

// slotName is the member of a body and the parameter of a query that have the slot of a claim.
const slotName = "slot"

// errSlot refuses a value that is not a slot of any campaign. The Bank knows which slots a campaign has.
var errSlot = badMember(slotName, "is not a whole number from 1")

// slotInQuery returns the slot in the query, in digits, or 1 if there is none.
func slotInQuery(e event) (int, error) {
	text, err := inQuery(e, slotName)
	if err != nil || text == "" {
		return 1, err
	}
	slot, err := strconv.Atoi(text)
	if err != nil || slot < 1 || strconv.Itoa(slot) != text {
		return 0, errSlot
	}
	return slot, nil
}

// inQuery returns a parameter of the query, or "" if there is none.
func inQuery(e event, name string) (string, error) {
	query, err := url.ParseQuery(e.RawQueryString)
	switch {
	case err != nil:
		return "", badMember(name, "cannot be read: the query is not valid")
	case len(query[name]) > 1:
		return "", badMember(name, "occurs more than once")
	}
	return query.Get(name), nil
}
