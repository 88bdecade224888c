package dynamostore

import "github.com/oncebox/oncebox/internal/shared/address"

// maxConcurrency stays below the 1,024 file descriptors of a Lambda function (Developer Guide, "Lambda quotas").
const maxConcurrency = 1000

// Parse reads the address of a Store's own ledger: keys, or keys?concurrency=N with the number for WithConcurrency, 1 to
// 1000. The error is a list of all problems. It repeats no value.
func Parse(text string) (concurrency int, err error) {
	a := address.Parse(text)
	if a.Scheme != OwnLedger || a.Name != "" {
		a.WrongPlace("does not name the ledger with one row a key", "keys, or keys?concurrency=N")
	}
	return a.Number("concurrency", DefaultConcurrency, 1, maxConcurrency), a.Done("concurrency")
}
