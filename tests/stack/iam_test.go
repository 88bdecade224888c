package stack

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A permission is a row of docs/iam.md, or what a template allows in the same words.
type permission struct {
	function string // claim, sweep or dedupe; the logical id of anything else that is allowed something
	action   string
	resource string
	only     string // the condition
}

// The sections of docs/iam.md that have rows.
const (
	always        = "Always"
	withKeys      = "With one row a key"
	inStatements  = "With one row a key, and no table as the destination"
	withLog       = "With the log ledger"
	withSecret    = "With the password of a Valkey ledger"
	challenged    = "With a challenge before a claim"
	inVPC         = "In a VPC"
	withAcks      = "With acks"
	withMetrics   = "With metrics"
	withTraces    = "With traces"
	withCanary    = "With a canary"
	withVariables = "With a key of yours for the variables"
	withKey       = "With a key of yours"
	formerKey     = "With a former key of yours"
	formerLake    = "With a former key of yours and a bucket as the destination"
	formerSecret  = "With a former key of yours and a secret"
	fromStream    = "With a Kinesis stream as the source"
	fromQueue     = "With a queue as the source"
	fromTable     = "With a table as the source"
	fromLogs      = "With a log group as the source"
	keyOfSource   = "With a key of yours and a Kinesis stream as the source"
	formerSource  = "With a former key of yours and a Kinesis stream as the source"
	toStream      = "With a stream as the destination"
	toFirehose    = "With Firehose as the destination"
	toQueue       = "With a queue as the destination"
	toBucket      = "With a bucket as the destination"
	keyOfBuckets  = "With a key of yours and a bucket as the destination"
	toTable       = "With a table as the destination"
	keyOfSecrets  = "With a key of yours and the password of a Valkey ledger"
	keyOfStreams  = "With a key of yours and a stream as the destination"
	withBackups   = "With backups"
	keyOfBackups  = "With backups and a key of yours"
)

// documentedPermissions returns the rows of docs/iam.md by section. A row may name several functions and actions.
func documentedPermissions(t *testing.T) map[string][]permission {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/iam.md")
	must(t, err)
	sections, section := map[string][]permission{}, ""
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(heading)
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 7 || !strings.Contains(cells[2], ":") {
			continue // no row, or the head of a table
		}
		if cells[5] == "" {
			t.Errorf("docs/iam.md does not say when %s is used", cells[2])
		}
		for function := range strings.SplitSeq(strings.TrimSuffix(cells[1], " (Lambda)"), ", ") {
			for action := range strings.SplitSeq(cells[2], ", ") {
				sections[section] = append(sections[section], permission{function, action, cells[3], cells[4]})
			}
		}
	}
	return sections
}

// TestPermissionsAreThoseOfTheDocs compares what the goldens allow with docs/iam.md, in both directions.
func TestPermissionsAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	docs := documentedPermissions(t)
	for name, c := range map[string]struct {
		sections []string
		function string // all if empty
	}{
		"default":       {sections: []string{always, fromStream, withKeys, inStatements, withAcks, withMetrics, toStream}},
		"records":       {sections: []string{always, fromStream, withKeys, inStatements, withAcks, toStream}, function: "dedupe"},
		"challenge":     {sections: []string{always, challenged}, function: "claim"},
		"derived-ids":   {sections: []string{always, fromStream, withKeys, inStatements, toStream}, function: "dedupe"}, // acks are off
		"every-setting": {sections: []string{always, fromStream, withKeys, inStatements, toStream, withTraces}},         // also off
		"existing":      {sections: []string{always, fromStream, withKeys, inStatements, withAcks, withMetrics, toStream}},
		"customer-key": {sections: []string{
			always, fromStream, withKeys, inStatements, withAcks, withMetrics, toStream, withKey, keyOfSource, keyOfStreams, withVariables, inVPC,
			withCanary, withBackups, keyOfBackups,
		}},
		"firehose": {sections: []string{always, fromStream, withKeys, inStatements, withAcks, toFirehose}, function: "dedupe"},
		"objects":  {sections: []string{always, fromStream, withKeys, inStatements, toBucket, withKey, keyOfSource, keyOfBuckets}, function: "dedupe"},
		"table":    {sections: []string{always, fromStream, withKeys, withAcks, toTable, withKey, keyOfSource}, function: "dedupe"},
		"log":      {sections: []string{always, fromStream, withLog, withAcks, toStream}, function: "dedupe"},
		"valkey": {
			sections: []string{always, fromStream, withSecret, inVPC, withAcks, toStream, withKey, keyOfSource, keyOfStreams, keyOfSecrets}, function: "dedupe",
		},
		"former-keys": {sections: []string{
			always, fromStream, challenged, withMetrics, withSecret, toBucket, formerKey, formerSource, formerLake, formerSecret,
		}},
		"queue":      {sections: []string{always, fromStream, withKeys, inStatements, withAcks, toQueue, withKey, keyOfSource}, function: "dedupe"},
		"from-table": {sections: []string{always, fromTable, withKeys, inStatements, toStream}, function: "dedupe"},
		"from-logs":  {sections: []string{always, fromLogs, withKeys, inStatements, toStream}, function: "dedupe"},
		"from-queue": {sections: []string{always, fromQueue, withKeys, inStatements, toStream}, function: "dedupe"},
	} {
		var rows []permission
		for _, section := range c.sections {
			rows = append(rows, docs[section]...)
		}
		rows = slices.DeleteFunc(rows, func(p permission) bool { return c.function != "" && p.function != c.function })
		for _, difference := range permissionDifferences(rows, permissionsOf(readGolden(t, name))) {
			t.Errorf("%s: %s", name, difference)
		}
	}
}

