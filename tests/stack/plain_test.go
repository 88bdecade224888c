package stack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimapi"
)

// plainRelease is the release of the plain templates among the goldens.
const plainRelease = "1.2.3"

// plainGoldens are the plain templates that a release holds.
var plainGoldens = []golden{
	{name: "plain-claims", bases: onClaims, make: plain("claims", plainRelease)},
	{name: "plain-records", bases: onRecords, make: plain("records", plainRelease)},
	{name: "plain-records-of-stream", bases: []string{"plain-records"}, make: plain("records-of-stream", plainRelease)},
	{name: "plain-records-of-queue", bases: []string{"plain-records"}, make: plain("records-of-queue", plainRelease)},
	{name: "plain-both", bases: []string{"plain-claims", "plain-records"}, make: plain("both", plainRelease)},
}

// plain makes a plain template.
func plain(name, release string) func(t *testing.T) template {
	return func(t *testing.T) template {
		t.Helper()
		app := newApp(t, nil)
		stack, err := infra.NewTemplate(app, name, release)
		must(t, err)
		return templateOf(t, app, stack)
	}
}

// withoutPart are the settings that make the stack of a plain template.
var withoutPart = map[string]string{
	"claims": "records=none", "records": "claims=none", "both": "stack=oncebox",
	"records-of-stream": "claims=none; source-retention=14d; record-age=19h12m",
	"records-of-queue":  "claims=none; source-retention=14d",
}

// theirCode are the parameters that a user must set.
const theirCode = "CodeBucket=their-code"

// plainSettings are settings of plain templates. Each parameter has its default in one of them and another value in
// another, and each Auth is among them.
var plainSettings = []struct{ template, parameters string }{
	{"claims", theirCode},
	{"records", theirCode},
	{"both", theirCode},
	{"claims", theirCode + "; CodePrefix=oncebox/; Architecture=x86_64; Auth=jwt; JwtAudience=web,mobile; " +
		"JwtIssuer=https://issuer.example/pool; ClaimantFrom=jwt:email; ClaimantsConfirm=on; Page=on; " +
		"CorsOrigins=https://a.example,https://b.example; RateLimit=1; BurstLimit=2; NearlyEmpty=5; LogLevel=warn; " +
		"SystemLogLevel=WARN; LogRetentionDays=3653; AlarmTopic=" + theirTopic},
	{"claims", theirCode + "; Auth=link; Page=on; LinkKeys=" + linkKey + "," + otherLinkKey},
	{"claims", theirCode + "; Auth=link; ClaimantFrom=link; LinkKeys=" + linkKey},
	{"claims", theirCode + "; ClaimantFrom=iam:role"},
	{"records", theirCode + "; IdPath=event.id; FingerprintPath=event.print; Volatile=sent_at,trace; Ids=derived; " +
		"Window=36h; DedupeMemory=10240; BatchSize=10000; BatchWindowSeconds=300; Parallelization=10; Retries=-1; " +
		"SystemLogLevel=DEBUG; AlarmTopic=" + theirTopic},
	{"records-of-stream", theirCode + "; Source=arn:aws:kinesis:eu-west-1:123456789012:stream/orders; BatchSize=500"},
	{"records-of-queue", theirCode + "; Source=arn:aws:sqs:eu-west-1:123456789012:orders; BatchSize=5"},
	{"both", theirCode + "; Natural=off; Synthetic=off; LogLevel=debug"},
}

// TestPlainTemplatesAreTheStack compares plain templates, with values for their parameters, with the stack that the
// settings of the same names make: the resources, their properties and their policies, and the outputs.
func TestPlainTemplatesAreTheStack(t *testing.T) {
	testengine.CheckOnly(t)
	for _, s := range plainSettings {
		t.Run(s.template+" "+s.parameters, func(t *testing.T) {
			made, err := readGolden(t, "plain-"+s.template).with(values(s.parameters))
			must(t, err)
			want := normalized(t, synth(t, settingsOf(s.parameters, withoutPart[s.template])))
			for _, tpl := range []template{want, made} {
				withoutAllowedDifferences(tpl)
			}
			if found := differences("", want, made); len(found) > 0 {
				t.Errorf("the plain template (stack) differs from the one of the CDK (golden):\n%s", strings.Join(found, "\n"))
			}
		})
	}
}

