package settings

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units of sizes, in bytes. A size without a unit is in bytes.
var sizeUnits = [...]struct {
	name  string
	bytes uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

var errSize = errors.New("not a size; write it as 512KiB, 10MiB, 2GiB, or a number of bytes")

// ParseSize reads a size in whole KiB, MiB, GiB or bytes: 512KiB, 10MiB, 2GiB, 1048576. The error says how to write a
// size. It does not repeat the text, which may be a secret in the wrong place.
func ParseSize(text string) (bytes int, err error) {
	factor := uint64(1)
	for _, unit := range sizeUnits {
		if number, ok := strings.CutSuffix(text, unit.name); ok {
			text, factor = number, unit.bytes
			break
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > math.MaxInt/factor {
		return 0, errSize
	}
	return int(n * factor), nil
}
