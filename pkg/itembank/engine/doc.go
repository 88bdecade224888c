// Package engine is the contract between itembank and the databases behind it.
//
// It is for authors of engines. Callers use package itembank. The contract is not stable: it changes with the needs
// of a Bank, also in minor versions.
//
// An engine implements [Store]: package dynamostore on DynamoDB, and package sqlitestore on SQLite. Every engine passes
// the suite in package enginetest unchanged.
//
// # Rows
//
//   - The campaign row has the rules of a campaign ([Campaign]).
//   - The scope row has the settings that are fixed for a scope ([Scope]).
//   - A bank row says that an item is free ([FreeItem]). It is in one of the campaign's
//     shards.
//   - An item row says that an item was ever loaded, and how it ended ([ItemRow]). It
//     stays when the bank row is deleted.
//   - A claim row says that a claimant holds an item, or is blocked ([Claim]). Its key is the scope, the
//     claimant and a slot ([ClaimKey]). An index lists the claims that have an end, by the
//     shard of their first item and by their end. The index is a hint ([Store.DueClaims]).
//   - A load row keeps the progress of a load ([Load]).
//
// # Results and errors
//
// A condition that fails is a result, never an error. Results name the conditions that failed, and the Bank decides
// which one counts. A busy, throttled or unreachable engine returns an error of the family [ErrTryAgain].
package engine
