package infra

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// A parameter of a plain template has the meaning of a key of the settings file: LogLevel is log-level. Names and
// values are the same, with these exceptions: BatchWindowSeconds is batch-window in seconds, DedupeMemory is the key
// memory of the part records, SystemLogLevel is in capitals, Window has one unit, paths have no escapes, and NearlyEmpty
// cannot leave the alarm out. Patterns and rules of CloudFormation replace the functions' parsers. They accept nothing
// that a function would refuse at its start, except for paths that lead into each other.
type parameter struct {
	name, group, fallback, description string

	templates   []string // the templates of records that have it; nil: all
	required    bool
	words       []string // the only allowed values
	pattern     string   // the pattern of the whole text
	says        string   // what to write instead of a value that does not match the pattern
	maxLength   int
	least, most int // the limits of a number; most = 0 means no upper limit
}

// These are the groups of parameters, in the order in which the console shows them.
const (
	codeParameters   = "Code"
	claimParameters  = "Claims"
	recordParameters = "Records"
	logParameters    = "Logs and alarms"
)

// ofStreams are the templates whose function reads a stream.
var ofStreams = []string{"both", "records", recordsOfStream}

var switchWords = []string{"off", "on"}

// These are patterns of values. A path has names and indexes, separated by dots.
const (
	linkKeyPattern = `MCowBQYDK2VwAyEA[A-Za-z0-9+/]{43}=` // an Ed25519 key in the form of RFC 8410
	originPattern  = `https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?`
	namePattern    = `[^\s.,\\*?#|@!\[{][^\s.,\\*?#|]*`
	pathPattern    = namePattern + `(\.` + namePattern + `)*`
)