func permissionDifferences(docs, stack []permission) (all []string) {
	for _, p := range docs {
		if !slices.Contains(stack, p) {
			all = append(all, fmt.Sprintf("docs/iam.md has it, the stack has not: %+v", p))
		}
	}
	for _, p := range stack {
		if !slices.Contains(docs, p) {
			all = append(all, fmt.Sprintf("the stack has it, docs/iam.md has not: %+v", p))
		}
	}
	return all
}

// TestPlantedPermissionsAreFound changes the rows, or the default golden, which has the same permissions.
func TestPlantedPermissionsAreFound(t *testing.T) {
	t.Parallel()
	docs := documentedPermissions(t)
	rows := slices.Concat(docs[always], docs[fromStream], docs[withKeys], docs[inStatements], docs[withAcks], docs[withMetrics], docs[toStream])
	found := func(what string, rows []permission, tpl template) {
		if len(permissionDifferences(rows, permissionsOf(tpl))) == 0 {
			t.Errorf("nobody sees it: %s", what)
		}
	}
	found("a row fewer", rows[1:], readGolden(t, "default"))
	found("a row more", append(rows, permission{"claim", "dynamodb:Scan", "bank table", ""}), readGolden(t, "default"))

	const (
		policy      = "ClaimsFunctionRoleDefaultPolicyB4845F0C"
		claimRole   = "ClaimsFunctionRole66532BC1"
		recordsRole = "RecordsFunctionRole1806E726"
		document    = "Properties.PolicyDocument"
		statement   = document + ".Statement.0."
	)
	everything := object("Statement", []any{object("Effect", "Allow", "Action", "dynamodb:*", "Resource", "*")})
	for _, f := range []struct {
		what, path string
		value      any
	}{
		{"denied", statement + "Effect", "Deny"},
		{"all resources", statement + "Resource", "*"},
		{"one more action", statement + "Action", []any{"dynamodb:GetItem", "dynamodb:Scan"}},
		{"all actions but one", statement + "NotAction", "iam:*"},
		{"no condition", statement + "Condition", nil},
		{"another condition", statement + "Condition", object("Bool", object("aws:SecureTransport", "true"))},
		{"every partition key", statement + "Condition.ForAllValues:StringLike.dynamodb:LeadingKeys", []any{"*"}},
		{"no statement", document + ".Statement", nil},
		{"for the other role, too", "Properties.Roles", []any{object("Ref", claimRole), object("Ref", recordsRole)}},
	} {
		tpl := readGolden(t, "default")
		if !set(tpl.resources(policyType)[policy], f.path, f.value) {
			t.Errorf("%s: %s has no %s", f.what, policy, f.path)
		}
		found(f.what, rows, tpl)
	}
	for _, planted := range []map[string]any{
		object("Type", "AWS::IAM::ManagedPolicy", "Properties", object("PolicyDocument", everything)),
		object("Type", roleType, "Properties", object("Policies", []any{object("PolicyDocument", everything)})),
		object("Type", roleType, "Properties", object("ManagedPolicyArns", []any{"arn:aws:iam::aws:policy/ReadOnlyAccess"})),
		object("Type", bucketPolicy, "Properties", object("PolicyDocument", everything)),
	} {
		tpl := readGolden(t, "default")
		tpl["Resources"].(map[string]any)["Planted"] = planted
		found(fmt.Sprint(planted), rows, tpl)
	}
	tpl := readGolden(t, "default")
	for _, function := range tpl.resources(functionType) {
		set(function, "Properties.Role", object("Fn::GetAtt", []any{recordsRole, "Arn"}))
	}
	found("functions with one role", rows, tpl)
}