// settingsOf returns the settings of parameters, with others.
func settingsOf(parameters, others string) map[string]any {
	settings := values(others)
	for name, value := range values(parameters) {
		switch name {
		case "CodeBucket", "CodePrefix":
		case "BatchWindowSeconds":
			settings["batch-window"] = value.(string) + "s"
		case "DedupeMemory":
			settings["records.memory"] = value
		case "LinkKeys", "Volatile":
			settings[keyOfParameter(name)] = value
		default:
			settings[keyOfParameter(name)] = strings.ToLower(value.(string))
		}
	}
	// Parameters show the functions' defaults.
	shown := map[string]any{"log-level": "info", "ids": "first-keeps", "window": "48h", "natural": "on", "synthetic": "on"}
	if settings["records"] == "none" {
		shown = map[string]any{"log-level": "info"}
	}
	return with(shown, settings)
}

var capital = regexp.MustCompile(`[A-Z]`)

// keyOfParameter returns the key of the settings file after which a parameter is named.
func keyOfParameter(parameter string) string {
	return strings.ToLower(strings.TrimPrefix(capital.ReplaceAllString(parameter, "-$0"), "-"))
}

// allowedDifferences lists the allowed differences between plain templates and the CDK's, with reasons.
var allowedDifferences = []struct {
	why   string
	apply func(id string, r map[string]any)
}{
	{"the code is the zips of a release instead of assets", func(_ string, r map[string]any) {
		if r["Type"] == functionType {
			delete(properties(r), "Code")
		}
	}},
	{"the description of a function and its version makes CloudFormation publish versions", func(_ string, r map[string]any) {
		if r["Type"] == functionType || r["Type"] == versionType {
			delete(properties(r), "Description")
		}
	}},
	{"a route of the page waits for its permission itself: both are left out without the page", func(_ string, r map[string]any) {
		if strings.Contains(textAt(r, "Properties.RouteKey"), " /c/") {
			delete(r, "DependsOn")
		}
		if r["Type"] == integration {
			r["DependsOn"] = slices.DeleteFunc(list(r["DependsOn"]), func(id any) bool {
				return strings.Contains(id.(string), "GETccampaign")
			})
		}
	}},
	{"the CDK writes durations with all units", func(_ string, r map[string]any) {
		variables, _ := at(r, "Properties.Environment.Variables").(map[string]any)
		if window, ok := variables["ONCEBOX_WINDOW"].(string); ok {
			variables["ONCEBOX_WINDOW"] = strings.TrimSuffix(window, "0m0s")
		}
	}},
}

func properties(r map[string]any) map[string]any { return r["Properties"].(map[string]any) }

// withoutAllowedDifferences removes the parts that may differ. The CDK's parameters and rules are for its bootstrap,
// and its versions have other names.
func withoutAllowedDifferences(tpl template) {
	for _, section := range []string{"Parameters", "Rules", "Conditions", "Mappings", "Metadata", "Description"} {
		delete(tpl, section)
	}
	delete(tpl["Outputs"].(map[string]any), "Settings") // it is made from no file
	resources := tpl["Resources"].(map[string]any)
	for id, r := range resources {
		for _, d := range allowedDifferences {
			d.apply(id, r.(map[string]any))
		}
	}
	for id, version := range tpl.resources(versionType) {
		name := textAt(version, "Properties.FunctionName.Ref") + "Version"
		delete(resources, id)
		resources[name] = map[string]any(version)
		for _, alias := range tpl.resources(aliasType) {
			if of, ok := at(alias, "Properties.FunctionVersion.Fn::GetAtt").([]any); ok && of[0] == id {
				of[0] = name
			}
		}
	}
}

// TestPlainPage checks that each route of the page waits for its permission. Otherwise the page would answer 500 for
// a moment.
func TestPlainPage(t *testing.T) {
	t.Parallel()
	tpl := readGolden(t, "plain-claims")
	pages := 0
	for id, route := range tpl.resources(routeType) {
		_, path, _ := strings.Cut(textAt(route, "Properties.RouteKey"), " ")
		if !strings.HasPrefix(path, "/c/") {
			continue
		}
		pages++
		permission := tpl.resources(permissionType)[textAt(route, "DependsOn.0")]
		source := list(at(permission, "Properties.SourceArn.Fn::Join.1"))
		if len(source) == 0 || source[len(source)-1] != "/*/*"+path ||
			route["Condition"] != "HasPage" || permission["Condition"] != "HasPage" {
			t.Errorf("%s waits for %v", id, permission)
		}
	}
	if pages != 2 {
		t.Errorf("the page has %d routes, want 2", pages)
	}
}

