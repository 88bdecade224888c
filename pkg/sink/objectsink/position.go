package objectsink

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// position is a place in the chain of a shard: after all records up to a sequence number. Objects with late records
// have the same sequence number as the object before them. The step counts these objects.
type position struct {
	sequence string // without leading zeros
	step     int
}

// root is the beginning of a chain.
var root = position{sequence: "0"}

const (
	stepDigits = 8
	maxStep    = 99_999_999
)

// String returns the position as a part of an object's name. The texts sort like the positions, because the number of
// digits comes before the digits.
func (p position) String() string {
	return fmt.Sprintf("%03d-%s-%0*d", len(p.sequence), p.sequence, stepDigits, p.step)
}

// parsePosition reads the result of String. Each position has only one text.
func parsePosition(text string) (position, error) {
	parts := strings.Split(text, "-")
	if len(parts) == 3 && dedupe.IsSequence(parts[1]) && len(parts[2]) == stepDigits {
		step, err := strconv.ParseUint(parts[2], 10, 32)
		p := position{parts[1], int(step)}
		if err == nil && p.String() == text && dedupe.UnpadSequence(p.sequence) == p.sequence {
			return p, nil
		}
	}
	return position{}, fmt.Errorf("%.200q is not a position in a chain", text)
}

func (p position) compare(other position) int {
	return cmp.Or(dedupe.CompareSequence(p.sequence, other.sequence), cmp.Compare(p.step, other.step))
}

// after returns the position after an object that begins at p and whose last handled record is last.
func (p position) after(last string) position {
	if dedupe.CompareSequence(last, p.sequence) > 0 {
		return position{sequence: dedupe.UnpadSequence(last)}
	}
	return position{p.sequence, p.step + 1}
}