// permissionsOf returns what a template allows roles, and what policies of resources allow anybody.
func permissionsOf(tpl template) (all []permission) {
	jobs, words := map[string]string{}, map[string]map[string]string{} // by role
	for _, function := range tpl.resources(functionType) {
		role := rendered(function.properties()["Role"])
		job, of := describe(tpl, function)
		jobs[role], words[role] = jobs[role]+job, of
	}
	add := func(role string, statements []map[string]any) {
		for _, s := range statements {
			all = append(all, inWords(cmp.Or(jobs[role], role), s, words[role])...)
		}
	}
	for id, role := range tpl.resources(roleType) {
		who := id
		assumed := rendered(role.properties()["AssumeRolePolicyDocument"])
		if strings.Contains(assumed, "codedeploy.amazonaws.com") {
			who = "CodeDeploy"
		}
		for service, name := range backupServices {
			if strings.Contains(assumed, service) {
				jobs[attribute(id)], words[attribute(id)] = name, backupWords(tpl)
			}
		}
		for _, arn := range list(role.properties()["ManagedPolicyArns"]) {
			all = append(all, permission{function: who, action: rendered(arn)})
		}
		for _, policy := range list(role.properties()["Policies"]) {
			add(attribute(id), policyStatements(resource{"Properties": policy}))
		}
	}
	for _, policy := range tpl.resources(policyType) {
		for _, role := range list(policy.properties()["Roles"]) {
			add(attribute(textAt(role, "Ref")), policyStatements(policy))
		}
	}
	for _, kind := range []string{"AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy", "AWS::IAM::User", "AWS::IAM::Group"} {
		for id := range tpl.resources(kind) {
			all = append(all, permission{function: id, action: kind})
		}
	}
	for _, kind := range []string{bucketPolicy, queuePolicy} {
		for id, policy := range tpl.resources(kind) {
			for _, s := range policyStatements(policy) {
				if s["Effect"] != "Deny" {
					all = append(all, permission{function: id, action: rendered(s)})
				}
			}
		}
	}
	return all
}

// backupServices are the services that have a role for backups.
var backupServices = map[string]string{
	"backup.amazonaws.com": "AWS Backup", "states.amazonaws.com": "Step Functions", "events.amazonaws.com": "EventBridge",
}

// backupWords are the words for the ARNs of what backups are about.
func backupWords(tpl template) map[string]string {
	words := map[string]string{
		theirVault: "vault for copies", "arn:${AWS::Partition}:s3:::their-exports": "bucket of exports", "oncebox-Claims": prefixWord,
		"arn:${AWS::Partition}:backup:eu-west-1:123456789012:recovery-point:*": "backups of the account",
	}
	for _, function := range tpl.resources(functionType) {
		if job, of := describe(tpl, function); job == "claim" {
			maps.Copy(words, of)
		}
	}
	for id := range tpl.resources("AWS::Backup::BackupVault") {
		words["${"+id+".BackupVaultArn}"] = "vault"
	}
	for id := range tpl.resources(machineType) {
		words["${"+id+"}"] = "state machine"
	}
	return words
}

// scopeWord stands for a scope in the rows.
const scopeWord = "SCOPE"

// prefixWord stands for the prefix of objects.
const prefixWord = "PREFIX"

// describe tells which job a function does, and the words for the ARNs of the resources that its variables name.
func describe(tpl template, function resource) (job string, words map[string]string) {
	words = map[string]string{theirKey: "key", oldKey: "former key", theirSecret: "secret", "*": "all"}
	name := func(word, service, name string) {
		if id, ok := strings.CutPrefix(name, "${"); ok {
			words[attribute(strings.TrimSuffix(id, "}"))] = word
		} else {
			words["arn:"+service+name] = word
		}
	}
	const table = "${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/"
	name("dedupe table", table, textOf(function, "ONCEBOX_DEDUPE_TABLE"))
	name("log group", "", rendered(at(function, "Properties.LoggingConfig.LogGroup")))
	if job := nameOf(function); job != "dedupe" {
		name("bank table", table, textOf(function, "ONCEBOX_BANK_TABLE"))
		return job, words
	}
	address, _, _ := strings.Cut(textOf(function, "ONCEBOX_SINK"), "?")
	switch kind, sink, _ := strings.Cut(address, ":"); kind {
	case "dynamodb":
		name("destination table", "${AWS::Partition}:dynamodb:eu-west-1:123456789012:table/", sink) // the place of the key
	case "firehose":
		name("destination Firehose stream", "${AWS::Partition}:firehose:${AWS::Region}:${AWS::AccountId}:deliverystream/", sink)
	case "sqs":
		name("destination queue", "${AWS::Partition}:sqs:eu-west-1:123456789012:", sink[strings.LastIndex(sink, "/")+1:])
	case "s3":
		bucket, prefix, _ := strings.Cut(strings.TrimPrefix(sink, "//"), "/")
		name("destination bucket", "${AWS::Partition}:s3:::", bucket)
		words[strings.TrimSuffix(prefix, "/")] = prefixWord
	default:
		name("destination stream", "${AWS::Partition}:kinesis:${AWS::Region}:${AWS::AccountId}:stream/", sink)
	}
	letters, queue, _ := strings.Cut(strings.TrimPrefix(textOf(function, "ONCEBOX_DEAD_LETTERS"), "s3://"), "?notify=")
	bucket, scope, _ := strings.Cut(letters, "/poison/")
	name("dead-letter bucket", "${AWS::Partition}:s3:::", bucket)
	words[scope] = scopeWord
	name("notifier queue", "aws:sqs:eu-west-1:123456789012:", queue[strings.LastIndex(queue, "/")+1:])
	for _, mapping := range tpl.resources(mappingType) {
		source := rendered(mapping.properties()["EventSourceArn"])
		words[source] = "source"
		if table, _, ok := strings.Cut(source, "/stream/"); ok {
			words[table+"/stream/*"] = "streams of the source"
		}
	}
	return "dedupe", words
}

