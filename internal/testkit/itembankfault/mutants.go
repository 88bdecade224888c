package itembankfault

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// Mutant is an engine with one broken rule for claims. TestMutants in package itembank proves for each mutant that
// every test in CaughtBy finds it.
type Mutant struct {
	Name string
	// CaughtBy names tests:
	//
	//  - "engine/NAME" is a case of enginetest.
	//  - "scenario/NAME" is a scenario with all its faults.
	//  - "histories" are random histories, which run only if the tests play everything.
	//  - "pairs/NAME" is a pair of commands.
	//  - "half-visible/NAME" is a search on an engine whose transactions become visible row by row.
	//    Its histories and reconcile run only if the tests play everything.
	//  - All others are cases of package itembank.
	CaughtBy []string
	Wrap     func(e enginetest.Engine, clock itembank.Clock) engine.Store
	// aboveFaults: the mutant breaks how a Bank handles slow replies. All others are below the faults.
	aboveFaults bool
}

// Mutants are all mutants of claims.
var Mutants = []Mutant{
	{
		Name:     "no-existence-condition",
		CaughtBy: []string{"claims/stale-page"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &noExistenceCondition{Store: e.Store, raw: e.Raw}
		},
	},
	{
		Name:     "claim-put-unconditionally",
		CaughtBy: []string{"claims/one-item-for-each-claimant"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &unconditionalPut{Store: e.Store, raw: e.Raw}
		},
	},
	{
		Name:     "claim-checked-and-then-put",
		CaughtBy: []string{"engine/take-race-for-claimant"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &checkThenPut{unconditionalPut: unconditionalPut{Store: e.Store, raw: e.Raw}, second: make(chan struct{})}
		},
	},
	{
		Name:     "owner-in-the-condition",
		CaughtBy: []string{"scenario/repeated-claim", "histories"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &ownerInCondition{Store: e.Store, raw: e.Raw}
		},
	},
	{
		Name:     "item-gone-read-first",
		CaughtBy: []string{"claims/repeated-claim-with-a-lost-candidate"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return itemGoneFirst{e.Store} },
	},
	{
		Name:     "token-that-recurs",
		CaughtBy: []string{"scenario/release-and-claim-again", "histories"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &recurringToken{Store: e.Store, done: map[string]bool{}}
		},
	},
	{
		Name:     "claims-found-by-the-shards-of-the-campaign",
		CaughtBy: []string{"claims/claimed-elsewhere", "scenario/shared-scope", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return shardsOfCampaign{e.Store, e.Raw} },
	},
	{
		Name:     "scope-row-overwritten",
		CaughtBy: []string{"engine/scope-row-decides", "engine/scope-row-decides-a-race", "scenario/campaigns-that-share-a-scope-of-emails"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return scopeOverwritten{e.Store, e.Raw} },
	},
	{
		Name:     "scope-row-of-a-campaign-that-exists",
		CaughtBy: []string{"engine/scope-of-a-campaign-that-exists"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return scopeOfExisting{e.Store} },
	},
	{
		Name:     "slots-are-one",
		CaughtBy: []string{"engine/slots-are-claims-of-their-own", "scenario/claims-in-slots", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return slotsAreOne{e.Store} },
	},
	{
		Name:     "next-free-slot",
		CaughtBy: []string{"engine/slots-are-claims-of-their-own", "scenario/claims-in-slots", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return nextFreeSlot{e.Store} },
	},
	{
		Name:     "close-in-the-first-slot",
		CaughtBy: []string{"engine/slots-are-closed-one-by-one", "scenario/claims-in-slots", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closeInFirstSlot{e.Store} },
	},
	{
		Name:     "block-overwritten-by-a-claim",
		CaughtBy: []string{"engine/block-keeps-claims-out", "blocks/blocked-claimant-gets-nothing", "scenario/forgotten"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return blockOverwritten{e.Store, e.Raw} },
	},
	{
		Name:     "block-not-read",
		CaughtBy: []string{"engine/block-keeps-claims-out", "blocks/blocked-claimant-gets-nothing", "scenario/forgotten"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return blockNotRead{e.Store} },
	},
	{
		Name:     "block-in-the-first-slot-only",
		CaughtBy: []string{"blocks/forget-blocks-every-slot", "pairs/forget-and-claims", "scenario/forgotten-in-slots"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return blockInFirstSlot{e.Store} },
	},
	{
		Name:     "block-after-the-claim-is-deleted",
		CaughtBy: []string{"half-visible/claims-during-a-forget", "pairs/forget-and-claims"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return blockInSecondStep{e.Store} },
	},
	{
		Name:     "blocks-are-counted",
		CaughtBy: []string{"engine/block-keeps-claims-out", "engine/block-replaces-a-claim", "blocks/readers-pass-over-blocks"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return blocksCounted{e.Store} },
	},
	{
		Name:     "chosen-items-that-are-left",
		CaughtBy: []string{"engine/take-items-all-or-none", "choice/all-or-none", "scenario/several-chosen-items", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return chosenInPart{e.Store} },
	},
	{
		Name:     "chosen-items-one-by-one",
		CaughtBy: []string{"engine/take-items-all-or-none", "choice/all-or-none", "scenario/several-chosen-items"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return chosenOneByOne{e.Store, e.Raw} },
	},
	{
		Name:     "first-item-closed",
		CaughtBy: []string{"engine/close-claim-of-several-items", "choice/release-and-end", "scenario/several-chosen-items", "scenario/several-chosen-items-that-end", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return firstItemClosed{e.Store} },
	},
	{
		Name:     "lists-of-items-not-read",
		CaughtBy: []string{"choice/reconcile-and-repair", "scenario/several-chosen-items-repaired"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return listsNotRead{e.Store} },
	},
	{
		Name:     "columns-of-another-item",
		CaughtBy: []string{"engine/columns-of-each-item", "columns/come-back-with-the-item", "scenario/items-with-columns", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return columnsOfAnother{e.Store} },
	},
	{
		Name:     "columns-of-the-latest-load",
		CaughtBy: []string{"engine/columns-of-each-item", "columns/first-load-decides"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return columnsOfLatest{e.Store, e.Raw} },
	},
	{
		Name: "columns-lost-with-a-claim",
		CaughtBy: []string{
			"engine/columns-stay-when-an-item-moves", "columns/come-back-with-the-item", "scenario/items-with-columns",
			"scenario/several-chosen-items", "histories",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return columnsLost{e.Store, e.Raw, true} },
	},
	{
		Name: "columns-lost-by-a-repair",
		CaughtBy: []string{
			"engine/columns-stay-when-an-item-moves", "scenario/items-with-columns-repaired", "scenario/claims-restored-and-replayed",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return columnsLost{e.Store, e.Raw, false} },
	},
	{
		Name:     "item-row-forgotten",
		CaughtBy: []string{"loads/claimed-items-are-known", "pairs/load-and-load"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return itemRowForgotten{e.Store, e.Raw} },
	},
	{
		Name:     "sold-out-remembered-too-long",
		CaughtBy: []string{"claims/sold-out-ends-with-a-load"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &longMemory{Store: e.Store, empty: map[engine.Shard]bool{}}
		},
	},
	{
		Name:     "sold-out-remembered-from-the-end-of-the-read",
		CaughtBy: []string{"scenario/loaded-while-the-bank-is-read", "histories"},
		Wrap: func(e enginetest.Engine, clock itembank.Clock) engine.Store {
			return &lateMemory{Store: e.Store, clock: clock, empty: map[engine.Shard]time.Time{}}
		},
		aboveFaults: true,
	},
	{
		Name:     "mark-as-empty-whatever-the-version",
		CaughtBy: []string{"engine/mark-as-empty-needs-the-version", "pairs/load-and-give-up"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return markAtAnyVersion{e.Store} },
	},
	{
		Name:     "loads-are-not-announced",
		CaughtBy: []string{"engine/version-is-counted-up", "pairs/load-and-load-of-the-same-file"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return countedUpOnce{e.Store} },
	},
	{
		Name:     "own-item-row-is-known-at-once",
		CaughtBy: []string{"half-visible/load-repeated"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return ownRowTrusted{e.Store} },
	},
	{
		Name:     "load-ends-before-the-version-is-counted-up",
		CaughtBy: []string{"loads/given-up-while-a-container-asks"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &givenUpInAnotherOrder{Store: e.Store}
		},
	},
	{
		Name:     "version-is-counted-up-before-the-drain-time",
		CaughtBy: []string{"loads/given-up-while-a-container-asks"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &givenUpInAnotherOrder{Store: e.Store, versionFirst: true}
		},
	},
	{
		Name: "load-ends-before-the-drain-time",
		CaughtBy: []string{
			"loads/given-up-while-a-container-asks", "half-visible/load-given-up", "half-visible/repair-repeated",
			"engine/load-that-is-given-up",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return givenUpAtOnce{e.Store} },
	},
	{
		Name: "load-goes-on-after-it-is-given-up",
		CaughtBy: []string{
			"adding/repair-was-suspended-and-taken-for-killed",
			"adding/replay-was-suspended-and-taken-for-killed", "engine/load-that-is-given-up", "pairs/load-and-give-up",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return givenUpIgnored{e.Store} },
	},
	{
		Name: "repairs-and-replays-without-a-load-row",
		CaughtBy: []string{
			"adding/repair-adds-beside-a-container", "adding/replay-adds-beside-a-container", "half-visible/repair-killed",
			"half-visible/replay-killed",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return addedWithoutRow{e.Store} },
	},
	{
		Name:     "repairs-and-replays-end-before-the-version-is-counted-up",
		CaughtBy: []string{"adding/repair-adds-beside-a-container", "adding/replay-adds-beside-a-container"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return &addedInAnotherOrder{Store: e.Store} },
	},
	{
		Name:     "repairs-share-a-load-row",
		CaughtBy: []string{"half-visible/repair-beside-a-repair"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return addedInOneRow{e.Store} },
	},
	{
		Name: "campaign-replaced-whatever-the-version",
		CaughtBy: []string{
			"engine/replace-campaign-conditions", "changes/change-against-a-change",
			"modes/close-against-everything", "pairs/open-and-close", "pairs/delete-and-load",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return replaceAtAnyVersion{e.Store, true} },
	},
	{
		Name:     "name-of-a-deleted-campaign-stays-out",
		CaughtBy: []string{"engine/deleted-campaigns-are-not-listed", "changes/name-of-a-deleted-campaign"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return &namesTakenOut{Store: e.Store} },
	},
	{
		Name:     "name-taken-out-whatever-the-version",
		CaughtBy: []string{"engine/deleted-campaigns-are-not-listed", "changes/delete-against-a-new-campaign-of-the-name"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &namesTakenOut{Store: e.Store, always: true}
		},
	},
	{
		Name:     "campaign-replaced-whatever-was-marked-as-empty",
		CaughtBy: []string{"engine/replace-campaign-conditions", "changes/change-while-the-bank-is-marked-as-empty"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return replaceAtAnyVersion{e.Store, false} },
	},
	{
		Name:     "first-load-without-the-campaign",
		CaughtBy: []string{"engine/first-load-needs-the-campaign", "pairs/delete-and-load"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return firstLoadUnchecked{e.Store} },
	},
	{
		Name:     "deleted-name-whatever-its-scope",
		CaughtBy: []string{"engine/create-in-place-of-a-deleted-campaign", "changes/deleted-name-against-a-campaign-of-its-scope"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return deletedNameWithoutScope{e.Store} },
	},
	{
		Name:     "deleted-name-whatever-the-row",
		CaughtBy: []string{"engine/create-in-place-of-a-deleted-campaign", "changes/deleted-name-against-a-creation"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return existingNameReplaced{e.Store} },
	},
	{
		Name: "opened-whatever-was-closed",
		CaughtBy: []string{
			"modes/open-against-a-change", "pairs/open-and-close",
			"pairs/close-and-reconcile",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return openedAtAnyVersion{e.Store} },
	},
	{
		Name:     "changes-counted-as-loads",
		CaughtBy: []string{"engine/modes-are-read-as-they-were-written", "modes/by-times-against-a-close", "pairs/open-and-close"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return changesAsLoads{e.Store} },
	},
	{
		Name:     "closed-again-without-a-write",
		CaughtBy: []string{"engine/modes-are-read-as-they-were-written", "modes/by-times-against-a-close", "pairs/open-and-close"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closedOnce{e.Store} },
	},
	{
		Name: "opened-without-reconcile",
		CaughtBy: []string{
			"engine/modes-are-read-as-they-were-written", "reconcile/closed-until-reconciled",
			"pairs/close-and-reconcile",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return conditionNotRead{e.Store} },
	},
	{
		Name:     "page-without-its-campaign",
		CaughtBy: []string{"engine/page-goes-with-its-campaign", "engine/page-against-deletion"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return &pagesNeverDeleted{Store: e.Store} },
	},
	{
		Name:     "close-without-claim-id",
		CaughtBy: []string{"engine/close-claim-conditions", "scenario/release-while-claimed-again", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closeWithoutID{e.Store} },
	},
	{
		Name: "close-whatever-the-end",
		CaughtBy: []string{
			"engine/close-claim-conditions", "engine/confirm-against-close",
			"scenario/hold-confirmed-while-it-is-swept", "pairs/sweep-and-confirm", "pairs/sweep-due-and-confirm",
			"histories",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closeBeforeEnd{e.Store} },
	},
	{
		Name:     "index-entry-trusted",
		CaughtBy: []string{"scenario/hold-that-is-confirmed", "scenario/hold-that-is-prolonged", "histories"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &indexTrusted{Store: e.Store, ends: map[string]time.Time{}}
		},
		aboveFaults: true,
	},
	{
		Name:     "confirm-without-claim-id",
		CaughtBy: []string{"engine/confirm-claim", "scenario/confirmation-of-an-older-hold", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return confirmWithoutID{e.Store} },
	},
	{
		Name:     "prolong-whatever-the-end",
		CaughtBy: []string{"engine/prolong-claim", "scenario/hold-confirmed-while-it-is-prolonged", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return prolongAnyEnd{e.Store, e.Raw} },
	},
	{
		Name:     "prolong-without-claim-id",
		CaughtBy: []string{"engine/prolong-claim"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return prolongWithoutID{e.Store} },
	},
	{
		Name:     "prolong-in-two-steps",
		CaughtBy: []string{"engine/prolong-against-close-and-confirm", "pairs/sweep-due-and-prolong"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return prolongInTwoSteps{e.Store, e.Raw} },
	},
	{
		Name: "holder-release-whatever-the-end",
		CaughtBy: []string{
			"engine/close-claim-conditions", "scenario/hold-confirmed-while-its-holder-releases-it",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return confirmedReleasedByHolder{e.Store} },
	},
	{
		Name:     "confirm-in-two-steps",
		CaughtBy: []string{"engine/confirm-against-close", "pairs/sweep-and-confirm", "pairs/sweep-due-and-confirm"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return confirmInTwoSteps{e.Store, e.Raw} },
	},
	{
		Name: "replaced-whatever-the-end",
		CaughtBy: []string{
			"engine/replace-claim-conditions", "scenario/replaced-while-it-is-confirmed",
			"scenario/replaced-while-it-is-prolonged", "histories",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return replacedWhateverEnd{e.Store} },
	},
	{
		Name:     "replaced-in-two-steps",
		CaughtBy: []string{"engine/replace-claim-conditions", "replaces/meets-other-requests", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return replacedInTwoSteps{e.Store} },
	},
	{
		Name:     "replaced-by-an-item-that-is-taken",
		CaughtBy: []string{"engine/replace-claim-conditions", "replaces/meets-other-requests", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return replacedByTaken{e.Store, e.Raw} },
	},
	{
		Name:     "replaced-item-returned",
		CaughtBy: []string{"engine/replace-claim", "replaces/another-item", "scenario/replaced-where-items-return", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return replacedReturned{e.Store} },
	},
	{
		Name:     "replacement-with-an-id-of-its-own",
		CaughtBy: []string{"engine/replace-claim", "replaces/repeated-with-the-same-id", "scenario/replaced"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return replacedUnderOwnID{e.Store} },
	},
	{
		Name:     "due-always-from-the-first",
		CaughtBy: []string{"engine/due-claims", "due/a-few-after-many-inconsistencies"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return alwaysTheFirstDue{e.Store} },
	},
	{
		Name: "ends-by-the-own-clock",
		CaughtBy: []string{
			"scenario/closer-an-hour-ahead", "scenario/closer-an-hour-behind", "scenario/maker-twenty-minutes-behind", "histories",
		},
		Wrap:        func(e enginetest.Engine, _ itembank.Clock) engine.Store { return ownClock{e.Store} },
		aboveFaults: true,
	},
	{
		Name:     "close-without-the-item-row",
		CaughtBy: []string{"engine/close-claim-conditions"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closeWithoutItemRow{e.Store, e.Raw} },
	},
	{
		Name:     "close-whatever-the-mark",
		CaughtBy: []string{"engine/close-claim-conditions", "scenario/released-while-withdrawn", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closeIgnoringMark{e.Store} },
	},
	{
		Name:     "mark-where-the-item-is-free",
		CaughtBy: []string{"engine/mark-withdrawn", "scenario/withdrawn-while-released"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return markFreeItem{e.Store, e.Raw} },
	},
	{
		Name:     "return-in-a-second-step",
		CaughtBy: []string{"engine/close-claim-with-a-context-that-ends"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return returnInSecondStep{e.Store, e.Raw} },
	},
	{
		Name:     "claims-purged-at-their-end",
		CaughtBy: []string{"expiry/claim-lives-until-it-is-closed", "scenario/own-ended-claim-returned", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return endedDropped{e.Store, e.Raw, 0} },
	},
	{
		Name:     "ended-claim-overwritten",
		CaughtBy: []string{"expiry/ended-claim-is-closed-when-met", "scenario/own-ended-claim-burned", "histories"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return endedDropped{e.Store, e.Raw, endGrace}
		},
	},
	{
		Name:     "sweep-without-grace",
		CaughtBy: []string{"scenario/claim-in-its-grace", "histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return sweepWithoutGrace{e.Store} },
	},
	{
		Name:     "claims-read-row-by-row",
		CaughtBy: []string{"half-visible/last-item-asked-for-twice", "half-visible/seat-passed-on", "half-visible/histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return claimReadPlainly{e.Store} },
	},
	{
		Name:     "claims-read-as-they-were",
		CaughtBy: []string{"half-visible/seat-passed-on", "half-visible/histories"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return claimReadStale{e.Store} },
	},
	{
		Name:     "items-read-row-by-row",
		CaughtBy: []string{"half-visible/load-under-way", "half-visible/columns-under-way", "half-visible/reconcile"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &itemsReadPlainly{Store: e.Store, free: map[engine.Shard]map[engine.Hash]engine.FreeItem{}}
		},
	},
	{
		Name:     "rows-of-an-item-read-one-by-one",
		CaughtBy: []string{"engine/read-items-while-they-change"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return rowsReadOneByOne{e.Store} },
	},
	{
		Name:     "claim-read-in-two-parts",
		CaughtBy: []string{"engine/held-claim-while-it-changes", "engine/list-claims-while-they-change"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return claimReadInTwoParts{e.Store} },
	},
	{
		Name:     "next-page-by-number",
		CaughtBy: []string{"engine/list-claims-in-pages", "engine/list-item-rows-in-pages"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return nextPageByNumber{e.Store} },
	},
	{
		Name:     "items-end-whatever-their-end",
		CaughtBy: []string{"engine/end-items"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return itemsEndedEarly{e.Store} },
	},
	{
		Name:     "seen-items-put-back",
		CaughtBy: []string{"repair/missing-item-that-somebody-saw", "scenario/claims-restored-and-not-known"},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store {
			return &seenItemsPutBack{Store: e.Store, raw: e.Raw, loaded: map[engine.Hash]engine.FreeItem{}}
		},
	},
	{
		Name:     "claim-put-back-whatever-the-item-row",
		CaughtBy: []string{"pairs/replay-and-repair"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return claimPutBackUnchecked{e.Store} },
	},
	{
		Name:     "burns-not-replayed",
		CaughtBy: []string{"replay-store/burned-since-the-copy"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return burnsIgnored{e.Store} },
	},
	{
		Name:     "releases-not-replayed",
		CaughtBy: []string{"replay-store/returned-since-the-copy", "replay-store/claimant-with-another-claim"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closesIgnored{e.Store, true} },
	},
	{
		Name:     "erasures-not-replayed",
		CaughtBy: []string{"replay-store/forgotten-since-the-copy", "replay-store/burned-since-the-copy"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return closesIgnored{e.Store, false} },
	},
	{
		Name:     "blocks-not-replayed",
		CaughtBy: []string{"replay-store/blocked-since-the-copy"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return blocksIgnored{e.Store} },
	},
	{
		Name: "marks-not-read",
		CaughtBy: []string{
			"moved/moved-campaign-stands-still", "moved/restored-campaign-takes-confirmations", "moved/marks-are-seen-in-time",
			"moved/sweep-that-is-overtaken", "moved/ended-claim-of-a-moved-campaign",
		},
		Wrap: func(e enginetest.Engine, _ itembank.Clock) engine.Store { return marksNotRead{e.Store} },
	},
	{
		Name:     "marks-not-listed",
		CaughtBy: []string{"moved/scope-of-a-restored-campaign"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return marksNotListed{e.Store} },
	},
	{
		Name:     "marks-cleared-by-every-change",
		CaughtBy: []string{"moved/marks-stay", "replay-store/mark-is-cleared-at-the-end-only"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return marksCleared{e.Store} },
	},
	{
		Name:     "confirmations-not-replayed",
		CaughtBy: []string{"replay-store/confirmed-since-the-copy"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return confirmationsIgnored{e.Store} },
	},
	{
		Name:     "prolongations-not-replayed",
		CaughtBy: []string{"replay-store/prolonged-since-the-copy"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return prolongationsIgnored{e.Store} },
	},
	{
		Name:     "ended-items-not-put",
		CaughtBy: []string{"replay-store/loaded-since-the-copy"},
		Wrap:     func(e enginetest.Engine, _ itembank.Clock) engine.Store { return endedRowsIgnored{e.Store} },
	},
}

// MustBeFoundBy plays a scenario without a fault and then with each fault. It fails the test if no play finds the
// mutant.
func (m Mutant) MustBeFoundBy(t testing.TB, scenario string, e enginetest.Engine) {
	t.Helper()
	s := mutanttest.Named(t, Scenarios, scenario, func(s Scenario) string { return s.Name })
	counting := &Store{Store: e.Store}
	play := Play{Scenario: s, Engine: e, Through: counting, Random: Seeded(), mutant: &m}
	if err := play.Run(t.Context()); err != nil {
		t.Logf("found without a fault: %s", search.FirstLine(err))
		return
	}
	for n, i := range injections(counting.Calls()) {
		plan, callOver := planOf(i)
		play.Through, play.Random, play.callOver = &Store{Store: e.Store, Plan: plan}, Seeded(), callOver
		if err := play.Run(t.Context()); err != nil {
			t.Logf("found by fault %d, %s: %s", n+1, i, search.FirstLine(err))
			return
		}
	}
	t.Error("survived all faults")
}

// mostHistories is the number of histories after which a mutant counts as not found.
const mostHistories = 20_000

// MustBeFoundByHistories fails the test if random histories do not find the mutant. It skips the test unless the
// tests play everything.
func (m Mutant) MustBeFoundByHistories(t testing.TB, e enginetest.Engine) {
	t.Helper()
	if !search.All() {
		t.Skip("it takes long: " + search.Replay(t))
	}
	search.First(t, mostHistories, func(seed int) error { return playProgram(t.Context(), e, programs.Example(seed), &m) })
}

// noExistenceCondition takes an item even if it is not in the bank: it puts the bank row just before.
type noExistenceCondition struct {
	engine.Store
	raw enginetest.Raw
	mu  sync.Mutex // makes putting and taking one step
}

func (m *noExistenceCondition) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range items {
		if err := m.raw.PutBankRow(ctx, i); err != nil {
			return engine.TakeResult{}, err
		}
	}
	return m.Store.Take(ctx, items, c)
}

// unconditionalPut overwrites the claimant's existing claim.
type unconditionalPut struct {
	engine.Store
	raw enginetest.Raw
	mu  sync.Mutex // makes deleting and putting one step
}

func (m *unconditionalPut) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.raw.DropClaim(ctx, c.Key()); err != nil {
		return engine.TakeResult{}, err
	}
	return m.Store.Take(ctx, items, c)
}

