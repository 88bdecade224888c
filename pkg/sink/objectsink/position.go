package objectsink

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// position is a place in the chain of a shard: behind everything that was handled up to a sequence number. Objects with
// late records do not move the sequence number on. The step counts these.
type position struct {
	sequence string // without leading zeros
	step     int
}

// root is where a chain begins.
var root = position{sequence: "0"}

const (
	stepDigits = 8
	maxStep    = 99_999_999
)

// String is the position as a part of an object's name. Positions sort by value as texts: the number of digits comes
// before the digits.
func (p position) String() string {
	return fmt.Sprintf("%03d-%s-%0*d", len(p.sequence), p.sequence, stepDigits, p.step)
}

// parsePosition reads what String wrote. Each position has one text.
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

// after returns the position behind an object that begins at p and whose last handled record is given.
func (p position) after(last string) position {
	if dedupe.CompareSequence(last, p.sequence) > 0 {
		return position{sequence: dedupe.UnpadSequence(last)}
	}
	return position{p.sequence, p.step + 1}
}
