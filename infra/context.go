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

	"github.com/oncebox/oncebox/internal/arn"
	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// contextPrefix is the beginning of the names of all context values of oncebox.
const contextPrefix = "oncebox:"

// ContextNames lists the context values that [NewStack] reads, without their prefix "oncebox:". The value oncebox:x-y
// is the variable ONCEBOX_X_Y of a function, if the function has such a variable.
func ContextNames() []string { return slices.Concat(stackNames, claimNames, recordNames) }

var (
	stackNames = []string{
		"stack", "jobs", "architecture", "dedupe-table", "warm-read-units", "warm-write-units", "key-arn",
		"former-key-arns", "alarm-topic-arn", "canary", "metrics", "log-level", "system-log-level",
		"log-retention-days", "disposable", "endpoint-url",
		"runbook-base-url", "dashboard", "tracing", "encrypt-environment", "encrypt-logs", "subnet-ids", "security-group-ids",
	}
	claimNames = []string{
		"auth", "jwt-issuer", "jwt-audience", "jwt-scopes", "link-keys", "claimant-from", "claimants-confirm", "page", "cors-origins",
		"challenge", "challenge-site-key", "challenge-secret-arn", "challenge-url", "challenge-hosts",
		"campaign-cache", "domain-name", "certificate-arn", "execute-api-endpoint", "claim-reserved-concurrency",
		"bank-table", "rate-limit", "burst-limit", "claim-code", "sweep", "sweep-every", "nearly-empty", "sweep-code",
	}
	recordNames = []string{
		"format", "raw-id", "id-path", "fingerprint-path", "volatile", "contexts-path", "ids", "scope", "window", "horizon",
		"natural", "synthetic", "acks", "poison-limit", "source-records", "source-aggregation", "sink",
		"ledger", "expected-rate",
		"source-stream-arn", "source-retention", "dead-letter-bucket", "notify-queue-arn",
		"batch-size", "batch-window", "parallelization", "retries", "record-age",
		"dedupe-code", "dedupe-memory", "dedupe-reserved-concurrency",
	}
)

// contextReader reads context values and collects the problems in them. The constructs check limits.
type contextReader struct {
	*settings.Parser
	problems *problems
}

// newContextReader reads the context values of oncebox as texts. On the command line all values are texts; cdk.json
// may also have numbers, booleans and lists.
func newContextReader(all map[string]any) contextReader {
	values, wrong := map[string]string{}, &problems{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, contextPrefix) {
			continue
		}
		value, ok := contextText(all[name])
		switch {
		case !ok:
			wrong.add("%s is an object; write a text, a number, true, false, or a list of these", name)
		case strings.Contains(value, "${Token["):
			wrong.add("%s contains ${Token[, which the CDK reserves", name)
		default:
			values[name] = value
		}
	}
	c := contextReader{settings.NewParserOf(values), wrong}
	known := ContextNames()
	for i, name := range known {
		known[i] = contextPrefix + name
	}
	c.RefuseOthers(known)
	return c
}

// err returns an error that lists all problems, or nil.
func (c contextReader) err() error {
	return errors.Join(c.problems.err(), contextNaming.functionError(c.Err()))
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

// refuse records a wrong value, and what to write instead.
func (c contextReader) refuse(name, instead string) {
	c.problems.add("%s%s is %q; %s", contextPrefix, name, c.text(name), instead)
}

// number returns 0 if the value is not set. Props read 0 as the default. If 0 is not an allowed value, smallest is
// above 0.
func (c contextReader) number(name string, smallest int) int {
	return c.Number(contextPrefix+name, 0, smallest, math.MaxInt32)
}

// duration returns 0 if the value is not set, as number does.
func (c contextReader) duration(name string, shortest time.Duration) time.Duration {
	return c.Duration(contextPrefix+name, 0, shortest, math.MaxInt64, "a duration, as in "+settings.DurationForms)
}

func (c contextReader) onOff(name string, fallback bool) bool {
	return c.Switch(contextPrefix+name, fallback)
}

// oneOf reads one of several words. The first is the default.
func (c contextReader) oneOf(name string, words ...string) string {
	text := c.text(name)
	if text == "" {
		return words[0]
	}
	if !slices.Contains(words, text) {
		last := len(words) - 1
		c.refuse(name, "choose "+strings.Join(words[:last], ", ")+" or "+words[last])
	}
	return text
}

// arnNames describes the text after the account in the ARNs of a service, in the form for users and as a pattern.
var arnNames = map[string]struct{ form, pattern string }{
	"acm":            {"certificate/ID", `certificate/[a-zA-Z0-9-]+`},
	"kinesis":        {"stream/NAME", `stream/[a-zA-Z0-9_.-]+`},
	"kms":            {"key/NAME", `key/[a-zA-Z0-9_.-]+`},
	"secretsmanager": {"secret:NAME-XXXXXX", `secret:[a-zA-Z0-9/_+=.@-]+-[a-zA-Z0-9]{6}`},
	"sns":            {"NAME", `[a-zA-Z0-9_.-]+`},
	"sqs":            {"NAME", `[a-zA-Z0-9_.-]+`},
}

func arnForm(service string) *regexp.Regexp {
	return regexp.MustCompile(`^arn:aws[a-z-]*:` + service + `:[a-z0-9-]+:[0-9]{12}:` + arnNames[service].pattern + `$`)
}

// arn returns the ARN of an existing resource of a service. It returns "" for a malformed ARN, because the CDK would
// panic.
func (c contextReader) arn(name, service string) string {
	text := c.text(name)
	if text == "" || arnForm(service).MatchString(text) {
		return text
	}
	if service == "kinesis" && strings.Contains(text, consumerPath) {
		c.refuse(name, "it is a consumer of a stream; write the ARN of the stream: "+enhancedFanOut)
		return ""
	}
	c.refuse(name, "write an ARN, arn:aws:"+service+":REGION:ACCOUNT:"+arnNames[service].form)
	return ""
}

// formerKeys returns the ARNs of the keys that were used before key. All must be in one region, as all resources of
// the stack are.
func (c contextReader) formerKeys(key string) []string {
	const name = "former-key-arns"
	all := c.list(name)
	for i, former := range all {
		switch {
		case !arnForm("kms").MatchString(former):
			c.refuse(name, "write ARNs, arn:aws:kms:REGION:ACCOUNT:key/NAME, with commas between them")
			return nil
		case former == key || slices.Contains(all[:i], former):
			c.refuse(name, "write each former key once, and not the key of oncebox:key-arn")
			return nil
		case regionOf(former) != regionOf(cmp.Or(key, all[0])):
			c.refuse(name, "a key is in another region than the others; nothing of this stack was encrypted with it")
			return nil
		}
	}
	return all
}

func regionOf(text string) string {
	a, _ := arn.Parse(text)
	return a.Region
}

// ids reads the ids of resources of EC2, which begin with the name of their kind.
func (c contextReader) ids(name, kind string) []string {
	all := c.list(name)
	form := regexp.MustCompile(`^` + kind + `-([0-9a-f]{8}|[0-9a-f]{17})$`)
	wrong := func(id string) bool { return !form.MatchString(id) }
	if slices.ContainsFunc(all, wrong) || len(slices.Compact(slices.Sorted(slices.Values(all)))) < len(all) {
		c.refuse(name, "write different ids with commas between, as in "+kind+"-0a1b2c3d4e5f60718")
		return nil
	}
	return all
}

// stackName is CloudFormation's rule for names of stacks. The CDK panics for other names.
var stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)