// checkThenPut reads the claim first and then puts it without a condition. It makes two callers both read before
// either of them puts, which can happen on any network.
type checkThenPut struct {
	unconditionalPut
	checked atomic.Int32
	second  chan struct{} // closed when the second caller has read
}

func (m *checkThenPut) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	held, _, err := m.HeldClaim(ctx, c.Key(), engine.Strong)
	if held != nil || err != nil {
		return engine.TakeResult{Held: held}, err
	}
	if m.checked.Add(1) == 2 {
		close(m.second)
	}
	select {
	case <-m.second:
	case <-time.After(10 * time.Second): // there is no second caller
	}
	return m.unconditionalPut.Take(ctx, items, c)
}

// ownerInCondition puts a claim on the condition that no claim exists OR that it belongs to the claimant.
type ownerInCondition struct {
	engine.Store
	raw enginetest.Raw
	mu  sync.Mutex
}

func (m *ownerInCondition) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held, _, err := m.HeldClaim(ctx, c.Key(), engine.Strong)
	if err != nil || held == nil {
		return m.Store.Take(ctx, items, c)
	}
	if err := m.raw.DropClaim(ctx, c.Key()); err != nil {
		return engine.TakeResult{}, err
	}
	result, err := m.Store.Take(ctx, items, c)
	if err != nil || !result.Taken() {
		return result, m.raw.PutClaim(context.WithoutCancel(ctx), *held)
	}
	return result, nil
}

