package dynamostore

import (
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The keys of rows, for tests that reach past the store.

func BankKey(i engine.FreeItem) [2]string { return pair(bankKey(i)) }

func ItemKey(campaign string, h engine.Hash) [2]string { return pair(itemKey(campaign, h)) }

func ClaimKey(scope, claimant string) [2]string { return pair(claimKey(scope, claimant)) }

func pair(k key) [2]string { return [2]string{k.PK, k.SK} }