// templateParameters are the parameters of all plain templates. A parameter that is part of a function's version has
// a maximum length, because together these parameters are a description (see setVersion).
var templateParameters = []parameter{
	{
		name: "CodeBucket", group: codeParameters, required: true,
		description: "Bucket in this region with the zips of the release",
		pattern:     `[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]`, says: "must be the name of a bucket",
	},
	{
		name: "CodePrefix", group: codeParameters, maxLength: 24,
		description: "What stands before the names of the zips, as in oncebox/",
		pattern:     `([A-Za-z0-9._/-]*/)?`, says: "must end with a slash, or be empty",
	},
	{
		name: "Architecture", group: codeParameters, fallback: "arm64", words: []string{"arm64", "x86_64"},
		description: "arm64 costs a fifth less per GB-second",
	},

	{
		name: "Auth", group: claimParameters, fallback: "iam", words: []string{"iam", "jwt", "link"},
		description: "Who may call the API: callers with IAM permissions, with a token (jwt), or with a personal link",
	},
	{
		name: "JwtIssuer", group: claimParameters, description: "With Auth=jwt: https URL of the issuer of the tokens",
		pattern: `(https://[^\s,]+)?`, says: "must be an https URL",
	},
	{
		name: "JwtAudience", group: claimParameters,
		description: "With Auth=jwt: audiences of the tokens, with commas between",
		pattern:     `([^\s,]+(,[^\s,]+)*)?`, says: "must be names with commas between, without spaces",
	},
	{
		name: "LinkKeys", group: claimParameters, maxLength: 121,
		description: "With Auth=link: one or two public keys that oncebox links keygen made, with a comma between",
		pattern:     `(` + linkKeyPattern + `(,` + linkKeyPattern + `)?)?`,
		says:        "must be one or two public keys with a comma between",
	},
	{
		name: "ClaimantFrom", group: claimParameters, maxLength: 40,
		description: "Who the claimant is: empty is body with Auth=iam, jwt:sub with Auth=jwt, and link with Auth=link",
		pattern:     `(body|iam|iam:session|iam:role|link|jwt:[^\s]+)?`,
		says:        "must be body, iam, iam:session, iam:role, link, jwt:CLAIM, or empty",
	},
	{
		name: "ClaimantsConfirm", group: claimParameters, fallback: "off", words: switchWords,
		description: "Whether claimants may confirm their own holds",
	},
	{
		name: "Page", group: claimParameters, fallback: "off", words: switchWords,
		description: "Whether the API serves the claim page; needs Auth=link or jwt",
	},
	{
		name: "CorsOrigins", group: claimParameters,
		description: "Origins of sites whose pages call the API, with commas between",
		pattern:     `(` + originPattern + `(,` + originPattern + `)*)?`, says: "must be origins such as https://shop.example",
	},
	{
		name: "RateLimit", group: claimParameters, fallback: strconv.Itoa(defaultClaimRate), least: 1,
		description: "Requests per second to a route",
	},
	{
		name: "BurstLimit", group: claimParameters, fallback: strconv.Itoa(defaultClaimRate), least: 1,
		description: "Requests at once to a route",
	},
	{
		name: "NearlyEmpty", group: claimParameters, fallback: strconv.Itoa(defaultNearlyEmpty), least: 1,
		description: "Free items of an open campaign at which an alarm goes off",
	},

	{
		name: "Source", group: recordParameters, templates: []string{recordsOfStream}, required: true,
		description: "ARN of the Kinesis stream to read; it must keep its records for at most 14 days",
		pattern:     strings.Trim(arnForm("kinesis").String(), "^$"), says: "must be the ARN of a Kinesis stream",
	},
	{
		name: "Source", group: recordParameters, templates: []string{recordsOfQueue}, required: true,
		description: "ARN of the queue to read; it needs a dead-letter queue, a visibility timeout of at least 6 minutes, and " +
			"may keep messages for at most 14 days together with that queue",
		pattern: strings.Trim(arnForm("sqs").String(), "^$"), says: "must be the ARN of a queue",
	},
	{
		name: "IdPath", group: recordParameters, fallback: "id", maxLength: 40, pattern: pathPattern,
		says: "must be a path of names with dots between", description: "Path of the id in a JSON record",
	},
	{
		name: "FingerprintPath", group: recordParameters, maxLength: 40, pattern: `(` + pathPattern + `)?`,
		says:        "must be a path of names with dots between, or empty",
		description: "Path of the fingerprint; empty is a hash of the record",
	},
	{
		name: "Volatile", group: recordParameters, maxLength: 48, pattern: `(` + pathPattern + `(,` + pathPattern + `)*)?`,
		says:        "must be paths with commas between",
		description: "Paths of members that the hash leaves out, with commas between",
	},
	{
		name: "Ids", group: recordParameters, fallback: "first-keeps", words: []string{"derived", "first-keeps"},
		description: "Which ids synthetic duplicates get",
	},
	{
		name: "Window", group: recordParameters, fallback: "48h", maxLength: 8, pattern: `[1-9][0-9]{0,3}[dh]|[1-9][0-9]{0,6}[ms]`,
		says: "must be a duration such as 48h or 7d", description: "How long after a record a copy is a duplicate",
	},
	{
		name: "Natural", group: recordParameters, fallback: "on", words: switchWords,
		description: "Whether copies with the same payload are dropped",
	},
	{
		name: "Synthetic", group: recordParameters, fallback: "on", words: switchWords,
		description: "Whether records with a taken id get another id",
	},
	{
		name: "DedupeMemory", group: recordParameters, fallback: strconv.Itoa(dedupeFunction.memoryMiB),
		least: minMemoryMiB, most: maxMemoryMiB, description: "Memory of the function in MiB",
	},
	{
		name: "BatchSize", group: recordParameters, templates: ofStreams,
		fallback: strconv.Itoa(defaultBatchSize), least: 1, most: maxBatchSize, description: "Most records in a batch",
	},
	{
		name: "BatchSize", group: recordParameters, templates: []string{recordsOfQueue},
		fallback: strconv.Itoa(smallQueueBatch), least: 1, most: smallQueueBatch, description: "Most messages in a batch",
	},
	{
		name: "BatchWindowSeconds", templates: ofStreams, group: recordParameters, fallback: "0", most: int(longestBatchWindow.Seconds()),
		description: "How long Lambda collects a batch",
	},
	{
		name: "Parallelization", templates: ofStreams, group: recordParameters, fallback: "1", least: 1, most: maxParallelization,
		description: "Batches of a shard at the same time",
	},
	{
		name: "Retries", templates: ofStreams, group: recordParameters, fallback: strconv.Itoa(maxRetries), least: -1, most: maxRetries,
		description: "How often Lambda sends a failed batch again; -1 has no limit other than its age",
	},

	{
		name: "AlarmTopic", group: logParameters, description: "SNS topic that gets the alarms",
		pattern: `(` + strings.Trim(arnForm("sns").String(), "^$") + `)?`, says: "must be the ARN of an SNS topic",
	},
	{
		name: "LogLevel", group: logParameters, fallback: "info", words: []string{"debug", "info", "warn", "error"},
		description: "Lowest level of the functions' log lines",
	},
	{
		name: "SystemLogLevel", group: logParameters, fallback: "INFO", words: []string{"DEBUG", "INFO", "WARN"},
		description: "Lowest level of Lambda's own log lines",
	},
	{
		name: "LogRetentionDays", group: logParameters, fallback: "30", words: retentionWords(),
		description: "How long logs are kept",
	},
}