// TestPlainVersions changes each parameter, and the release. A function must get another version if its properties
// change, and only then. Lambda does not publish a second version of the same function, and CloudFormation reports
// that as an error.
func TestPlainVersions(t *testing.T) {
	t.Parallel()
	tpl := readGolden(t, "plain-both")
	base := "CodeBucket=their-code; Auth=link; LinkKeys=" + linkKey
	first, err := tpl.with(values(base))
	must(t, err)
	changed := map[string]int{}
	for _, other := range []string{
		"CodePrefix=a/", "Architecture=x86_64", "Auth=jwt; LinkKeys=; JwtIssuer=https://a.example; JwtAudience=a",
		"Auth=iam; LinkKeys=", "LinkKeys=" + otherLinkKey, "ClaimantFrom=link", "ClaimantsConfirm=on", "Page=on",
		"CorsOrigins=https://a.example", "RateLimit=9", "BurstLimit=9", "NearlyEmpty=9", "IdPath=a", "FingerprintPath=a", "Volatile=a", "Ids=derived", "Window=1h", "Natural=off",
		"Synthetic=off", "DedupeMemory=128", "BatchSize=9", "BatchWindowSeconds=9", "Parallelization=9", "Retries=9",
		"AlarmTopic=" + theirTopic, "LogLevel=debug", "SystemLogLevel=WARN", "LogRetentionDays=1",
	} {
		for name := range values(other) {
			changed[name]++
		}
		made, err := tpl.with(with(values(base), values(other)))
		must(t, err)
		for id, f := range made.resources(functionType) {
			before := first.resources(functionType)[id]
			version := made.resources(versionType)[id+"Version"]
			if at(f, "Properties.Description") != at(version, "Properties.Description") {
				t.Errorf("%s and its version differ in their descriptions", id)
			}
			described := at(f, "Properties.Description") != at(before, "Properties.Description")
			delete(f.properties(), "Description")
			copied := maps.Clone(before.properties())
			delete(copied, "Description")
			if differs := !reflect.DeepEqual(f.properties(), copied); differs && !described {
				t.Errorf("%s changes %s, which gets no version of it", other, id)
			} else if described && !differs && other != "ClaimantFrom=link" { // which is the default of Auth=link
				t.Errorf("%s does not change %s, which gets a version of it", other, id)
			}
		}
	}
	for name := range tpl["Parameters"].(map[string]any) {
		// Another bucket alone does not mean new code: docs/deploy.md says that zips in it need another prefix.
		if changed[name] == 0 && !slices.Contains([]string{"CodeBucket", "JwtIssuer", "JwtAudience"}, name) {
			t.Errorf("%s was not changed", name)
		}
	}
}

// TestPlainTemplatesOfReleases checks that each release publishes versions, even with the same code.
func TestPlainTemplatesOfReleases(t *testing.T) {
	testengine.CheckOnly(t)
	next := plain("both", "1.2.4")(t)
	for id, version := range readGolden(t, "plain-both").resources(versionType) {
		other := next.resources(versionType)[id]
		if reflect.DeepEqual(at(version, "Properties.Description"), at(other, "Properties.Description")) {
			t.Errorf("%s has the same description in the next release", id)
		}
	}
	_, err := infra.NewTemplate(newApp(t, nil), "claims", strings.Repeat("1", 50))
	if err == nil || !strings.Contains(err.Error(), "name that is too long") {
		t.Errorf("a release whose descriptions would be too long: %v", err)
	}
}

// cdkOnly are names of its bootstrap, accounts and regions.
var cdkOnly = regexp.MustCompile(`(?i)bootstrap/|BootstrapVersion|hnb659fds|\b[0-9]{12}\b|"(us|eu)-[a-z]+-[0-9]`)

