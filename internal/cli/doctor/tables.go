package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// Tables are the two tables of a store.
type Tables struct {
	Client       *dynamodb.Client
	Bank, Dedupe string             // Bank is "" in a deployment without claims; Dedupe is "" if only the bank is known
	Local        bool               // the engine has no backups
	Explain      func(error) string // puts an error of the SDK into plain words
}

// purgeAttribute is the TTL attribute of the dedupe table.
const purgeAttribute = "purge_at"

// Check checks the tables. It changes nothing.
func (t Tables) Check(ctx context.Context, report *Report) {
	a, found := report.Area("tables"), true
	for _, name := range []string{t.Bank, t.Dedupe} {
		if name == "" {
			continue
		}
		out, err := t.Client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			t.tellMissing(a, name, err)
			found = false
			continue
		}
		t.checkTable(a, name, out.Table)
		t.checkTTL(ctx, a, name)
		if !t.Local {
			t.tellBackups(ctx, a, name, out.Table)
		}
	}
	if t.Bank != "" && t.Dedupe != "" && found {
		t.checkRows(ctx, a)
	}
}

// tellMissing reports why a table cannot be described.
func (t Tables) tellMissing(a Area, name string, err error) {
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); !missing {
		a.Fail(name, t.Explain(err), "")
		return
	}
	where := "in the region " + t.Client.Options().Region
	if endpoint := t.Client.Options().BaseEndpoint; endpoint != nil {
		where = "at " + *endpoint
	}
	a.Fail(name, "there is no such table "+where,
		"Check the names of the tables and AWS_REGION. `oncebox --store dynamodb: init` makes tables.")
}

func (t Tables) checkTable(a Area, name string, table *types.TableDescription) {
	if table.TableStatus != types.TableStatusActive && table.TableStatus != types.TableStatusUpdating {
		a.Fail(name, "the table is "+string(table.TableStatus), "Wait until it is ACTIVE.")
		return
	}
	if !hasKeys(table, table.KeySchema, "pk", "sk", types.ScalarAttributeTypeS) {
		a.Fail(name, "the table has other keys than pk and sk, both strings",
			"It is a table of another program. Check its name.")
		return
	}
	if len(table.Replicas) > 0 {
		a.Fail(name, fmt.Sprintf("the table has %d replicas: two regions could give one item to two claimants",
			len(table.Replicas)), "Remove the replicas. Uniqueness ends at the region.")
		return
	}
	if name != t.Dedupe || t.Bank == "" {
		a.OK(name, string(table.TableStatus))
		return
	}
	i := slices.IndexFunc(table.GlobalSecondaryIndexes, func(i types.GlobalSecondaryIndexDescription) bool {
		return aws.ToString(i.IndexName) == "due" &&
			hasKeys(table, i.KeySchema, "due", "ends_at", types.ScalarAttributeTypeN)
	})
	if i < 0 {
		a.Fail(name, "the index due is missing or has other keys: no claim that has ended is found",
			"Add it: docs/deploy.md, \"The tables without the stack\".")
		return
	}
	switch status := table.GlobalSecondaryIndexes[i].IndexStatus; status {
	case types.IndexStatusActive, "":
		a.OK(name, string(table.TableStatus)+", with the index due")
	default:
		a.Warn(name, "the index due is "+string(status), "Wait until it is ACTIVE.")
	}
}

// hasKeys reports whether a table, or its index, has a text as partition key and a sort key of the type.
func hasKeys(
	table *types.TableDescription, found []types.KeySchemaElement, partition, sort string, kind types.ScalarAttributeType,
) bool {
	has := func(key types.KeySchemaElement, name string, kind types.ScalarAttributeType) bool {
		return aws.ToString(key.AttributeName) == name &&
			slices.ContainsFunc(table.AttributeDefinitions, func(d types.AttributeDefinition) bool {
				return aws.ToString(d.AttributeName) == name && d.AttributeType == kind
			})
	}
	return len(found) == 2 && has(found[0], partition, types.ScalarAttributeTypeS) && has(found[1], sort, kind)
}

// checkTTL checks the TTL attribute. Without TTL, rows stay for ever and cost money. With another attribute, DynamoDB
// deletes rows that still count.
func (t Tables) checkTTL(ctx context.Context, a Area, table string) {
	name := table + ", TTL"
	out, err := t.Client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		a.NotRead(name, t.Explain(err))
		return
	}
	ttl := out.TimeToLiveDescription
	on := ttl != nil && slices.Contains(
		[]types.TimeToLiveStatus{types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling}, ttl.TimeToLiveStatus)
	switch {
	case on && aws.ToString(ttl.AttributeName) != purgeAttribute:
		a.Fail(name, "is on the attribute "+aws.ToString(ttl.AttributeName),
			"Turn it off. It has to be on "+purgeAttribute+".")
	case on:
		a.OK(name, "on "+purgeAttribute)
	case table == t.Dedupe:
		a.Warn(name, "is off: entries of records are never deleted", fmt.Sprintf("aws dynamodb update-time-to-live "+
			"--table-name %s --time-to-live-specification Enabled=true,AttributeName=%s", table, purgeAttribute))
	default:
		a.Info(name, "is off")
	}
}

// tellBackups reports how the table is protected.
func (t Tables) tellBackups(ctx context.Context, a Area, table string, d *types.TableDescription) {
	tell := func(name string, on bool, do string) {
		if on {
			a.Info(table+", "+name, onOff(on))
		} else {
			a.Warn(table+", "+name, "is off", do)
		}
	}
	tell("deletion protection", aws.ToBool(d.DeletionProtectionEnabled),
		"aws dynamodb update-table --deletion-protection-enabled --table-name "+table)
	out, err := t.Client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
	if err != nil {
		a.NotRead(table+", point-in-time recovery", t.Explain(err))
		return
	}
	b := out.ContinuousBackupsDescription
	tell("point-in-time recovery", b != nil && b.PointInTimeRecoveryDescription != nil &&
		b.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled,
		"aws dynamodb update-continuous-backups --point-in-time-recovery-specification "+
			"PointInTimeRecoveryEnabled=true --table-name "+table)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// largestSkew is how far a clock may be off. Claims are closed 10 seconds after their end.
const largestSkew = 10 * time.Second

// checkRows reads the campaigns, whose rows have the number of the layout, and compares the clocks.
func (t Tables) checkRows(ctx context.Context, a Area) {
	store := dynamostore.New(t.Client, t.Bank, t.Dedupe)
	campaigns, err := itembank.NewOperator(store).Campaigns(ctx)
	switch {
	case errors.Is(err, dynamostore.ErrLayout):
		a.Fail("layout", t.Explain(err), "Use the version of oncebox that wrote these rows, or load the items into new tables.")
	case err != nil:
		a.Fail("campaigns", t.Explain(err), "")
	default:
		a.OK("layout", fmt.Sprintf("this version reads the rows of all campaigns (%d)", len(campaigns)))
	}
	if _, err := store.Campaign(ctx, "oncebox"); err != nil { // its answer has a Date, even if no such campaign exists
		return
	}
	server := store.ServerTime()
	if server.IsZero() {
		a.Info("clock", "the engine does not tell its time")
		return
	}
	middle := server.Add(time.Second) // of the bounds of DynamoDB's time, which are two seconds apart
	skew := time.Since(middle).Truncate(time.Second)
	detail := fmt.Sprintf("this machine's clock is %s off that of DynamoDB", skew.Abs())
	if skew.Abs() <= largestSkew {
		a.OK("clock", detail)
		return
	}
	a.Warn("clock", detail, "Set the clock, as with NTP. --opens and --closes go by the time of DynamoDB.")
}