// itemGoneFirst gives "item gone" as the only reason of a failed take.
type itemGoneFirst struct{ engine.Store }

func (m itemGoneFirst) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	result, err := m.Store.Take(ctx, items, c)
	if result.ItemGone {
		result.Held = nil
	}
	return result, err
}

// recurringToken derives the token of a transaction from the items and the claimant. An engine that has seen the
// token answers success and writes nothing.
type recurringToken struct {
	engine.Store
	mu   sync.Mutex
	done map[string]bool
}

func (m *recurringToken) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token := c.Campaign + c.Claimant
	for _, i := range items {
		token += i.Hash.String()
	}
	if m.done[token] {
		return engine.TakeResult{}, nil
	}
	result, err := m.Store.Take(ctx, items, c)
	m.done[token] = err == nil && result.Taken()
	return result, err
}

// shardsOfCampaign finds a claim of another campaign of the scope only if the banks of both have as many shards, as a
// spread of the claims by the shards of the campaign would do. It puts the claim over the one that it does not find.
type shardsOfCampaign struct {
	engine.Store
	raw enginetest.Raw
}

func (m shardsOfCampaign) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	result, err := m.Store.Take(ctx, items, c)
	if err != nil || result.Held == nil || result.Held.Campaign == c.Campaign {
		return result, err
	}
	own, err := m.Campaign(ctx, c.Campaign)
	if err != nil {
		return result, err
	}
	other, err := m.Campaign(ctx, result.Held.Campaign)
	if err != nil || other.Shards == own.Shards {
		return result, err
	}
	if err := m.raw.DropClaim(ctx, c.Key()); err != nil {
		return result, err
	}
	return m.Store.Take(ctx, items, c)
}

