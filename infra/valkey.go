package infra

import (
	"regexp"
	"slices"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func (p RecordDedupeProps) hasValkey() bool {
	return slices.Contains([]string{"valkey", "valkeys"}, address.Scheme(p.Settings.Ledger))
}

// onlyInVPC matches the names of servers of ElastiCache and MemoryDB, which can be reached only from their VPC. Other
// servers may be anywhere.
var onlyInVPC = regexp.MustCompile(`\.(cache|memorydb\.[a-z0-9-]+)\.amazonaws\.com(\.cn)?:`)

// checkServers refuses servers that the function could not reach without a VPC. o holds the settings as the function
// reads them.
func (p RecordDedupeProps) checkServers(wrong *problems, o recordhandler.Options) {
	subnets, groups := wrong.of("Subnets"), wrong.of("SecurityGroups")
	valkey := o.Ledger.Valkey
	if valkey == nil || len(p.Function.Subnets) > 0 {
		return
	}
	servers := valkey.Addresses
	if valkey.Previous != nil {
		servers = slices.Concat(servers, valkey.Previous.Addresses)
	}
	if i := slices.IndexFunc(servers, onlyInVPC.MatchString); i >= 0 {
		wrong.add("%s is missing: %s is reached from its VPC only; set %s and %s", subnets, servers[i], subnets, groups)
	}
}

// ledgerAddress returns the address of the ledger, and its secret.
func (p RecordDedupeProps) ledgerAddress() secretAddress {
	return secretAddress{"Ledger", p.Settings.Ledger, "LedgerSecret", p.LedgerSecret, p.hasValkey()}
}