// TestPlainTemplatesFit checks that the templates are within the limits of CloudFormation, and contain nothing of the
// CDK or of an account.
func TestPlainTemplatesFit(t *testing.T) {
	t.Parallel()
	const inRequest, inBucket, mostResources, mostParameters = 51200, 1 << 20, 500, 200 // "CloudFormation quotas"
	for _, g := range plainGoldens {
		name, limit := g.name, inRequest
		if name == "plain-both" {
			limit = inBucket
		}
		tpl := readGolden(t, name)
		var short bytes.Buffer
		must(t, json.Compact(&short, encoded(t, tpl)))
		if short.Len() > limit {
			t.Errorf("%s has %d bytes", name, short.Len())
		}
		if n := len(tpl["Resources"].(map[string]any)); n > mostResources {
			t.Errorf("%s has %d resources", name, n)
		}
		if n := len(tpl["Parameters"].(map[string]any)); n > mostParameters {
			t.Errorf("%s has %d parameters", name, n)
		}
		if found := cdkOnly.Find(short.Bytes()); found != nil {
			t.Errorf("%s has %s", name, found)
		}
	}
}

// TestPlainTemplatesRefuse gives plain templates values that CloudFormation refuses before it makes anything.
func TestPlainTemplatesRefuse(t *testing.T) {
	t.Parallel()
	for _, r := range []struct{ parameters, says string }{
		{"", "CodeBucket has no value"},
		{"CodeBucket=Their_Code", "CodeBucket must be the name of a bucket"},
		{"CodePrefix=oncebox", "CodePrefix must end with a slash"},
		{"CodePrefix=" + strings.Repeat("a", 24) + "/", "CodePrefix is longer than 24"},
		{"Architecture=arm", "Architecture is not one of [arm64 x86_64]"},
		{"Auth=open", "Auth is not one of [iam jwt link]"},
		{"Auth=jwt; JwtAudience=web", "Auth=jwt needs JwtIssuer"},
		{"Auth=jwt; JwtIssuer=https://issuer.example", "Auth=jwt needs JwtAudience"},
		{"Auth=jwt; JwtIssuer=http://issuer.example; JwtAudience=web", "JwtIssuer must be an https URL"},
		{"Auth=jwt; JwtIssuer=https://issuer.example; JwtAudience=web,,mobile", "JwtAudience must be names"},
		{"Auth=link", "Auth=link needs LinkKeys"},
		{"LinkKeys=" + linkKey, "LinkKeys needs Auth=link"},
		{"Auth=link; LinkKeys=key", "LinkKeys must be one or two public keys"},
		{"Page=on", "Page=on needs Auth=link or Auth=jwt"},
		{"ClaimantFrom=jwt:sub", "With Auth=iam, ClaimantFrom is"},
		{"ClaimantFrom=everybody", "ClaimantFrom must be body"},
		{"Auth=jwt; JwtIssuer=https://a.example; JwtAudience=a; ClaimantFrom=body", "With Auth=jwt, ClaimantFrom is"},
		{"Auth=link; ClaimantFrom=body; LinkKeys=" + linkKey, "With Auth=link, ClaimantFrom is"},
		{"JwtIssuer=https://issuer.example", "JwtIssuer needs Auth=jwt"},
		{"JwtAudience=web", "JwtAudience needs Auth=jwt"},
		{"Auth=link; LinkKeys=" + strings.Repeat("A", 59) + "=", "LinkKeys must be one or two public keys"},
		{"CorsOrigins=shop.example", "CorsOrigins must be origins"},
		{"CorsOrigins=https://*", "CorsOrigins must be origins"},
		{"CorsOrigins=https://*.shop.example", "CorsOrigins must be origins"},
		{"CorsOrigins=https://Shop.example", "CorsOrigins must be origins"},
		{"CorsOrigins=https://a@shop.example", "CorsOrigins must be origins"},
		{"RateLimit=0", "RateLimit is less than 1"},
		{"RateLimit=many", "RateLimit is no number"},
		{"NearlyEmpty=0", "NearlyEmpty is less than 1"},
		{"IdPath=", "IdPath must be a path"},
		{"IdPath=a..b", "IdPath must be a path"},
		{"IdPath=a|b", "IdPath must be a path"},
		{"IdPath=a\\", "IdPath must be a path"},
		{"FingerprintPath=#", "FingerprintPath must be a path"},
		{"FingerprintPath=id", "FingerprintPath is the path of the id"},
		{"Volatile=a,,b", "Volatile must be paths"},
		{"Volatile=id", "Volatile is the path of the id"},
		{"Window=2 days", "Window must be a duration"},
		{"Window=99999d", "Window must be a duration"},
		{"Window=0h", "Window must be a duration"},
		{"Ids=derived; Natural=off", "Natural=off needs Ids=first-keeps"},
		{"Ids=derived; Synthetic=off", "Synthetic=off needs Ids=first-keeps"},
		{"DedupeMemory=64", "DedupeMemory is less than 128"},
		{"BatchSize=10001", "BatchSize is greater than 10000"},
		{"Retries=-2", "Retries is less than -1"},
		{"AlarmTopic=alarms", "AlarmTopic must be the ARN of an SNS topic"},
		{"LogLevel=all", "LogLevel is not one of"},
		{"SystemLogLevel=info", "SystemLogLevel is not one of"},
		{"LogRetentionDays=2", "LogRetentionDays is not one of"},
		{"NoSuch=1", "there is no parameter NoSuch"},
	} {
		parameters := values(r.parameters)
		if r.parameters == "" {
			parameters = nil
		} else if parameters["CodeBucket"] == nil {
			parameters["CodeBucket"] = "their-code"
		}
		_, err := readGolden(t, "plain-both").with(parameters)
		if err == nil || !strings.Contains(err.Error(), r.says) {
			t.Errorf("%s: want %q, got %v", r.parameters, r.says, err)
		}
	}
}