// scopeOverwritten creates a campaign without a condition on the row of its scope.
type scopeOverwritten struct {
	engine.Store
	raw enginetest.Raw
}

func (m scopeOverwritten) CreateCampaign(ctx context.Context, c engine.Campaign) (engine.CreateResult, error) {
	result, err := m.Store.CreateCampaign(ctx, c)
	if err != nil || result.Existing != nil || result.Scope == nil {
		return result, err
	}
	if err := m.raw.DropScope(ctx, c.Scope); err != nil {
		return result, err
	}
	return m.Store.CreateCampaign(ctx, c)
}

// scopeOfExisting puts the row of the scope even if the campaign exists. It uses a new campaign name to do so.
type scopeOfExisting struct{ engine.Store }

func (m scopeOfExisting) CreateCampaign(ctx context.Context, c engine.Campaign) (engine.CreateResult, error) {
	result, err := m.Store.CreateCampaign(ctx, c)
	if err == nil && result.Existing != nil {
		other := c
		other.Name += "-nobody"
		_, err = m.Store.CreateCampaign(ctx, other)
	}
	return result, err
}

// slotsAreOne treats all slots of a claimant as one slot.
type slotsAreOne struct{ engine.Store }

func (m slotsAreOne) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	c.Slot = 1
	return m.Store.Take(ctx, items, c)
}

func (m slotsAreOne) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (*engine.Claim, bool, error) {
	key.Slot = 1
	return m.Store.HeldClaim(ctx, key, how)
}

// nextFreeSlot puts a claim into the next free slot if its own slot has a claim.
type nextFreeSlot struct{ engine.Store }

func (m nextFreeSlot) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	result, err := m.Store.Take(ctx, items, c)
	for ; err == nil && result.Held != nil && c.Slot < 3; result, err = m.Store.Take(ctx, items, c) {
		c.Slot++
	}
	return result, err
}

// closeInFirstSlot closes the claim in the first slot if it has the requested id.
type closeInFirstSlot struct{ engine.Store }

func (m closeInFirstSlot) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	r.Claim.Slot = 1
	return m.Store.CloseClaim(ctx, r)
}

// blockOverwritten puts a claim even if the claimant is blocked.
type blockOverwritten struct {
	engine.Store
	raw enginetest.Raw
}

func (m blockOverwritten) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	result, err := m.Store.Take(ctx, items, c)
	if err != nil || result.Held == nil || !result.Held.IsBlock() {
		return result, err
	}
	if err := m.raw.DropClaim(ctx, c.Key()); err != nil {
		return result, err
	}
	return m.Store.Take(ctx, items, c)
}

// blockNotRead reads a block as if its key were absent.
type blockNotRead struct{ engine.Store }

func (m blockNotRead) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (*engine.Claim, bool, error) {
	if how == engine.Eventual {
		return m.Store.HeldClaim(ctx, key, how)
	}
	held, conflict, err := m.Store.HeldClaim(ctx, key, how)
	if held != nil && held.IsBlock() {
		held = nil
	}
	return held, conflict, err
}

// blockInFirstSlot blocks only the first slot of a claimant.
type blockInFirstSlot struct{ engine.Store }

func (m blockInFirstSlot) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if c.IsBlock() && c.Slot > 1 {
		return engine.TakeResult{}, nil
	}
	return m.Store.Take(ctx, items, c)
}

func (m blockInFirstSlot) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if r.Claim.Slot > 1 && r.NextItem == nil {
		r.Next = nil
	}
	return m.Store.CloseClaim(ctx, r)
}

// blockInSecondStep deletes the claim, and puts the block in a second step, after a moment.
type blockInSecondStep struct{ engine.Store }

func (m blockInSecondStep) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	block := r.Next
	if r.NextItem == nil {
		r.Next = nil
	}
	result, err := m.Store.CloseClaim(ctx, r)
	if block == nil || r.Next != nil || err != nil || !result.Closed() {
		return result, err
	}
	time.Sleep(20 * time.Millisecond)
	_, err = m.Take(ctx, nil, *block)
	return result, err
}

// blocksCounted counts blocks as claims of the campaign.
type blocksCounted struct{ engine.Store }

func (m blocksCounted) Counts(ctx context.Context, c engine.Campaign, how engine.Consistency) (engine.Counts, error) {
	counts, err := m.Store.Counts(ctx, c, how)
	for cursor, more := "", true; err == nil && more; more = cursor != "" {
		var claims []engine.Claim
		claims, cursor, err = m.ListClaims(ctx, c.Scope, cursor)
		for _, claim := range claims {
			if claim.IsBlock() {
				counts.Claimed++
			}
		}
	}
	return counts, err
}

// chosenInPart claims only those of the chosen items that are free.
type chosenInPart struct{ engine.Store }

func (m chosenInPart) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if len(items) < 2 {
		return m.Store.Take(ctx, items, c)
	}
	var left []engine.FreeItem
	c.More = ""
	for _, i := range items {
		page, err := m.FreeItems(ctx, i.Shard, engine.Range{}, 1000, engine.Strong)
		if err != nil {
			return engine.TakeResult{}, err
		}
		if !slices.ContainsFunc(page.Items, func(free engine.FreeItem) bool { return free.Hash == i.Hash }) {
			continue
		}
		if left = append(left, i); len(left) == 1 {
			c.Item, c.ItemHash = i.Value, i.Hash
		} else {
			c.More += engine.NewItemList(i.Value)
		}
	}
	if len(left) == 0 {
		return engine.TakeResult{ItemGone: true}, nil
	}
	return m.Store.Take(ctx, left, c)
}

// chosenOneByOne takes the chosen items one after the other, and stops at the first item that is gone.
type chosenOneByOne struct {
	engine.Store
	raw enginetest.Raw
}

func (m chosenOneByOne) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if len(items) < 2 {
		return m.Store.Take(ctx, items, c)
	}
	first := c
	first.More = ""
	result, err := m.Store.Take(ctx, items[:1], first)
	for _, i := range items[1:] {
		if err != nil || !result.Taken() {
			return result, err
		}
		part := c
		part.Claimant, part.Item, part.ItemHash, part.More = c.Claimant+" "+i.Value, i.Value, i.Hash, ""
		if result, err = m.Store.Take(ctx, []engine.FreeItem{i}, part); err == nil && result.Taken() {
			err = m.raw.DropClaim(ctx, part.Key())
		}
	}
	if err == nil && result.Taken() {
		err = m.raw.PutClaim(ctx, c)
	}
	return result, err
}

// firstItemClosed closes only the first item of a claim, as a version of the engine without lists of items would do.
type firstItemClosed struct{ engine.Store }

func (m firstItemClosed) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	r.More = nil
	return m.Store.CloseClaim(ctx, r)
}

// listsNotRead lists only the first item of a claim, as a version of the engine without lists of items would do.
type listsNotRead struct{ engine.Store }

func (m listsNotRead) ListClaims(ctx context.Context, scope, cursor string) ([]engine.Claim, string, error) {
	claims, next, err := m.Store.ListClaims(ctx, scope, cursor)
	for i := range claims {
		claims[i].More = ""
	}
	return claims, next, err
}

// columnsOfAnother gives each item the columns of the next item.
type columnsOfAnother struct{ engine.Store }

func (m columnsOfAnother) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	mixed := slices.Clone(requests)
	for i := range mixed {
		mixed[i].Columns = requests[(i+1)%len(requests)].Columns
	}
	return m.Store.AddItems(ctx, mixed)
}

// columnsOfLatest replaces the columns of a known item by the columns of a later load.
type columnsOfLatest struct {
	engine.Store
	raw enginetest.Raw
}

func (m columnsOfLatest) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	results, err := m.Store.AddItems(ctx, requests)
	for i, result := range results {
		if result.Outcome == engine.AddKnown {
			item := requests[i].Item
			if err := putColumns(ctx, m.Store, m.raw, item.Shard.Campaign, item.Hash, requests[i].Columns); err != nil {
				return nil, err
			}
		}
	}
	return results, err
}

// columnsLost closes claims, or repairs items, and writes item rows without columns, as a version of the engine
// without columns would do.
type columnsLost struct {
	engine.Store
	raw    enginetest.Raw
	closes bool
}

func (m columnsLost) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	result, err := m.Store.CloseClaim(ctx, r)
	for _, item := range r.Items() {
		if m.closes && err == nil && result.Closed() {
			err = putColumns(ctx, m.Store, m.raw, r.Claim.Campaign, item.Hash, "")
		}
	}
	return result, err
}

