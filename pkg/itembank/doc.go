// Package itembank hands every item of a bank to exactly one claimant, and
// gives every claimant the same item however often they ask.
//
// An item is any string handed out at most once: a voucher code, a seat, one of
// the first 1,000 places. A campaign is a named bank of items with its rules.
// A claimant is whoever asks; in a scope, which several campaigns may share, a
// claimant holds at most one claim.
//
//	store, err := sqlitestore.Open(ctx, "codes.db")
//	...
//	bank := itembank.New(store)
//	grant, err := bank.Claim(ctx, "spring", "customer-17")
//
// # Guarantees
//
// At no moment do two claims of a campaign hold one item. A claimant gets the
// same item on every call until it is released or ends, also when the bank is
// empty or the campaign closed. Loading a file again, resuming after a crash, or
// two loaders at once add each item once. Sold out is an answer, not an error, and
// is never given to a call that starts more than a second after an item was
// committed to the bank.
//
// # How
//
// Bank.Claim picks a candidate from a shuffled page of the bank and asks the
// store for one transaction: delete the candidate if it is there, put the claim
// if the claimant has none. Nothing else decides; pages, copies of rules and
// the memory of empty shards only save requests. So a crash, a lost reply or a
// second process at any point leaves either both writes or neither, and asking
// again finds what was done.
//
// # Not promised
//
// That a claimant who got an item also saw it: the reply can be lost after the
// write, and asking again brings the same item. Any order in which items are
// handed out. That two claimant names are one person.
//
// Where items are burned and Store.HeldClaimEventuallyConsistent may be a little old, that a call just
// after a claim was released or closed sees it: it may answer with the claim that
// was, and its burned item, which nobody else has.
//
// # Engines
//
// Package dynamostore is for production, package sqlitestore for one machine,
// development and tests. An engine implements Store and passes the suite in
// package itembanktest.
package itembank