func (c contextReader) stackName() string {
	name := cmp.Or(c.text("stack"), defaultStack)
	if !stackName.MatchString(name) {
		c.refuse("stack", "the name of a stack has 1 to 128 of a-z, A-Z, 0-9 and -, and begins with a letter")
		return defaultStack
	}
	return name
}

// bucketDots matches dots that S3 does not allow in names. The CDK panics for such names.
var bucketDots = regexp.MustCompile(`\.\.|\.-|-\.|^[0-9]+(\.[0-9]+){3}$`)

// bucket returns the name of an existing bucket. It returns "" for a malformed name, as arn does.
func (c contextReader) bucket(name string) string {
	text := c.text(name)
	if text == "" {
		return ""
	}
	if _, err := deadletter.ParseSetting("s3://" + text + "/poison"); err != nil || bucketDots.MatchString(text) {
		c.refuse(name, "the name of a bucket has 3 to 63 of a-z, 0-9, . and -, and dots only between letters or digits")
		return ""
	}
	return text
}

// jobs returns the jobs of the stack. There is no default, because a user who wants one job must not pay for the
// other.
func (c contextReader) jobs() (claims, records bool) {
	jobs := c.list("jobs")
	if len(jobs) == 0 {
		c.problems.add("oncebox:jobs is not set; choose claims (the claim API and its tables, which cost little until they " +
			"are used), records (the dedupe function; the two on-demand streams that it makes cost about 58 USD a month " +
			"without a record), or claims,records for both")
	}
	for _, job := range jobs {
		switch job {
		case "claims":
			claims = true
		case "records":
			records = true
		default:
			c.refuse("jobs", "choose claims, records, or claims,records")
			return claims, records
		}
	}
	return claims, records
}

// logRetention returns a number of days that CloudWatch Logs permits.
func (c contextReader) logRetention() awslogs.RetentionDays {
	days := c.number("log-retention-days", 1)
	if days == 0 {
		return ""
	}
	retention, ok := logRetentions[days]
	if !ok {
		c.refuse("log-retention-days", fmt.Sprint("CloudWatch Logs offers ", slices.Sorted(maps.Keys(logRetentions))))
	}
	return retention
}

var logRetentions = map[int]awslogs.RetentionDays{
	1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
	7: awslogs.RetentionDays_ONE_WEEK, 14: awslogs.RetentionDays_TWO_WEEKS,
	30: awslogs.RetentionDays_ONE_MONTH, 60: awslogs.RetentionDays_TWO_MONTHS, 90: awslogs.RetentionDays_THREE_MONTHS,
	120: awslogs.RetentionDays_FOUR_MONTHS, 150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS,
	365: awslogs.RetentionDays_ONE_YEAR, 400: awslogs.RetentionDays_THIRTEEN_MONTHS,
	545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
	1096: awslogs.RetentionDays_THREE_YEARS, 1827: awslogs.RetentionDays_FIVE_YEARS, 2192: awslogs.RetentionDays_SIX_YEARS,
	2557: awslogs.RetentionDays_SEVEN_YEARS, 2922: awslogs.RetentionDays_EIGHT_YEARS, 3288: awslogs.RetentionDays_NINE_YEARS,
	3653: awslogs.RetentionDays_TEN_YEARS,
}