func (m columnsLost) Repair(ctx context.Context, r engine.RepairRequest) (bool, error) {
	done, err := m.Store.Repair(ctx, r)
	if !m.closes && err == nil && done {
		err = putColumns(ctx, m.Store, m.raw, r.Campaign, r.Hash, "")
	}
	return done, err
}

// putColumns writes the columns of an item.
func putColumns(ctx context.Context, s engine.Store, raw enginetest.Raw, campaign string, h engine.Hash, columns string) error {
	row, err := s.ItemRow(ctx, campaign, h)
	if err != nil || row == nil {
		return err
	}
	row.Columns = columns
	return raw.PutItemRow(ctx, campaign, engine.ListedItem{Hash: h, ItemRow: *row})
}

// itemRowForgotten keeps no item rows.
type itemRowForgotten struct {
	engine.Store
	raw enginetest.Raw
}

func (m itemRowForgotten) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	results, err := m.Store.AddItems(ctx, requests)
	for i, result := range results {
		if result.Outcome == engine.AddDone {
			if err := m.raw.DropItemRow(ctx, requests[i].Item.Shard.Campaign, requests[i].Item.Hash); err != nil {
				return nil, err
			}
		}
	}
	return results, err
}

// longMemory answers "empty" for ever after a shard was empty once.
type longMemory struct {
	engine.Store
	mu    sync.Mutex
	empty map[engine.Shard]bool
}

func (m *longMemory) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	if how == engine.Eventual {
		return m.Store.FreeItems(ctx, s, r, limit, how)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.empty[s] {
		return engine.FreePage{}, nil
	}
	first, err := m.Store.FreeItems(ctx, s, engine.Range{}, 1, engine.Strong)
	if err != nil {
		return first, err
	}
	if len(first.Items) == 0 {
		m.empty[s] = true
	}
	return m.Store.FreeItems(ctx, s, r, limit, how)
}

// lateMemory answers "empty" for a second after the end of a read that found the shard empty. The second must start
// with the read.
type lateMemory struct {
	engine.Store
	clock itembank.Clock
	mu    sync.Mutex
	empty map[engine.Shard]time.Time // the end of that read
}

func (m *lateMemory) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	if how == engine.Eventual {
		return m.Store.FreeItems(ctx, s, r, limit, how)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ended, ok := m.empty[s]; ok && m.clock.Now().Sub(ended) < emptyMemory {
		return engine.FreePage{}, nil
	}
	delete(m.empty, s)
	page, err := m.Store.FreeItems(ctx, s, r, limit, how)
	if err == nil && len(page.Items) == 0 && r.Through != nil {
		m.empty[s] = m.clock.Now()
	}
	return page, err
}

// closeWithoutID closes the claimant's claim, whatever its id is.
type closeWithoutID struct{ engine.Store }

func (m closeWithoutID) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	held, _, err := m.HeldClaim(ctx, r.Claim.Key(), engine.Strong)
	if err == nil && held != nil {
		r.Claim.ID = held.ID
	}
	return m.Store.CloseClaim(ctx, r)
}

// markAtAnyVersion marks the campaign as empty at its current version, not at the requested version.
type markAtAnyVersion struct{ engine.Store }

func (m markAtAnyVersion) MarkEmpty(ctx context.Context, campaign string, _ int64) (bool, error) {
	c, err := m.Campaign(ctx, campaign)
	if err != nil || c == nil {
		return false, err
	}
	return m.Store.MarkEmpty(ctx, campaign, c.Version)
}

// countedUpOnce counts up the version of a campaign for its first load only.
type countedUpOnce struct{ engine.Store }

func (m countedUpOnce) NextVersion(ctx context.Context, campaign string) (*engine.Campaign, error) {
	c, err := m.Campaign(ctx, campaign)
	if err != nil || c == nil || c.Version > 0 {
		return c, err
	}
	return m.Store.NextVersion(ctx, campaign)
}

// ownRowTrusted takes an item row that names the request for a sign that the item was added, even if the transaction that
// adds it is visible only in part.
type ownRowTrusted struct{ engine.Store }

func (m ownRowTrusted) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	results, err := m.Store.AddItems(ctx, requests)
	for i, result := range results {
		if result.Outcome != engine.AddUnsettled {
			continue
		}
		row, err := m.ItemRow(ctx, requests[i].Item.Shard.Campaign, requests[i].Item.Hash)
		if err != nil {
			return nil, err
		}
		if isOwnRow(row, requests[i]) {
			results[i] = engine.AddResult{Outcome: engine.AddKnown, Existing: *row}
		}
	}
	return results, err
}

// givenUpInAnotherOrder exchanges two steps of the command that gives a load up. It ends the load where it should count
// up the version, and counts up at the end. With versionFirst it counts up when the load is marked, and not later.
type givenUpInAnotherOrder struct {
	engine.Store
	versionFirst bool
	mu           sync.Mutex
	marked       *engine.Load
}

func (m *givenUpInAnotherOrder) UpdateLoad(ctx context.Context, l engine.Load) (bool, error) {
	if !l.GivenUp {
		return m.Store.UpdateLoad(ctx, l)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.Finished && !m.versionFirst {
		_, err := m.Store.NextVersion(ctx, l.Campaign)
		return false, err
	}
	over, err := m.Store.UpdateLoad(ctx, l)
	if err == nil && !over && !l.Finished {
		m.marked = &l
		if m.versionFirst {
			_, err = m.Store.NextVersion(ctx, l.Campaign)
		}
	}
	return over, err
}

func (m *givenUpInAnotherOrder) NextVersion(ctx context.Context, campaign string) (*engine.Campaign, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marked == nil || m.marked.Campaign != campaign {
		return m.Store.NextVersion(ctx, campaign)
	}
	end := *m.marked
	if m.marked = nil; !m.versionFirst {
		end.Finished = true
		if _, err := m.Store.UpdateLoad(ctx, end); err != nil {
			return nil, err
		}
	}
	return m.Campaign(ctx, campaign)
}

// givenUpAtOnce ends a load as soon as it is given up.
type givenUpAtOnce struct{ engine.Store }

func (m givenUpAtOnce) UpdateLoad(ctx context.Context, l engine.Load) (bool, error) {
	l.Finished = l.Finished || l.GivenUp
	return m.Store.UpdateLoad(ctx, l)
}

// givenUpIgnored does not tell a run of a load that the load was given up.
type givenUpIgnored struct{ engine.Store }

func (m givenUpIgnored) UpdateLoad(ctx context.Context, l engine.Load) (bool, error) {
	refused, err := m.Store.UpdateLoad(ctx, l)
	return refused && l.GivenUp, err
}

// addsOutsideLoads reports whether a repair or a replay began a load row.
func addsOutsideLoads(l engine.Load) bool {
	return strings.HasPrefix(l.Digest, "repair-") || strings.HasPrefix(l.Digest, "replay-")
}

// addedWithoutRow puts no load row for repairs and replays.
type addedWithoutRow struct{ engine.Store }

func (m addedWithoutRow) StartLoad(ctx context.Context, l engine.Load, first bool) (started, conflict bool, err error) {
	if addsOutsideLoads(l) {
		return true, false, nil
	}
	return m.Store.StartLoad(ctx, l, first)
}

func (m addedWithoutRow) UpdateLoad(ctx context.Context, l engine.Load) (bool, error) {
	if addsOutsideLoads(l) && !l.GivenUp {
		return false, nil
	}
	return m.Store.UpdateLoad(ctx, l)
}

// addedInAnotherOrder finishes the load row of a repair or a replay where it should count up the version for the second
// time, and counts up afterwards.
type addedInAnotherOrder struct {
	engine.Store
	mu      sync.Mutex
	row     *engine.Load
	counted bool // for the first time
}

func (m *addedInAnotherOrder) StartLoad(ctx context.Context, l engine.Load, first bool) (started, conflict bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if addsOutsideLoads(l) {
		m.row, m.counted = &l, false
	}
	return m.Store.StartLoad(ctx, l, first)
}

func (m *addedInAnotherOrder) NextVersion(ctx context.Context, campaign string) (*engine.Campaign, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.row == nil || !m.counted {
		m.counted = true
		return m.Store.NextVersion(ctx, campaign)
	}
	end := *m.row
	end.Finished = true
	if _, err := m.Store.UpdateLoad(ctx, end); err != nil {
		return nil, err
	}
	return m.Campaign(ctx, campaign)
}

func (m *addedInAnotherOrder) UpdateLoad(ctx context.Context, l engine.Load) (bool, error) {
	if !l.Finished || l.GivenUp || !addsOutsideLoads(l) {
		return m.Store.UpdateLoad(ctx, l)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.row = nil
	_, err := m.Store.NextVersion(ctx, l.Campaign)
	return false, err
}

// addedInOneRow has one load row for all repairs and replays. A run goes on with the row of another one, and finishes it.
type addedInOneRow struct{ engine.Store }

// shared returns the row that is not finished, or else the next one.
func (m addedInOneRow) shared(ctx context.Context, l engine.Load) (engine.Load, error) {
	l.Digest = l.Digest[:len("repair-")] + "all"
	latest, err := m.LatestLoad(ctx, l.Campaign, l.Digest)
	if err == nil && latest != nil {
		if l.Number = latest.Number; latest.Finished {
			l.Number++
		}
	}
	return l, err
}

func (m addedInOneRow) StartLoad(ctx context.Context, l engine.Load, first bool) (started, conflict bool, err error) {
	if !addsOutsideLoads(l) {
		return m.Store.StartLoad(ctx, l, first)
	}
	if l, err = m.shared(ctx, l); err != nil {
		return false, false, err
	}
	_, _, err = m.Store.StartLoad(ctx, l, first)
	return true, false, err
}

func (m addedInOneRow) UpdateLoad(ctx context.Context, l engine.Load) (bool, error) {
	if l.GivenUp {
		return m.giveUpLoad(ctx, l)
	}
	if !addsOutsideLoads(l) {
		return m.Store.UpdateLoad(ctx, l)
	}
	row, err := m.shared(ctx, l)
	if err != nil {
		return false, err
	}
	if latest, err := m.LatestLoad(ctx, row.Campaign, row.Digest); err != nil || latest == nil || latest.Finished {
		return false, err
	}
	return m.Store.UpdateLoad(ctx, row)
}

func (m addedInOneRow) giveUpLoad(ctx context.Context, l engine.Load) (bool, error) {
	if addsOutsideLoads(l) && !l.Finished { // it is not marked, so that a run at work goes on with it
		return false, nil
	}
	return m.Store.UpdateLoad(ctx, l)
}

// replaceAtAnyVersion replaces a campaign row whose EmptyVersion has changed, or also its Version.
type replaceAtAnyVersion struct {
	engine.Store
	version bool
}

func (m replaceAtAnyVersion) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	c, err := m.Campaign(ctx, now.Name)
	if err != nil || c == nil {
		return false, err
	}
	if old.EmptyVersion = c.EmptyVersion; m.version {
		old.Version = c.Version
	}
	return m.Store.ReplaceCampaign(ctx, old, now)
}

// deletedNameWithoutScope uses the name of a deleted campaign again, and does not create the row of the new scope.
type deletedNameWithoutScope struct{ engine.Store }

func (m deletedNameWithoutScope) CreateCampaign(ctx context.Context, c engine.Campaign) (engine.CreateResult, error) {
	old, err := m.Campaign(ctx, c.Name)
	if err == nil && old != nil && old.CanBecome(c) {
		_, err = m.ReplaceCampaign(ctx, *old, c)
		return engine.CreateResult{}, err
	}
	return m.Store.CreateCampaign(ctx, c)
}

// existingNameReplaced replaces any campaign row by the next version of the campaign.
type existingNameReplaced struct{ engine.Store }

func (m existingNameReplaced) CreateCampaign(ctx context.Context, c engine.Campaign) (engine.CreateResult, error) {
	result, err := m.Store.CreateCampaign(ctx, c)
	if err != nil || result.Existing == nil || c.Version == 0 {
		return result, err
	}
	_, err = m.ReplaceCampaign(ctx, *result.Existing, c)
	return engine.CreateResult{}, err
}

// firstLoadUnchecked starts the first load of a campaign as it starts all other loads.
type firstLoadUnchecked struct{ engine.Store }

func (m firstLoadUnchecked) StartLoad(ctx context.Context, l engine.Load, _ bool) (started, conflict bool, err error) {
	return m.Store.StartLoad(ctx, l, false)
}

// openedAtAnyVersion opens a campaign whatever has become of its row.
type openedAtAnyVersion struct{ engine.Store }

func (m openedAtAnyVersion) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	if now.Mode != engine.OpenByHand || old.Mode == now.Mode {
		return m.Store.ReplaceCampaign(ctx, old, now)
	}
	return replaceAtAnyVersion{m.Store, true}.ReplaceCampaign(ctx, old, now)
}

