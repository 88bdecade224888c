package infra

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// contextPrefix begins the name of every context value of ours.
const contextPrefix = "oncebox:"

// ContextNames lists the context values that [NewStack] reads, without their prefix
// "oncebox:". A variable ONCEBOX_X_Y of a function that is the user's to set is
// oncebox:x-y.
func ContextNames() []string { return slices.Concat(stackNames, claimNames, recordNames) }

var (
	stackNames = []string{
		"stack", "jobs", "architecture", "dedupe-table", "warm-read-units", "warm-write-units", "key-arn", "alarm-topic-arn",
		"log-level", "log-retention-days", "disposable", "endpoint-url",
	}
	claimNames = []string{
		"auth", "jwt-issuer", "jwt-audience", "claimant-from", "campaign-cache", "bank-table", "rate-limit", "burst-limit", "claim-code",
	}
	recordNames = []string{
		"id-path", "fingerprint-path", "volatile", "contexts-path", "ids", "scope", "window", "horizon", "natural", "synthetic", "concurrency",
		"source-stream-arn", "source-retention", "destination-stream-arn", "dead-letter-bucket", "notify-queue-arn",
		"batch-size", "batch-window", "parallelization", "checkpoint", "aggregation", "retries", "record-age", "dedupe-code",
	}
)

// contextReader reads context values and collects what is wrong with them. Limits
// are the constructs' to check.
type contextReader struct{ *settings.Parser }

// newContextReader refuses names that begin with the prefix and are not known.
func newContextReader(node constructs.Node) (contextReader, error) {
	values, err := contextValues(node)
	c := contextReader{settings.NewParserOf(values)}
	known := ContextNames()
	for i, name := range known {
		known[i] = contextPrefix + name
	}
	c.RefuseOthers(known)
	return c, err
}

// contextValues are our context values as texts, which is what the command line
// makes of all; cdk.json also has numbers, truth values and lists.
func contextValues(node constructs.Node) (map[string]string, error) {
	all, _ := node.GetAllContext(nil).(map[string]any)
	values := map[string]string{}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, contextPrefix) {
			continue
		}
		text, ok := contextText(all[name])
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s is neither a text, a number, true or false, nor a list of these", name))
		}
		if strings.Contains(text, "${Token[") { // which the CDK would take for its own
			wrong = append(wrong, fmt.Errorf("%s holds ${Token[, which is the CDK's", name))
		}
		values[name] = text
	}
	return values, errors.Join(wrong...)
}

func contextText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			if parts[i], ok = contextText(v[i]); !ok {
				return "", false
			}
		}
		return strings.Join(parts, ","), true
	}
	return "", false
}

func (c contextReader) text(name string) string   { return c.Text(contextPrefix + name) }
func (c contextReader) list(name string) []string { return c.List(contextPrefix + name) }

// number is 0 where nothing is set. Props take that for the default, so it is not a
// value of what has to be more.
func (c contextReader) number(name string, least int) int {
	return c.Number(contextPrefix+name, 0, least, math.MaxInt32)
}

// duration is 0 where nothing is set, as with number.
func (c contextReader) duration(name string, least time.Duration) time.Duration {
	return c.Duration(contextPrefix+name, 0, least, math.MaxInt64, "a Go duration, as in 90s or 48h")
}

func (c contextReader) onOff(name string, otherwise bool) bool {
	return c.Switch(contextPrefix+name, otherwise)
}

// oneOf reads one of some words; the first is the default.
func (c contextReader) oneOf(name string, words ...string) string {
	text := c.text(name)
	if text == "" {
		return words[0]
	}
	if !slices.Contains(words, text) {
		c.Wrong(contextPrefix+name, "is none of its values", strings.Join(words, ", "))
	}
	return text
}

// arnKinds are what stands before the name in ARNs of a service.
var arnKinds = map[string]string{"kinesis": "stream/", "kms": "key/", "sns": "", "sqs": ""}

// arn reads the ARN of something of a service that exists. A wrong one is "", since
// the CDK panics over it.
func (c contextReader) arn(name, service string) string {
	text := c.text(name)
	form := regexp.MustCompile(`^arn:aws[a-z-]*:` + service + `:[a-z0-9-]+:[0-9]{12}:` + arnKinds[service] + `[a-zA-Z0-9_.-]+$`)
	if text == "" || form.MatchString(text) {
		return text
	}
	c.Wrong(contextPrefix+name, "is not an ARN of "+service, "arn:aws:"+service+":REGION:ACCOUNT:"+arnKinds[service]+"NAME")
	return ""
}

// stackName is CloudFormation's rule. The CDK panics over others.
var stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)

func (c contextReader) stackName() string {
	name := cmp.Or(c.text("stack"), defaultStack)
	if !stackName.MatchString(name) {
		c.Wrong(contextPrefix+"stack", "is not the name of a stack", "1 to 128 of a-z, A-Z, 0-9 and -, the first a letter")
		return defaultStack
	}
	return name
}

// bucketDots are dots that S3 does not have in names. The CDK panics over them.
var bucketDots = regexp.MustCompile(`\.\.|\.-|-\.|^[0-9]+(\.[0-9]+){3}$`)

// bucket reads the name of a bucket that exists. A wrong one is "", as with arn.
func (c contextReader) bucket(name string) string {
	text := c.text(name)
	if text == "" {
		return ""
	}
	if _, err := deadletter.ParseSetting("s3://" + text + "/poison"); err != nil || bucketDots.MatchString(text) {
		c.Wrong(contextPrefix+name, "is not the name of a bucket", "3 to 63 of a-z, 0-9, . and -")
		return ""
	}
	return text
}

// jobs reads which jobs the stack has.
func (c contextReader) jobs() (claims, records bool) {
	jobs := c.list("jobs")
	if len(jobs) == 0 {
		return true, true
	}
	for _, job := range jobs {
		switch job {
		case "claims":
			claims = true
		case "records":
			records = true
		default:
			c.Wrong(contextPrefix+"jobs", "has an unknown job", "claims, records, or both with a comma between")
		}
	}
	return claims, records
}

// logRetention reads a number of days that CloudWatch Logs has.
func (c contextReader) logRetention() awslogs.RetentionDays {
	days := c.number("log-retention-days", 1)
	if days == 0 {
		return ""
	}
	retention, ok := logRetentions[days]
	if !ok {
		c.Wrong(contextPrefix+"log-retention-days", "is a number of days that CloudWatch Logs does not have",
			strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(logRetentions))), "[]"))
	}
	return retention
}

var logRetentions = map[int]awslogs.RetentionDays{
	1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
	7: awslogs.RetentionDays_ONE_WEEK, 14: awslogs.RetentionDays_TWO_WEEKS, 30: awslogs.RetentionDays_ONE_MONTH,
	60: awslogs.RetentionDays_TWO_MONTHS, 90: awslogs.RetentionDays_THREE_MONTHS, 120: awslogs.RetentionDays_FOUR_MONTHS,
	150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS, 365: awslogs.RetentionDays_ONE_YEAR,
	400: awslogs.RetentionDays_THIRTEEN_MONTHS, 545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
	1096: awslogs.RetentionDays_THREE_YEARS, 1827: awslogs.RetentionDays_FIVE_YEARS, 2192: awslogs.RetentionDays_SIX_YEARS,
	2557: awslogs.RetentionDays_SEVEN_YEARS, 2922: awslogs.RetentionDays_EIGHT_YEARS, 3288: awslogs.RetentionDays_NINE_YEARS,
	3653: awslogs.RetentionDays_TEN_YEARS,
}
