package settings

import (
	"errors"
	"strconv"
	"strings"
)

// sizeUnits are the units of sizes, in bytes. A size without a unit is in bytes.
var sizeUnits = [...]struct {
	name  string
	bytes int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}}

var errSize = errors.New("not a size; write it as 512KiB, 10MiB, or a number of bytes")

// ParseSize reads a size in whole KiB, MiB or bytes, up to 1 GiB: 512KiB, 10MiB, 1048576. The error says how a size is
// written and does not repeat the text, which may be a secret in the wrong place.
func ParseSize(text string) (bytes int, err error) {
	factor := 1
	for _, unit := range sizeUnits {
		if number, ok := strings.CutSuffix(text, unit.name); ok {
			text, factor = number, unit.bytes
			break
		}
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n*uint64(factor) > 1<<30 {
		return 0, errSize
	}
	return int(n) * factor, nil
}
