// Package itembank hands out the items of a bank so that no item is held by two claimants, and
// gives every claimant the same item however often they ask.
//
// An item is a text that one claimant holds at a time: a voucher code, a seat, one of the first 1,000 places. A
// campaign is a named bank of items with its rules. A claimant is the name of a customer who asks for an item. In a
// scope, which several campaigns can share, a claimant holds at most one claim.
//
// # Use
//
//	store, err := sqlitestore.Create(ctx, "codes.db")
//	...
//	defer store.Close()
//
//	bank := itembank.NewOperator(store)
//	_, _, err = bank.CreateCampaign(ctx, "spring", itembank.Settings{})
//	_, err = bank.Load(ctx, "spring", itembank.Items("SAVE-10", "SAVE-11"), nil)
//	grant, err := bank.Claim(ctx, "spring", "customer-17")
//	// grant.Claim.Items[0] is the customer's code, on every call.
//
// Package sqlitestore keeps campaigns in a file, for one machine. Package dynamostore
// keeps them in DynamoDB, for AWS Lambda and fleets. Package claimapi serves a Bank over
// HTTP.
//
// A [Bank] serves claimants: it claims, confirms, releases holds and looks claims up. An [Operator] manages campaigns:
// it creates, loads, sweeps, reconciles and repairs them. An Operator has a Bank, so that one value does both. A server
// that only answers claimants makes a Bank with [New].
//
// Calls return errors of four families: [ErrInvalid] (correct the input), [ErrRefused] (the
// answer is no), [ErrTryAgain] (repeat the call) and [ErrInconsistent] (run Reconcile).
//
// # Guarantees
//
//   - At no moment do two claims of a campaign hold one item.
//   - A claimant gets the same item on every call until the claim is released or ends, also
//     when no item is left or the campaign is closed.
//   - At rest, every item that was loaded is in exactly one place: in the bank, in a claim,
//     or ended (burned, expired or withdrawn; after a repair also lost). [Operator.Reconcile] checks it
//     item by item, also on a live campaign.
//   - Loading a file again, resuming an interrupted load, and several loads at once add each
//     item once.
//   - "Sold out" is never the answer to a call that starts more than a second after an item
//     was committed to the bank.
//
// docs/guarantees.md names the tests of each.
//
// # Crashes and repeats
//
// A claim is one transaction of the store: delete the item from the bank if it is there,
// and put the claim if the claimant has none. Nothing else decides who gets an item. A
// crash, a lost reply or a second process leaves both writes or neither. So every method
// of a Bank and of an Operator is safe to repeat after any error, and then finds what the first call did.
//
// Pages of free items, copies of rules and the memory of empty shards only save requests.
// Any number of Banks in any number of processes can work on one store.
//
// A Claim whose claimant holds an item of the campaign returns it, whatever fails, as long as the
// claim can be read. Where a store has lost claims, as after a restore, [Operator.Replay] puts them
// back, and a campaign that [Operator.CloseUntilReconciled] closed opens only when nothing is wrong.
//
// # The life of an item
//
// [Operator.Load] puts an item into the bank. [Bank.Claim] moves it into a claim.
// [Operator.Release] and the end of a claim move it back, or end it: the campaign's [OnEnd]
// decides. An item whose own life (Settings.ItemLife) is over expires. [Operator.Withdraw] ends
// free items, and held ones when their claims end. An item that ended is neither handed out nor
// loaded again.
//
// A claim that has a life (Settings.ClaimLife) belongs to its claimant until it is closed, at
// least 10 seconds after its end. A request closes the ended claim of its own claimant. Where items
// return, a request that finds the bank empty closes a few claims that are due.
// [Operator.SweepDue] closes all claims that are due; it finds them through an index. [Operator.Sweep]
// reads all claims and the whole bank.
//
// # Holds
//
// In a campaign with Settings.Hold a claim is a hold: it goes back to the bank unless
// [Bank.Confirm] makes it permanent. A shop holds a seat for 15 minutes, and confirms it when the
// customer has paid.
//
//	bank.CreateCampaign(ctx, "concert", itembank.Settings{Hold: 15 * time.Minute})
//	...
//	grant, err := bank.Claim(ctx, "concert", "customer-17") // grant.Claim.EndsAt is in 15 minutes
//	_, err = bank.Confirm(ctx, "concert", "customer-17", grant.Claim.ID)
//
// The claim row decides, not the clock: a hold can be confirmed until it is closed, also after its end. A Confirm that
// fails with ErrNoClaim, ErrClaimEnded or ErrNotEligible came too late; the item may belong to another claimant. After
// ErrClaimEnded, read the claim: if its FirstID is the id that was paid, Replace has made it, and it is to be confirmed.
// Confirm and every other call name the claim by its id, so that a late call never touches a later claim of the same
// claimant.
//
// [Bank.Prolong] gives a hold more time, in a campaign with Settings.MaxHold, which limits it.
//
// [Bank.ReleaseHold] is for holders: it ends a hold before its end, and refuses a confirmed claim.
// [Operator.Release] is for operators: it ends any claim.
//
// # Limits
//
//   - Names of campaigns and scopes: 1 to 63 of a-z, 0-9 and -, not beginning with -.
//   - Claimants: 1 to 256 bytes of UTF-8 without control characters. Items: 1 to 512. Which claimants
//     are the same one is fixed with a scope ([ClaimantAs]).
//   - Claims of a claimant in a campaign with a scope of its own: 1 to 100, each in a slot that the
//     caller names ([InSlot]).
//   - Items of a claim: one, or up to 20 that the caller names where the campaign allows it ([Choosing]).
//   - Shards of a bank: 1 to 256. On DynamoDB a shard takes about 500 claims a second.
//   - [Operator.OpenCampaign] and [Operator.CloseCampaign] reach other Banks within
//     [DefaultCampaignCache].
//   - A [Operator.Load] that adds items to a campaign that burns them and was ever sold out waits six
//     seconds before the first, until no Bank believes that the bank is empty.
//   - Where items return, each Bank that is asked reads every shard once a second while the campaign
//     is sold out.
//   - Claims end by the store's time where the store has a clock (DynamoDB), so that a machine
//     whose clock is wrong does no harm. A SQLite file is used by one machine, whose clock counts;
//     it must not be set back or ahead by more than 10 seconds while claims have a life.
//
// # Not promised
//
//   - That a claimant has seen the item. The reply can be lost after the write; asking again
//     returns the same item.
//   - An order in which items are handed out.
//   - That a text is an item of one campaign only. Two campaigns are two banks: each hands out
//     the items that were loaded into it, also if the other one has the same.
//   - That two claimant names are two people, or that a person has one.
//   - On DynamoDB, where items are burned: that a call within about a second of a release sees it.
//     It can return the released claim and its burned item, which no other claimant has.
//
// # Files
//
// The files whose names begin with operator_ belong to Operator. To follow a claim, read claim.go and the files that it
// leads to: freelist.go and shardscan.go (find a free item), search.go, soldout.go and emptyshards.go (none is free),
// choice.go (the claimant chooses), confirm.go, release.go and due.go (a claim ends). None of them calls an Operator.
//
// # Engines
//
// A store implements the contract in package engine, which is for authors of engines and
// not stable.
package itembank