// changesAsLoads counts up the version of a campaign with a change as with a load.
type changesAsLoads struct{ engine.Store }

func (m changesAsLoads) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	now.Version = old.Version + 1
	return m.Store.ReplaceCampaign(ctx, old, now)
}

// closedOnce does not write a campaign that is closed already.
type closedOnce struct{ engine.Store }

func (m closedOnce) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	c, err := m.Campaign(ctx, now.Name)
	if err != nil || c == nil {
		return false, err
	}
	if closed := c.Mode == engine.ClosedByHand || c.Mode == engine.ClosedUntilReconciled; closed && c.Mode == now.Mode {
		return true, nil
	}
	return m.Store.ReplaceCampaign(ctx, old, now)
}

// conditionNotRead reads a campaign that is closed until it is reconciled as closed.
type conditionNotRead struct{ engine.Store }

func (m conditionNotRead) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	c, err := m.Store.Campaign(ctx, name)
	if err == nil && c != nil && c.Mode == engine.ClosedUntilReconciled {
		c.Mode = engine.ClosedByHand
	}
	return c, err
}

// pagesNeverDeleted keeps the pages of deleted campaigns.
type pagesNeverDeleted struct {
	engine.Store
	pages sync.Map // the documents, by campaign
}

func (m *pagesNeverDeleted) PutPageDocument(_ context.Context, campaign string, document []byte) (bool, error) {
	m.pages.Store(campaign, document)
	return true, nil
}

func (m *pagesNeverDeleted) PageDocument(_ context.Context, campaign string, _ engine.Consistency) ([]byte, error) {
	document, _ := m.pages.Load(campaign)
	page, _ := document.([]byte)
	return page, nil
}

// closeBeforeEnd closes claims that have not ended.
type closeBeforeEnd struct{ engine.Store }

func (m closeBeforeEnd) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	r.EndedBy = time.Time{}
	return m.Store.CloseClaim(ctx, r)
}

// indexTrusted closes every claim that the index names, even if the claim has changed since: it gives the claim the
// end that it had when it was made.
type indexTrusted struct {
	engine.Store
	mu   sync.Mutex
	ends map[string]time.Time // the ends, by claim id
}

func (m *indexTrusted) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	m.ends[c.ID] = c.EndsAt
	m.mu.Unlock()
	return m.Store.Take(ctx, items, c)
}

func (m *indexTrusted) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (*engine.Claim, bool, error) {
	held, conflict, err := m.Store.HeldClaim(ctx, key, how)
	m.mu.Lock()
	defer m.mu.Unlock()
	if how == engine.Eventual && held != nil && !m.ends[held.ID].IsZero() {
		held.EndsAt = m.ends[held.ID]
	}
	return held, conflict, err
}

func (m *indexTrusted) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	r.EndedBy = time.Time{}
	return m.Store.CloseClaim(ctx, r)
}

// confirmWithoutID confirms the claimant's claim, whatever its id is.
type confirmWithoutID struct{ engine.Store }

func (m confirmWithoutID) ConfirmClaim(ctx context.Context, c engine.Claim) (engine.ConfirmResult, error) {
	return m.Store.ConfirmClaim(ctx, withHeldID(ctx, m.Store, c))
}

// withHeldID returns a claim with the id of the claim that its claimant holds, if there is one.
func withHeldID(ctx context.Context, s engine.Store, c engine.Claim) engine.Claim {
	if held, _, err := s.HeldClaim(ctx, c.Key(), engine.Strong); err == nil && held != nil {
		c.ID = held.ID
	}
	return c
}

// prolongAnyEnd gives a claim a new end, whatever its end is, and even if it has none.
type prolongAnyEnd struct {
	engine.Store
	raw enginetest.Raw
}

func (m prolongAnyEnd) ProlongClaim(
	ctx context.Context, c engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	return putEnd(ctx, m.Store, m.raw, c, endsAt, true)
}

// prolongWithoutID prolongs the claimant's hold, whatever its id is.
type prolongWithoutID struct{ engine.Store }

func (m prolongWithoutID) ProlongClaim(
	ctx context.Context, c engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	return m.Store.ProlongClaim(ctx, withHeldID(ctx, m.Store, c), endsAt)
}

// prolongInTwoSteps reads a claim, and puts it with its new end in a second step.
type prolongInTwoSteps struct {
	engine.Store
	raw enginetest.Raw
}

func (m prolongInTwoSteps) ProlongClaim(
	ctx context.Context, c engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	return putEnd(ctx, m.Store, m.raw, c, endsAt, false)
}

// putEnd reads a claim, and puts it with another end in a second step, if it is the one that the caller means.
func putEnd(
	ctx context.Context, s engine.Store, raw enginetest.Raw, c engine.Claim, endsAt time.Time, anyEnd bool,
) (engine.ConfirmResult, error) {
	held, _, err := s.HeldClaim(ctx, c.Key(), engine.Strong)
	if err != nil || held == nil || held.ID != c.ID || held.Campaign != c.Campaign ||
		!anyEnd && !held.EndsAt.Equal(c.EndsAt) {
		return engine.ConfirmResult{Held: held}, err
	}
	time.Sleep(time.Millisecond) // a delay that any network can have
	held.EndsAt = endsAt
	return engine.ConfirmResult{Held: held}, raw.PutClaim(ctx, *held)
}

