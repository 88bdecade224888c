package settings

import (
	"errors"
	"strconv"
	"strings"
)

// PoisonLimit has the same fields as dedupe.PoisonLimit, so that one can be converted into the other. This package
// imports no package for records.
type PoisonLimit struct {
	Share   float64
	Records int
	Off     bool
}

// PoisonLimitForms are examples of poison limits, for messages and help texts.
const PoisonLimitForms = "90% of 100, or off"

var errPoisonLimit = errors.New("not a share of a number of records; write it as in " + PoisonLimitForms)

// ParsePoisonLimit reads a share in whole percent and a number of records up to most, as in 90% of 100, or it reads
// off. The error does not repeat the text, which may be a secret in the wrong place.
func ParsePoisonLimit(text string, most int) (PoisonLimit, error) {
	if text == "off" {
		return PoisonLimit{Off: true}, nil
	}
	share, count, _ := strings.Cut(text, "% of ")
	percent, err := strconv.Atoi(share)
	records, countErr := strconv.Atoi(count)
	if err != nil || countErr != nil || percent < 1 || percent > 100 || records < 1 || records > most {
		return PoisonLimit{}, errPoisonLimit
	}
	return PoisonLimit{Share: float64(percent) / 100, Records: records}, nil
}