func retentionWords() (words []string) {
	for _, days := range slices.Sorted(maps.Keys(logRetentions)) {
		words = append(words, strconv.Itoa(days))
	}
	return words
}

// parameterOf returns the parameter with a name. The parameter must exist.
func parameterOf(name string) parameter {
	i := slices.IndexFunc(templateParameters, func(p parameter) bool { return p.name == name })
	return templateParameters[i]
}

// isNumber reports whether the parameter has the type Number. Numbers have a default.
func (p parameter) isNumber() bool {
	_, err := strconv.Atoi(p.fallback)
	return err == nil
}

// longest returns the length of the longest value.
func (p parameter) longest() int {
	longest := max(p.maxLength, len(strconv.Itoa(p.most)))
	for _, word := range p.words {
		longest = max(longest, len(word))
	}
	return longest
}

func (p parameter) props() *awscdk.CfnParameterProps {
	props := &awscdk.CfnParameterProps{Type: jsii.String("String"), Description: &p.description}
	if !p.required {
		props.Default = p.fallback
	}
	if p.isNumber() {
		props.Type = jsii.String("Number")
	}
	switch {
	case p.words != nil:
		props.AllowedValues = jsii.Strings(p.words...)
	case p.isNumber():
		props.MinValue = jsii.Number(p.least)
		if p.most != 0 {
			props.MaxValue = jsii.Number(p.most)
		}
	default:
		props.AllowedPattern, props.ConstraintDescription = jsii.String("^("+p.pattern+")$"), &p.says
	}
	if p.maxLength > 0 {
		props.MaxLength = jsii.Number(p.maxLength)
	}
	return props
}

// addParameters adds the parameters of the jobs, in groups for the console.
func (t *templateStack) addParameters(withClaims, withRecords bool) {
	var groups []map[string]any
	for _, group := range []string{codeParameters, claimParameters, recordParameters, logParameters} {
		if group == claimParameters && !withClaims || group == recordParameters && !withRecords {
			continue
		}
		var names []string
		for _, p := range templateParameters {
			if p.group == group && (p.templates == nil || slices.Contains(p.templates, t.name)) {
				t.parameters[p.name] = awscdk.NewCfnParameter(t.stack, &p.name, p.props())
				names = append(names, p.name)
			}
		}
		groups = append(groups, map[string]any{"Label": map[string]any{"default": group}, "Parameters": names})
	}
	t.stack.TemplateOptions().SetMetadata(&map[string]any{
		"AWS::CloudFormation::Interface": map[string]any{"ParameterGroups": groups},
	})
}