// inWords takes a statement apart. What it does not understand stays as it is, and so matches no row.
func inWords(function string, statement map[string]any, words map[string]string) (all []permission) {
	for key := range statement {
		if !slices.Contains([]string{"Action", "Condition", "Effect", "Resource"}, key) {
			all = append(all, permission{function: function, action: key})
		}
	}
	condition := conditionInWords(statement["Condition"], words)
	for _, action := range list(statement["Action"]) {
		for _, r := range list(statement["Resource"]) {
			p := permission{function: function, action: rendered(action), resource: rendered(r), only: condition}
			if statement["Effect"] != "Allow" {
				p.action += fmt.Sprint(" ", statement["Effect"])
			}
			for arn, word := range words {
				pattern, inside := strings.CutPrefix(p.resource, arn+"/")
				switch {
				case p.resource == arn:
					p.resource = word
				case inside && pattern == "index/due":
					p.resource = "index `due` of the " + word
				case inside && pattern == "export/*":
					p.resource = "exports of the " + word
				case inside && condition == ofTheAccount:
					p.resource, p.only = word, "objects `"+scopeInWords(pattern, words)+"` "+condition
				}
			}
			all = append(all, p)
		}
	}
	return all
}

// ofTheAccount says of objects that their bucket is the account's own.
const ofTheAccount = "of the account"

var accountCondition = regexp.MustCompile(
	`^{"StringEquals":{"s3:ResourceAccount":({"Ref":"AWS::AccountId"}|"\d{12}")}}$`)

var conditions = map[string]*regexp.Regexp{
	"leading keys": regexp.MustCompile(`^{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":\["([^"]+\*)"\]}}$`),
	"leading key":  regexp.MustCompile(`^{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":\["([^"*]+)"\]}}$`),
	"through":      regexp.MustCompile(`^{"StringLike":{"kms:ViaService":"([^"]+)"}}$`),
}

func conditionInWords(condition any, words map[string]string) string {
	if condition == nil {
		return ""
	}
	text := scopeInWords(rendered(joined(condition)), words)
	if accountCondition.MatchString(text) {
		return ofTheAccount
	}
	if text == `{"Null":{"lambda:SourceFunctionArn":"true"}}` {
		return "not from the function itself"
	}
	if text == `{"Bool":{"kms:GrantIsForAWSResource":"true"}}` {
		return "grants for services of AWS"
	}
	if text == `{"ForAllValues:ArnEquals":{"backup:CopyTargets":["`+theirVault+`"]}}` {
		return "to the vault for copies"
	}
	for word, pattern := range conditions {
		if parts := pattern.FindStringSubmatch(text); parts != nil {
			return word + " `" + parts[1] + "`"
		}
	}
	return text
}

// scopeInWords replaces a scope by its word: between # or /, or at the end of a key.
func scopeInWords(text string, words map[string]string) string {
	for scope, word := range words {
		if word == scopeWord {
			text = strings.Replace(text, "#"+scope+"#", "#"+word+"#", 1)
			text = strings.Replace(text, "#"+scope+`"`, "#"+word+`"`, 1)
			text = strings.Replace(text, "/"+scope+"/", "/"+word+"/", 1)
		}
		if rest, ok := strings.CutPrefix(text, scope+"/"); ok && word == prefixWord {
			text = word + "/" + rest
		}
	}
	return text
}

// joined puts together what CloudFormation would.
func joined(value any) any {
	switch v := value.(type) {
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = joined(v[i])
		}
		return all
	case map[string]any:
		if v["Fn::Join"] != nil {
			return rendered(v)
		}
		all := map[string]any{}
		for key := range v {
			all[key] = joined(v[key])
		}
		return all
	}
	return value
}

func policyStatements(policy resource) (all []map[string]any) {
	for _, s := range list(at(policy, "Properties.PolicyDocument.Statement")) {
		all = append(all, s.(map[string]any))
	}
	return all
}