// TestPlainTemplatesAccept checks that the functions accept the values that patterns accept at their limits.
func TestPlainTemplatesAccept(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{
		"IdPath=a.0.b-c_d/e:f; FingerprintPath=g[0]{1}@!; Volatile=h,i.j; Window=9999d", "Window=9999h", "Window=9999999m",
		"Window=9999999s", "CorsOrigins=https://a.example:8443,http://localhost:3000,https://xn--n3h.example",
	} {
		made, err := readGolden(t, "plain-both").with(with(values(theirCode), values(parameters)))
		must(t, err)
		for id, function := range made.resources(functionType) {
			if wrong := starts(made, function, nil); wrong != "" {
				t.Errorf("%s: %s %s", parameters, id, wrong)
			}
		}
		for _, api := range made.resources(apiType) {
			for _, origin := range list(at(api, "Properties.CorsConfiguration.AllowOrigins")) {
				must(t, claimapi.ValidateOrigin(origin.(string)))
			}
		}
	}
}

// with returns a template as CloudFormation reads it with these parameters: without what conditions leave out. The
// references to resources stay. It returns an error if a value is refused.
func (tpl template) with(parameters map[string]any) (template, error) {
	d := deployment{tpl, map[string]any{"AWS::StackName": "oncebox"}} // as the CDK names it by default
	declared, _ := tpl["Parameters"].(map[string]any)
	for name := range parameters {
		if declared[name] == nil {
			return nil, fmt.Errorf("there is no parameter %s", name)
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		errs = append(errs, d.set(name, declared[name].(map[string]any), parameters[name]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	rules, _ := tpl["Rules"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rule := at(tpl, "Rules."+name)
		for _, assertion := range list(at(rule, "Assertions")) {
			when := at(rule, "RuleCondition")
			if (when == nil || d.holds(when)) && !d.holds(at(assertion, "Assert")) {
				errs = append(errs, errors.New(textAt(assertion, "AssertDescription")))
			}
		}
	}
	made := maps.Clone(tpl)
	for _, section := range []string{"Resources", "Outputs"} {
		made[section] = d.evaluated(tpl[section])
	}
	return made, errors.Join(errs...)
}

// A deployment is a template with the values of its parameters.
type deployment struct {
	template   template
	parameters map[string]any
}

// set sets a parameter, or its default for nil.
func (d deployment) set(name string, p map[string]any, value any) error {
	if value == nil {
		value = p["Default"]
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s has no value", name)
	}
	d.parameters[name] = text
	words := list(p["AllowedValues"])
	switch {
	case words != nil && !slices.Contains(words, any(text)):
		return fmt.Errorf("%s is not one of %v", name, words)
	case p["MaxLength"] != nil && len(text) > int(number(p["MaxLength"])):
		return fmt.Errorf("%s is longer than %v", name, p["MaxLength"])
	case p["AllowedPattern"] != nil && !regexp.MustCompile(p["AllowedPattern"].(string)).MatchString(text):
		return fmt.Errorf("%s %s", name, p["ConstraintDescription"])
	case p["Type"] != "Number":
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	d.parameters[name] = n
	switch {
	case err != nil:
		return fmt.Errorf("%s is no number", name)
	case p["MinValue"] != nil && n < number(p["MinValue"]):
		return fmt.Errorf("%s is less than %v", name, p["MinValue"])
	case p["MaxValue"] != nil && n > number(p["MaxValue"]):
		return fmt.Errorf("%s is greater than %v", name, p["MaxValue"])
	}
	return nil
}

// holds reports whether a condition is true.
func (d deployment) holds(condition any) bool {
	for function, argument := range condition.(map[string]any) {
		arguments := list(argument)
		switch function {
		case "Fn::Equals":
			return d.evaluated(arguments[0]) == d.evaluated(arguments[1])
		case "Fn::Not":
			return !d.holds(arguments[0])
		case "Fn::And":
			return !slices.ContainsFunc(arguments, func(c any) bool { return !d.holds(c) })
		case "Fn::Or":
			return slices.ContainsFunc(arguments, d.holds)
		case "Fn::Contains":
			return slices.Contains(list(arguments[0]), d.evaluated(arguments[1]))
		}
	}
	panic(fmt.Sprintf("unknown condition %v", condition))
}

// A leftOut property has the value AWS::NoValue.
type leftOut struct{}

// evaluated evaluates the functions whose arguments are all known.
func (d deployment) evaluated(value any) any {
	switch v := value.(type) {
	case []any:
		all := []any{}
		for _, element := range v {
			all = append(all, d.evaluated(element))
		}
		return all
	case map[string]any:
		for function, argument := range v {
			if made, ok := d.called(function, argument); ok && len(v) == 1 {
				return made
			}
		}
		all := map[string]any{}
		for name, member := range v {
			condition, _ := at(member, "Condition").(string)
			if condition != "" && at(d.template, "Conditions."+condition) != nil {
				if !d.holds(at(d.template, "Conditions."+condition)) {
					continue
				}
				member = maps.Clone(member.(map[string]any))
				delete(member.(map[string]any), "Condition")
			}
			if made := d.evaluated(member); made != (leftOut{}) {
				all[name] = made
			}
		}
		return all
	}
	return value
}

// joined joins the known parts. With an unknown part it returns a Fn::Join of fewer parts.
func (d deployment) joined(separator string, parts []any) any {
	var all []any
	for _, part := range parts {
		text := d.evaluated(part)
		if number, ok := text.(float64); ok {
			text = strconv.FormatFloat(number, 'f', -1, 64)
		}
		if _, known := text.(string); known && len(all) > 0 {
			if before, ok := all[len(all)-1].(string); ok {
				all[len(all)-1] = before + separator + text.(string)
				continue
			}
		}
		all = append(all, text)
	}
	if text, ok := all[0].(string); ok && len(all) == 1 {
		return text
	}
	return map[string]any{"Fn::Join": []any{separator, all}}
}

// called calls a function of CloudFormation. It returns false for a function that needs resources.
func (d deployment) called(function string, argument any) (any, bool) {
	arguments := list(argument)
	switch function {
	case "Ref":
		if argument == "AWS::NoValue" {
			return leftOut{}, true
		}
		value, ok := d.parameters[argument.(string)]
		return value, ok
	case "Fn::If":
		if d.holds(at(d.template, "Conditions."+arguments[0].(string))) {
			return d.evaluated(arguments[1]), true
		}
		return d.evaluated(arguments[2]), true
	case "Fn::FindInMap":
		return at(d.template, fmt.Sprintf("Mappings.%s.%s.%s", arguments[0], d.evaluated(arguments[1]), arguments[2])), true
	case "Fn::Select":
		all, known := d.evaluated(arguments[1]).([]any)
		i, err := strconv.Atoi(fmt.Sprint(arguments[0]))
		if !known || err != nil {
			return nil, false
		}
		return all[i], true
	case "Fn::Split":
		text, ok := d.evaluated(arguments[1]).(string)
		if !ok {
			return nil, false
		}
		var parts []any
		for part := range strings.SplitSeq(text, arguments[0].(string)) {
			parts = append(parts, part)
		}
		return parts, true
	case "Fn::Join":
		return d.joined(arguments[0].(string), list(arguments[1])), true
	case "Fn::Sub":
		text := arguments[0].(string)
		if len(arguments) < 2 {
			return nil, false
		}
		for name, value := range arguments[1].(map[string]any) {
			text = strings.ReplaceAll(text, "${"+name+"}", d.evaluated(value).(string))
		}
		return strings.ReplaceAll(text, "${CodePrefix}", d.parameters["CodePrefix"].(string)), true
	}
	return nil, false
}
