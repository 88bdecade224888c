package claims

import (
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// rateFlag is the flag of the commands that read or write many rows.
type rateFlag struct {
	Rate cli.RowRate `help:"Read and write at most N rows a second, to leave the capacity of the tables to a sale. Default: no limit." placeholder:"N"`
}

// option is the option of a bank that keeps to the rate.
func (r rateFlag) option() itembank.Option { return itembank.WithRate(int(r.Rate)) }
