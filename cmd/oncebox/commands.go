package main

import (
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/cli/claims"
	"github.com/oncebox/oncebox/internal/cli/delivery"
	"github.com/oncebox/oncebox/internal/cli/demo"
	"github.com/oncebox/oncebox/internal/cli/idempotency"
	"github.com/oncebox/oncebox/internal/cli/links"
	"github.com/oncebox/oncebox/internal/cli/operate"
	"github.com/oncebox/oncebox/internal/cli/records"
)

// grammar is the grammar of the command line. The help lists the commands in this order.
type grammar struct {
	cli.Globals

	Setup     operate.SetupCommands     `embed:""` // init, backup, local
	Campaigns claims.CampaignCommands   `embed:""` // campaign, generate, load, claim, claims, confirm, prolong, release, items, forget, withdraw, sweep
	Links     links.Commands            `embed:""` // links
	Support   claims.SupportCommands    `embed:""` // status, lookup, audit, reconcile, replay
	Records   records.RecordCommands    `embed:""` // dedupe, ledger, cost
	Delivery  delivery.DeliveryCommands `embed:""` // redrive, objects
	Once      idempotency.Commands      `embed:""` // idempotency
	KPL       records.KPLCommands       `embed:""` // kpl
	Checks    operate.CheckCommands     `embed:""` // invoke, doctor
	Demo      demo.Commands             `embed:""` // demo
	Program   cli.ProgramCommands       `embed:""` // version, help, completion
}
