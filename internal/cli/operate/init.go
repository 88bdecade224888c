package operate

import (
	"context"

	"github.com/oncebox/oncebox/internal/cli"
)

type initCommand struct {
	Yes bool `help:"Make the tables in an AWS account, where they cost money. Not needed for a local endpoint."`
}

func (initCommand) Help() string {
	return `Safe to repeat: a store that exists stays as it is.

Examples:
  oncebox init                                   # makes ./oncebox.db
  oncebox --store sqlite:/var/lib/codes.db init
  AWS_ENDPOINT_URL_DYNAMODB=http://localhost:8000 oncebox --store dynamodb: init`
}

func (c initCommand) Run(ctx context.Context, a *cli.App) error {
	if err := a.Create(ctx, c.Yes); err != nil {
		return err
	}
	return a.Print(map[string]string{"store": a.Store}, "store ready: "+a.Store)
}
