package logledger

import (
	"math"

	"github.com/oncebox/oncebox/internal/shared/address"
)

// smallestMemory has room for some entries in each of 256 lanes.
const smallestMemory = 16 << 20

// Parse reads the address of a log ledger: log, or with options, as in log?lanes=16&memory=512MiB:
//
//	lanes   1 to 256; default 8
//	memory  for entries, 16MiB or more; default 0, which means that the caller did not choose it
//
// The error is a list of all problems. It repeats no value.
func Parse(text string) (o Options, err error) {
	a := address.Parse(text)
	if a.Scheme != "log" || a.Name != "" {
		a.WrongPlace("does not name the log ledger", "log, or log?OPTION=VALUE")
	}
	o.Lanes = a.Number("lanes", DefaultLanes, 1, MostLanes)
	o.Memory = int64(a.Size("memory", 0, smallestMemory, math.MaxInt, "16MiB or more, as in 1GiB"))
	return o, a.Done("lanes", "memory")
}
