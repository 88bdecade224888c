package stack

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(root + file)
	must(t, err)
	return string(text)
}

// fixedPartition matches ARNs of one partition, and names of services in it. A service principal has the same name in
// every partition.
var fixedPartition = regexp.MustCompile(`arn:aws:|[a-z0-9]\.amazonaws\.com`)

// everywhere lists the texts with such a name that are valid in each partition.
var everywhere = regexp.MustCompile(`"(lambda|events|apigateway)\.amazonaws\.com"|\*\.amazonaws\.com\*`)

// TestOtherPartitions makes everything in China, in GovCloud and in a region that only the deployment knows.
func TestOtherPartitions(t *testing.T) {
	for _, region := range []string{"cn-north-1", "us-gov-west-1", ""} {
		var env *awscdk.Environment
		if region != "" {
			env = &awscdk.Environment{Account: jsii.String("123456789012"), Region: &region}
		}
		app := newApp(t, nil)
		stack := awscdk.NewStack(app, jsii.String("theirs"), &awscdk.StackProps{Env: env})
		key := awskms.NewKey(stack, jsii.String("Key"), nil)
		function := functionProps(t)
		function.LogKey, function.EnvironmentKey, function.Tracing = key, key, true
		claims, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{
			Auth: infra.AuthIAM, Function: function, SweepFunction: sweepProps(t),
		})
		must(t, err)
		_, err = claims.GrantInvoke(claims.Sweep)
		must(t, err)
		records, err := infra.NewRecordDedupe(stack, "Records", infra.RecordDedupeProps{
			Settings: recordhandler.Settings{IDPath: "id"}, Function: function, EncryptionKey: key,
		})
		must(t, err)
		_, err = infra.NewDashboard(stack, "Board", infra.DashboardProps{
			Claims: []*infra.ClaimAPI{claims}, Records: []*infra.RecordDedupe{records},
		})
		must(t, err)
		encoded, err := json.Marshal(templateOf(t, app, stack)["Resources"])
		must(t, err)
		text := everywhere.ReplaceAllString(string(encoded), "")
		for _, found := range fixedPartition.FindAllStringIndex(text, -1) {
			t.Errorf("%q: %s", region, text[max(0, found[0]-80):min(len(text), found[1]+80)])
		}
		if !strings.Contains(text, "execute-api") {
			t.Error("nothing may call the API")
		}
	}
}