// confirmedReleasedByHolder closes a claim for its holder even if the claim was confirmed meanwhile.
type confirmedReleasedByHolder struct{ engine.Store }

func (m confirmedReleasedByHolder) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	r.IfHold = false
	return m.Store.CloseClaim(ctx, r)
}

// confirmInTwoSteps reads a claim, and puts it without its end in a second step.
type confirmInTwoSteps struct {
	engine.Store
	raw enginetest.Raw
}

func (m confirmInTwoSteps) ConfirmClaim(ctx context.Context, c engine.Claim) (engine.ConfirmResult, error) {
	return putEnd(ctx, m.Store, m.raw, c, time.Time{}, true)
}

// alwaysTheFirstDue ignores the place where a list of due claims should begin, and always begins with the first.
type alwaysTheFirstDue struct{ engine.Store }

func (m alwaysTheFirstDue) DueClaims(
	ctx context.Context, s engine.Shard, _, before time.Time, limit int,
) (engine.DuePage, error) {
	return m.Store.DueClaims(ctx, s, time.Time{}, before, limit)
}

// ownClock reports no server time, so that a Bank uses its own clock.
type ownClock struct{ engine.Store }

func (ownClock) ServerTime() time.Time { return time.Time{} }

// closeWithoutItemRow ignores the item row when it closes a claim: it puts the row that the request wants just
// before.
type closeWithoutItemRow struct {
	engine.Store
	raw enginetest.Raw
}

func (m closeWithoutItemRow) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	row := engine.ListedItem{Hash: r.Claim.ItemHash, ItemRow: r.Row}
	if err := m.raw.PutItemRow(ctx, r.Claim.Campaign, row); err != nil {
		return engine.CloseResult{}, err
	}
	return m.Store.CloseClaim(ctx, r)
}

// closeIgnoringMark ignores the mark in the item row when it closes a claim.
type closeIgnoringMark struct{ engine.Store }

func (m closeIgnoringMark) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	row, err := m.ItemRow(ctx, r.Claim.Campaign, r.Claim.ItemHash)
	if err != nil {
		return engine.CloseResult{}, err
	}
	if row != nil {
		r.Row.Withdraw = row.Withdraw
	}
	return m.Store.CloseClaim(ctx, r)
}

// replacedWhateverEnd replaces a claim whatever its end is.
type replacedWhateverEnd struct{ engine.Store }

func (m replacedWhateverEnd) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if r.NextItem != nil {
		held, _, err := m.HeldClaim(ctx, r.Claim.Key(), engine.Eventual)
		if err != nil {
			return engine.CloseResult{}, err
		}
		if held != nil {
			r.Claim.EndsAt = held.EndsAt
		}
	}
	return m.Store.CloseClaim(ctx, r)
}

// replacedInTwoSteps closes the claim, and takes the next item in a second step.
type replacedInTwoSteps struct{ engine.Store }

func (m replacedInTwoSteps) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	next, item := r.Next, r.NextItem
	if item != nil {
		r.Next, r.NextItem = nil, nil
	}
	result, err := m.Store.CloseClaim(ctx, r)
	if item == nil || err != nil || !result.Closed() {
		return result, err
	}
	taken, err := m.Take(ctx, []engine.FreeItem{*item}, *next)
	return engine.CloseResult{ItemGone: taken.ItemGone}, err
}

// replacedByTaken does not test whether the next item is free.
type replacedByTaken struct {
	engine.Store
	raw enginetest.Raw
}

func (m replacedByTaken) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	result, err := m.Store.CloseClaim(ctx, r)
	if err != nil || result != (engine.CloseResult{ItemGone: true}) {
		return result, err
	}
	if err := m.raw.PutBankRow(ctx, *r.NextItem); err != nil {
		return result, err
	}
	return m.Store.CloseClaim(ctx, r)
}

// replacedReturned puts the item of a claim that is replaced back into the bank.
type replacedReturned struct{ engine.Store }

func (m replacedReturned) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if r.State == engine.Replaced {
		c, err := m.Campaign(ctx, r.Claim.Campaign)
		if err != nil {
			return engine.CloseResult{}, err
		}
		free := enginerows.FreeItem(*c, r.Claim.Item)
		r.Return, r.State = &free, ""
	}
	return m.Store.CloseClaim(ctx, r)
}

// replacedUnderOwnID gives the next claim a random id.
type replacedUnderOwnID struct{ engine.Store }

func (m replacedUnderOwnID) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if r.NextItem != nil {
		next := *r.Next
		next.ID = enginerows.NewName()
		r.Next = &next
	}
	return m.Store.CloseClaim(ctx, r)
}

// markFreeItem marks an item even if it is in the bank.
type markFreeItem struct {
	engine.Store
	raw enginetest.Raw
}

func (m markFreeItem) MarkWithdrawn(ctx context.Context, item engine.FreeItem) (bool, error) {
	row, err := m.ItemRow(ctx, item.Shard.Campaign, item.Hash)
	if err != nil || row == nil || row.State != "" {
		return false, err
	}
	row.Withdraw = true
	listed := engine.ListedItem{Hash: item.Hash, ItemRow: *row}
	return true, m.raw.PutItemRow(ctx, item.Shard.Campaign, listed)
}

// returnInSecondStep deletes the claim, and puts the item into the bank in a second step. Between the steps it waits
// for a moment, or until the caller's context ends.
type returnInSecondStep struct {
	engine.Store
	raw enginetest.Raw
}

func (m returnInSecondStep) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if r.Return == nil {
		return m.Store.CloseClaim(ctx, r)
	}
	if err := m.raw.DropClaim(ctx, r.Claim.Key()); err != nil {
		return engine.CloseResult{}, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
	return engine.CloseResult{}, m.raw.PutBankRow(ctx, *r.Return)
}

// endedDropped deletes a claim, instead of closing it, when it ended longer than the grace ago. Without a grace it
// acts as a time to live would at the claim's end. With the real grace it acts as a put that overwrites the claim.
type endedDropped struct {
	engine.Store
	raw   enginetest.Raw
	grace time.Duration
}

func (m endedDropped) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	held, _, err := m.HeldClaim(ctx, c.Key(), engine.Strong)
	if err != nil {
		return engine.TakeResult{}, err
	}
	if held != nil && !held.EndsAt.IsZero() && !held.EndsAt.After(c.ClaimedAt.Add(-m.grace)) {
		if err := m.raw.DropClaim(ctx, c.Key()); err != nil {
			return engine.TakeResult{}, err
		}
	}
	return m.Store.Take(ctx, items, c)
}

// sweepWithoutGrace closes a claim that has just ended.
type sweepWithoutGrace struct{ engine.Store }

func (m sweepWithoutGrace) ListClaims(ctx context.Context, scope, cursor string) ([]engine.Claim, string, error) {
	claims, next, err := m.Store.ListClaims(ctx, scope, cursor)
	for i := range claims {
		if !claims[i].EndsAt.IsZero() {
			claims[i].EndsAt = claims[i].EndsAt.Add(-endGrace)
		}
	}
	return claims, next, err
}

func (m sweepWithoutGrace) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if !r.EndedBy.IsZero() {
		r.EndedBy = r.EndedBy.Add(endGrace)
	}
	return m.Store.CloseClaim(ctx, r)
}

// itemsEndedEarly ends items before their end.
type itemsEndedEarly struct{ engine.Store }

func (m itemsEndedEarly) EndItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	all := slices.Clone(requests)
	for i := range all {
		all[i].EndedBy = time.Time{}
	}
	return m.Store.EndItems(ctx, all)
}

// seenItemsPutBack puts a missing item back into the bank, although a repair should mark it as lost.
type seenItemsPutBack struct {
	engine.Store
	raw    enginetest.Raw
	mu     sync.Mutex
	loaded map[engine.Hash]engine.FreeItem
}

func (m *seenItemsPutBack) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range requests {
		m.loaded[r.Item.Hash] = r.Item
	}
	return m.Store.AddItems(ctx, requests)
}

func (m *seenItemsPutBack) Repair(ctx context.Context, r engine.RepairRequest) (bool, error) {
	if r.End == "" {
		return m.Store.Repair(ctx, r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return true, m.raw.PutBankRow(ctx, m.loaded[r.Hash])
}

// claimPutBackUnchecked puts a claim back even if its item has changed since the read.
type claimPutBackUnchecked struct{ engine.Store }

func (m claimPutBackUnchecked) Repair(ctx context.Context, r engine.RepairRequest) (bool, error) {
	if r.PutClaim != nil {
		row, err := m.ItemRow(ctx, r.Campaign, r.Hash)
		if err != nil {
			return false, err
		}
		r.IfRow = row
	}
	return m.Store.Repair(ctx, r)
}

// claimReadPlainly reads a claim with a consistent but not isolated read. It shows the writes of a running
// transaction one by one, and never conflicts.
type claimReadPlainly struct{ engine.Store }

func (m claimReadPlainly) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	if how == engine.Eventual {
		return m.Store.HeldClaim(ctx, key, how)
	}
	for cursor := ""; ; {
		claims, next, err := m.ListClaims(ctx, key.Scope, cursor)
		if err != nil {
			return nil, false, err
		}
		if i := slices.IndexFunc(claims, func(c engine.Claim) bool { return c.Key() == key }); i >= 0 {
			return &claims[i], false, nil
		}
		if cursor = next; cursor == "" {
			return nil, false, nil
		}
	}
}

// claimReadStale reads claims with eventually consistent reads only.
type claimReadStale struct{ engine.Store }

func (m claimReadStale) HeldClaim(
	ctx context.Context, key engine.ClaimKey, _ engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	return m.Store.HeldClaim(ctx, key, engine.Eventual)
}

// itemsReadPlainly reads item rows with plain reads, and returns the bank rows from the latest list.
type itemsReadPlainly struct {
	engine.Store
	mu   sync.Mutex
	free map[engine.Shard]map[engine.Hash]engine.FreeItem
}

func (m *itemsReadPlainly) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	if how == engine.Eventual {
		return m.Store.FreeItems(ctx, s, r, limit, how)
	}
	page, err := m.Store.FreeItems(ctx, s, r, limit, how)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free[s] = map[engine.Hash]engine.FreeItem{}
	for _, i := range page.Items {
		m.free[s][i.Hash] = i
	}
	return page, err
}

