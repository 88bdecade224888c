package cli

import (
	"context"
	"fmt"
	"strings"

	addresses "github.com/oncebox/oncebox/internal/shared/address"
	oncedynamo "github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	onceengine "github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// Powertools returns the format of --store if it is a table of Powertools: FORMAT:TABLE?OPTION=VALUE.
func (g Globals) Powertools() (format powertools.Format, ok bool) {
	format = powertools.Format(addresses.Scheme(g.Store))
	return format, format.Check() == nil
}

// openPowertools opens the table of Powertools in --store.
func (g Globals) openPowertools(ctx context.Context) (store onceengine.Store, closeStore func(), err error) {
	table, layout, err := powertoolsTable(g.Store)
	if err != nil {
		return nil, nil, err
	}
	client, err := DynamoClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err = oncedynamo.NewPowertools(client, table, layout)
	return store, func() {}, err
}

// powertoolsTable reads FORMAT:TABLE?OPTION=VALUE. An option has the name of a field, as in static-pk-value. Hashes of
// payloads are read if rows have them.
func powertoolsTable(address string) (table string, p oncedynamo.Powertools, err error) {
	a := addresses.Parse(address)
	p = oncedynamo.Powertools{Format: powertools.Format(a.Scheme), Validation: true}
	if a.Name == "" {
		a.WrongPlace("does not have the name of a table", a.Scheme+":TABLE")
	}
	var options, names []string // names: of a field and its option, in turn
	for _, o := range []struct {
		option, field string
		value         *string
	}{
		{"sort-key-attr", "SortKeyAttr", &p.SortKeyAttr}, {"static-pk-value", "StaticPKValue", &p.StaticPKValue},
		{"validation-key-attr", "ValidationKeyAttr", &p.ValidationKeyAttr}, {"key-attr", "KeyAttr", &p.KeyAttr},
		{"status-attr", "StatusAttr", &p.StatusAttr}, {"in-progress-expiry-attr", "InProgressExpiryAttr", &p.InProgressExpiryAttr},
		{"expiry-attr", "ExpiryAttr", &p.ExpiryAttr}, {"data-attr", "DataAttr", &p.DataAttr},
	} {
		*o.value = a.Text(o.option)
		options, names = append(options, o.option), append(names, o.field, o.option)
	}
	if err = a.Done(options...); err == nil {
		_, err = oncedynamo.NewPowertools(nil, a.Name, p)
	}
	if err != nil {
		text := strings.NewReplacer(names...).Replace(err.Error())
		err = BadUsage(Plain(fmt.Sprintf("--store %q: %s", address, text), nil, err), "")
	}
	return a.Name, p, err
}