// A rule lets CloudFormation refuse parameters that do not fit together before it makes anything, as infra refuses
// settings.
type rule struct {
	name      string
	when      awscdk.ICfnRuleConditionExpression
	mustBe    awscdk.ICfnConditionExpression
	otherwise string
}

func (t *templateStack) addRules(rules ...rule) {
	for _, r := range rules {
		awscdk.NewCfnRule(t.stack, &r.name, &awscdk.CfnRuleProps{
			RuleCondition: r.when,
			Assertions:    &[]*awscdk.CfnRuleAssertion{{Assert: r.mustBe, AssertDescription: &r.otherwise}},
		})
	}
}

// has returns the condition that a parameter has one of the values.
func (t *templateStack) has(parameter string, values ...string) awscdk.ICfnRuleConditionExpression {
	return awscdk.Fn_ConditionContains(jsii.Strings(values...), t.parameters[parameter].ValueAsString())
}

// hasNot returns the opposite condition of has.
func (t *templateStack) hasNot(parameter string, values ...string) awscdk.ICfnRuleConditionExpression {
	return awscdk.Fn_ConditionNot(t.has(parameter, values...))
}

// addClaimRules refuses parameters that checkAuth and checkPage would refuse.
func (t *templateStack) addClaimRules() {
	t.addRules(
		rule{"IssuerOfTokens", t.has("Auth", "jwt"), t.hasNot("JwtIssuer", ""), "Auth=jwt needs JwtIssuer"},
		rule{
			"AudienceOfTokens", t.has("Auth", "jwt"), t.hasNot("JwtAudience", ""),
			"Auth=jwt needs JwtAudience: without one, the API would accept every token of the issuer",
		},
		rule{"TokensOfIssuer", t.hasNot("JwtIssuer", ""), t.has("Auth", "jwt"), "JwtIssuer needs Auth=jwt"},
		rule{"TokensOfAudience", t.hasNot("JwtAudience", ""), t.has("Auth", "jwt"), "JwtAudience needs Auth=jwt"},
		rule{"KeysOfLinks", t.has("Auth", "link"), t.hasNot("LinkKeys", ""), "Auth=link needs LinkKeys"},
		rule{"LinksOfKeys", t.hasNot("LinkKeys", ""), t.has("Auth", "link"), "LinkKeys needs Auth=link"},
		rule{
			"PageForBrowsers", t.has("Page", "on"), t.hasNot("Auth", "iam"),
			"Page=on needs Auth=link or Auth=jwt: browsers sign no requests",
		},
		rule{
			"ClaimantsByLink", t.has("Auth", "link"), t.has("ClaimantFrom", "", "link"),
			"With Auth=link, ClaimantFrom is link or empty",
		},
		rule{
			"ClaimantsByIAM", t.has("Auth", "iam"), t.has("ClaimantFrom", "", "body", "iam", "iam:session", "iam:role"),
			"With Auth=iam, ClaimantFrom is body, iam, iam:session, iam:role or empty",
		},
		rule{
			"ClaimantsByToken", t.has("Auth", "jwt"), t.hasNot("ClaimantFrom", "body", "iam", "iam:session", "iam:role", "link"),
			"With Auth=jwt, ClaimantFrom is jwt:CLAIM or empty: body would let everybody with a token claim under any name",
		},
	)
}

// addRecordRules refuses parameters that the dedupe function would refuse at its start.
func (t *templateStack) addRecordRules() {
	id := t.parameters["IdPath"].ValueAsString()
	for _, name := range []string{"FingerprintPath", "Volatile"} {
		t.addRules(rule{
			"IdIsNo" + name, nil, awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(id, t.parameters[name].ValueAsString())),
			name + " is the path of the id; choose another member",
		})
	}
	for _, name := range []string{"Natural", "Synthetic"} {
		t.addRules(rule{
			name + "WithDerivedIds", t.has("Ids", "derived"), t.has(name, "on"),
			name + "=off needs Ids=first-keeps: with derived ids no duplicate passes unchanged",
		})
	}
}
