package stack

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// theirStacks are stacks of other teams that use the constructs. They have no golden, because the goldens
// already show the constructs. Their logical ids are pinned, as those of the goldens in TestNamesOfWhatKeepsData.
var theirStacks = []struct {
	name string
	make func(*testing.T) template
	ids  []string
}{
	{"feature-flags", withFeatureFlags, []string{
		"CouponsAPI54F31CFB", "CouponsAccessLogs7C746D50", "CouponsBankTableFB18A262", "CouponsFunction86ED3CF4",
		"CouponsFunctionLogsF8048A23", "CouponsLiveBDB03D05", "CouponsSweepFunction419BDE7B",
		"CouponsSweepFunctionLogs8C97A2E7", "CouponsSweepLive399E39D3", "Entries3C9817F4", "OrdersDeadLetterBucketC7A89C1E",
		"OrdersDestinationA6753B98", "OrdersFunction520DBA95", "OrdersFunctionLogsCBDDBDA2", "OrdersLiveB822C13A",
		"OrdersMappingD4FD638A", "OrdersNotifyQueueA7661342", "OrdersSourceA1118721",
	}},
	{"example", example("tickets"), []string{
		"Key961B73FD", "OrdersDeadLetterBucketC7A89C1E", "OrdersDestinationA6753B98", "OrdersFunction520DBA95",
		"OrdersFunctionLogsCBDDBDA2", "OrdersLiveB822C13A", "OrdersMappingD4FD638A", "OrdersNotifyQueueA7661342",
		"PaymentsAPI01D74785", "PaymentsAccessLogs264031DF", "PaymentsFunctionCEDF3A54", "PaymentsFunctionLogs154D6FF0",
		"PaymentsLiveA46D4679", "SeatsAPI5A7EB66A", "SeatsAccessLogsF0B2B466", "SeatsBankTableE55A8D8D",
		"SeatsFunctionE0B287F1", "SeatsFunctionLogs3D534D78", "SeatsLive6C916E50", "SeatsSweepFunctionF2DD7E7D",
		"SeatsSweepFunctionLogsA7924B32", "SeatsSweepLiveE1466799", "Seen47A6A2AD",
	}},
	{"example-history", example("vouchers"), []string{
		"ArchiveDA4CB258", "Changes510ED4B0", "ClaimsE8D96B24", "HistoryDeadLetterBucket95329045", "HistoryDedupeTableB99570C9",
		"HistoryFunction20D4D2CA", "HistoryFunctionLogsF85855B2", "HistoryLiveD2769BB9", "HistoryMapping3C489019",
		"HistoryNotifyQueueB6C0E6BF", "VouchersAPI38F8554F", "VouchersAccessLogsE94F5DEC", "VouchersBankTable8B47DC17",
		"VouchersFunctionEE9A12EE", "VouchersFunctionLogsF4986955", "VouchersLiveF7260002", "VouchersSweepFunctionBB7CA25D",
		"VouchersSweepFunctionLogs681F057D", "VouchersSweepLive6F5B3D07",
	}},
}

// TestTheirStacks checks the invariants and the logical ids of stacks without a golden.
func TestTheirStacks(t *testing.T) {
	testengine.CheckOnly(t)
	for _, s := range theirStacks {
		t.Run(s.name, func(t *testing.T) {
			made := s.make(t)
			for _, wrong := range broken(made, nil) {
				t.Error(wrong)
			}
			if got := idsOfWhatKeepsData(made); !slices.Equal(got, s.ids) {
				t.Errorf("got %v\nwant %v", got, s.ids)
			}
		})
	}
}

// TestHistoryReadsClaims checks that the stream of the history gets the changes of claims and no others: entries of the
// history itself would be changes without end.
func TestHistoryReadsClaims(t *testing.T) {
	testengine.CheckOnly(t)
	tpl := example("vouchers")(t)
	for id, table := range tpl.resources(tableType) {
		want := ""
		if id == "ClaimsE8D96B24" {
			want = "${Changes510ED4B0.Arn}"
		}
		if got := rendered(at(table, replica+".KinesisStreamSpecification.StreamArn")); got != want && (got != "null" || want != "") {
			t.Errorf("the changes of %s go to %s", id, got)
		}
	}
	for id, mapping := range tpl.resources(mappingType) {
		if source := rendered(at(mapping, "Properties.EventSourceArn")); source != "${Changes510ED4B0.Arn}" {
			t.Errorf("%s reads %s", id, source)
		}
	}
	for id, function := range tpl.resources(functionType) {
		table := textOf(function, "ONCEBOX_DEDUPE_TABLE")
		if isHistory := nameOf(function) == "dedupe"; isHistory == (table == "${ClaimsE8D96B24}") {
			t.Errorf("%s uses the table %s", id, table)
		}
	}
}

// withFeatureFlags makes both constructs in a stack of another team, with a key and with all feature flags that
// `cdk init` writes to a new cdk.json: many of them change what the CDK makes.
func withFeatureFlags(t *testing.T) template {
	t.Helper()
	cli := filepath.Join(filepath.Dir(testengine.Tool(t, "cdk")), "../cdk/node_modules/aws-cdk")
	content, err := os.ReadFile(filepath.Join(cli, "lib/init-templates/.recommended-feature-flags.json"))
	must(t, err)
	var flags map[string]any
	must(t, json.Unmarshal(content, &flags))
	return synthTheirs(t, flags, func(stack awscdk.Stack) {
		key := awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(theirKey))
		table := infra.TableProps{EncryptionKey: key}
		dedupe, err := infra.NewTable(stack, "Entries", table)
		must(t, err)
		_, err = infra.NewClaimAPI(stack, "Coupons", infra.ClaimAPIProps{
			Auth: infra.AuthIAM, Function: functionProps(t), SweepFunction: sweepProps(t), Table: table, DedupeTable: dedupe,
		})
		must(t, err)
		_, err = infra.NewRecordDedupe(stack, "Orders", infra.RecordDedupeProps{
			Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t),
			Table: table, EncryptionKey: key, DedupeTable: dedupe,
		})
		must(t, err)
	})
}