func (m *itemsReadPlainly) ReadItems(ctx context.Context, keys []engine.FreeItem) ([]engine.ItemRead, error) {
	reads := make([]engine.ItemRead, len(keys))
	for i, key := range keys {
		row, err := m.ItemRow(ctx, key.Shard.Campaign, key.Hash)
		if err != nil {
			return nil, err
		}
		reads[i].Row = row
		m.mu.Lock()
		if free, found := m.free[key.Shard][key.Hash]; found {
			reads[i].Free = &free
		}
		m.mu.Unlock()
	}
	return reads, nil
}

// letOthersWrite lets other goroutines change the rows between two reads.
func letOthersWrite() {
	for range 10 {
		runtime.Gosched()
	}
}

// rowsReadOneByOne reads the item row and the bank row of an item one after the other.
type rowsReadOneByOne struct{ engine.Store }

func (m rowsReadOneByOne) ReadItems(ctx context.Context, keys []engine.FreeItem) ([]engine.ItemRead, error) {
	reads, err := m.Store.ReadItems(ctx, keys)
	if err != nil {
		return nil, err
	}
	letOthersWrite()
	later, err := m.Store.ReadItems(ctx, keys)
	for i := range later {
		reads[i].Free = later[i].Free
	}
	return reads, err
}

// claimReadInTwoParts reads some fields of a claim later than the others.
type claimReadInTwoParts struct{ engine.Store }

func (m claimReadInTwoParts) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (*engine.Claim, bool, error) {
	if how == engine.Eventual {
		return m.Store.HeldClaim(ctx, key, how)
	}
	held, conflict, err := m.Store.HeldClaim(ctx, key, how)
	if held == nil {
		return held, conflict, err
	}
	letOthersWrite()
	later, _, err := m.Store.HeldClaim(ctx, key, how)
	if later != nil {
		later.ID = held.ID
	}
	return later, conflict, err
}

func (m claimReadInTwoParts) ListClaims(ctx context.Context, scope, cursor string) ([]engine.Claim, string, error) {
	claims, next, err := m.Store.ListClaims(ctx, scope, cursor)
	letOthersWrite()
	for i, claim := range claims {
		if later, _, err := m.Store.HeldClaim(ctx, claim.Key(), engine.Strong); err == nil && later != nil {
			claims[i].ID = later.ID
		}
	}
	return claims, next, err
}

// nextPageByNumber finds the next page of a list by the number of rows before it.
type nextPageByNumber struct{ engine.Store }

func (m nextPageByNumber) ListClaims(ctx context.Context, scope, cursor string) ([]engine.Claim, string, error) {
	return pageByNumber(ctx, scope, cursor, m.Store.ListClaims)
}

func (m nextPageByNumber) ListItemRows(ctx context.Context, campaign, cursor string) ([]engine.ListedItem, string, error) {
	return pageByNumber(ctx, campaign, cursor, m.Store.ListItemRows)
}

func pageByNumber[Row any](
	ctx context.Context, name, cursor string, list func(ctx context.Context, name, cursor string) ([]Row, string, error),
) (page []Row, next string, err error) {
	for at := ""; ; {
		rows, next, err := list(ctx, name, at)
		if err != nil {
			return nil, "", err
		}
		if page = append(page, rows...); next == "" {
			break
		}
		at = next
	}
	const size = 1000
	before, _ := strconv.Atoi(cursor) // 0 for the first page
	if page = page[min(before, len(page)):]; len(page) <= size {
		return page, "", nil
	}
	return page[:size], strconv.Itoa(before + size), nil
}

// burnsIgnored says that free items end as burned, and leaves them in the bank.
type burnsIgnored struct{ engine.Store }

func (m burnsIgnored) EndItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	if requests[0].State != engine.Burned {
		return m.Store.EndItems(ctx, requests)
	}
	return slices.Repeat([]engine.EndResult{engine.EndDone}, len(requests)), nil
}

// closesIgnored says that claims are closed whose first item returns, or does not return, and leaves them.
type closesIgnored struct {
	engine.Store
	returns bool
}

func (m closesIgnored) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if (r.Return != nil) != m.returns {
		return m.Store.CloseClaim(ctx, r)
	}
	return engine.CloseResult{}, nil
}

// confirmationsIgnored says that a hold is confirmed, and leaves its end.
type confirmationsIgnored struct{ engine.Store }

func (m confirmationsIgnored) ConfirmClaim(ctx context.Context, claim engine.Claim) (engine.ConfirmResult, error) {
	held, conflict, err := m.HeldClaim(ctx, claim.Key(), engine.Strong)
	if held != nil {
		held.EndsAt = time.Time{}
	}
	return engine.ConfirmResult{Held: held, Conflict: conflict}, err
}

// prolongationsIgnored says that a hold is prolonged, and leaves its end.
type prolongationsIgnored struct{ engine.Store }

func (m prolongationsIgnored) ProlongClaim(
	ctx context.Context, claim engine.Claim, endsAt time.Time,
) (engine.ConfirmResult, error) {
	held, conflict, err := m.HeldClaim(ctx, claim.Key(), engine.Strong)
	if held != nil {
		held.EndsAt = endsAt
	}
	return engine.ConfirmResult{Held: held, Conflict: conflict}, err
}

// endedRowsIgnored says that the rows of items that ended are put, and puts none.
type endedRowsIgnored struct{ engine.Store }

func (m endedRowsIgnored) Repair(ctx context.Context, r engine.RepairRequest) (bool, error) {
	if r.PutRow == nil || r.PutRow.State == "" {
		return m.Store.Repair(ctx, r)
	}
	return true, nil
}

// blocksIgnored says that blocks are put, and puts none.
type blocksIgnored struct{ engine.Store }

func (m blocksIgnored) Take(ctx context.Context, items []engine.FreeItem, claim engine.Claim) (engine.TakeResult, error) {
	if claim.IsBlock() {
		return engine.TakeResult{}, nil
	}
	return m.Store.Take(ctx, items, claim)
}

func (m blocksIgnored) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if r.NextItem == nil {
		r.Next = nil
	}
	return m.Store.CloseClaim(ctx, r)
}

// marksNotRead reads a campaign without its marks.
type marksNotRead struct{ engine.Store }

func (m marksNotRead) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	c, err := m.Store.Campaign(ctx, name)
	if c != nil {
		c.Moved, c.Restored = false, false
	}
	return c, err
}

// marksNotListed lists campaigns without their marks.
type marksNotListed struct{ engine.Store }

func (m marksNotListed) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	all, err := m.Store.Campaigns(ctx)
	for i := range all {
		all[i].Moved, all[i].Restored = false, false
	}
	return all, err
}

// marksCleared clears the marks of a campaign with each change.
type marksCleared struct{ engine.Store }

func (m marksCleared) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	now.Moved, now.Restored = now.Moved && !old.Moved, now.Restored && !old.Restored
	return m.Store.ReplaceCampaign(ctx, old, now)
}

// namesTakenOut deletes a campaign and takes its name out of the list in a second step, with no condition. So the name
// stays out when it is used again in between. With always, a deletion that is refused takes it out, too.
type namesTakenOut struct {
	engine.Store
	always bool
	mu     sync.Mutex
	out    map[string]bool
}

func (m *namesTakenOut) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (bool, error) {
	replaced, err := m.Store.ReplaceCampaign(ctx, old, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Mode == engine.Deleted && err == nil && (replaced || m.always) {
		if m.out == nil {
			m.out = map[string]bool{}
		}
		m.out[now.Name] = true
	}
	return replaced, err
}

func (m *namesTakenOut) CreateCampaign(ctx context.Context, c engine.Campaign) (engine.CreateResult, error) {
	result, err := m.Store.CreateCampaign(ctx, c)
	if m.always && err == nil && result.Created() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.out, c.Name)
	}
	return result, err
}

func (m *namesTakenOut) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	all, err := m.Store.Campaigns(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(all, func(c engine.Campaign) bool { return m.out[c.Name] }), err
}
