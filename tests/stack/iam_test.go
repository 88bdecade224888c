package stack

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A permission is a row of docs/iam.md, or what a template says in the same words.
type permission struct {
	function string // claim or dedupe; of others the logical id of what has it
	action   string
	resource string
	only     string // the condition
}

// The sections of docs/iam.md that have rows.
const (
	always         = "Always"
	withCheckpoint = "With the checkpoint"
	withKey        = "With a key of yours"
)

// documentedPermissions are the rows of docs/iam.md by section.
func documentedPermissions(t *testing.T) map[string][]permission {
	t.Helper()
	text, err := os.ReadFile("../../docs/iam.md")
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
		sections[section] = append(sections[section], permission{strings.TrimSuffix(cells[1], " (Lambda)"), cells[2], cells[3], cells[4]})
	}
	return sections
}

const theirKey = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"

// TestPermissionsAreThoseOfTheDocs compares what roles may do with docs/iam.md, in
// both directions.
func TestPermissionsAreThoseOfTheDocs(t *testing.T) {
	docs := documentedPermissions(t)
	for name, c := range map[string]struct {
		context  map[string]any
		sections []string
		function string            // "": both
		existing map[string]string // ARNs of what is not made here
	}{
		"as it is":      {sections: []string{always, withCheckpoint}},
		"no checkpoint": {context: map[string]any{"parallelization": 2, "aggregation": "off"}, sections: []string{always}},
		"a key":         {context: map[string]any{"key-arn": theirKey}, sections: []string{always, withCheckpoint, withKey}},
		"claims alone":  {context: map[string]any{"jobs": "claims"}, sections: []string{always}, function: "claim"},
		"records alone": {context: map[string]any{"jobs": "records"}, sections: []string{always, withCheckpoint}, function: "dedupe"},
		"all of it there": {
			context: map[string]any{
				"bank-table": "their-bank", "dedupe-table": "their-dedupe",
				"source-stream-arn":      theirStream,
				"source-retention":       "168h",
				"destination-stream-arn": "arn:aws:kinesis:eu-west-1:123456789012:stream/others",
				"dead-letter-bucket":         "their-failures", "notify-queue-arn": theirQueue,
			},
			sections: []string{always, withCheckpoint},
			existing: map[string]string{
				"arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/their-bank":   "bank table",
				"arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/their-dedupe": "dedupe table",
				theirStream: "source stream",
				"arn:aws:kinesis:eu-west-1:123456789012:stream/others": "destination stream",
				"arn:${AWS::Partition}:s3:::their-failures":            "failure bucket",
				theirQueue: "notifier queue",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var want []permission
			for _, section := range c.sections {
				want = append(want, docs[section]...)
			}
			want = slices.DeleteFunc(want, func(p permission) bool { return c.function != "" && p.function != c.function })
			for _, difference := range differences(want, permissionsOf(t, synth(t, c.context), c.existing)) {
				t.Error(difference)
			}
		})
	}
}

// differences tells what only one of the two has.
func differences(docs, stack []permission) (all []string) {
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

// TestPlantedPermissionsAreFound changes a copy of the template, and of the rows.
func TestPlantedPermissionsAreFound(t *testing.T) {
	docs := documentedPermissions(t)
	rows := slices.Concat(docs[always], docs[withCheckpoint])
	found := func(t *testing.T, rows []permission, tpl template) {
		t.Helper()
		if len(differences(rows, permissionsOf(t, tpl, nil))) == 0 {
			t.Error("nobody noticed")
		}
	}
	for i, row := range rows {
		t.Run(fmt.Sprint("no row ", row), func(t *testing.T) {
			found(t, slices.Delete(slices.Clone(rows), i, i+1), synth(t, nil))
		})
	}
	t.Run("a row too many", func(t *testing.T) {
		found(t, append(slices.Clone(rows), permission{"claim", "dynamodb:Scan", "bank table", ""}), synth(t, nil))
	})

	for id, policy := range synth(t, nil).resources(policyType) {
		for i, statement := range policyStatements(policy) {
			for name, change := range statementChanges(statement) {
				t.Run(fmt.Sprintf("%s %d: %s", id, i, name), func(t *testing.T) {
					tpl := synth(t, nil)
					document := tpl.resources(policyType)[id].properties()["PolicyDocument"].(map[string]any)
					statements := document["Statement"].([]any)
					document["Statement"] = slices.Concat(statements[:i], change(statements[i].(map[string]any)), statements[i+1:])
					found(t, rows, tpl)
				})
			}
		}
	}
	for name, change := range roleChanges {
		t.Run(name, func(t *testing.T) {
			tpl := synth(t, nil)
			for id, role := range tpl.resources(roleType) {
				change(tpl["Resources"].(map[string]any), id, role.properties())
				break
			}
			found(t, rows, tpl)
		})
	}
}

// everything is a statement that nobody should have.
var everything = map[string]any{"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}

type statementChange func(map[string]any) []any

// statementChanges are the faults that are planted into a statement.
func statementChanges(statement map[string]any) map[string]statementChange {
	set := func(key string, value any) statementChange {
		return func(s map[string]any) []any {
			s[key] = value
			if value == nil {
				delete(s, key)
			}
			return []any{s}
		}
	}
	changes := map[string]statementChange{
		"gone":           func(map[string]any) []any { return nil },
		"one more":       func(s map[string]any) []any { return []any{s, everything} },
		"denied":         set("Effect", "Deny"),
		"all resources":  set("Resource", "*"),
		"all actions":    set("Action", "*"),
		"more actions":   set("Action", append(list(statement["Action"]), "dynamodb:UpdateItem", "s3:GetObject")),
		"other actions":  set("NotAction", "iam:*"),
		"more resources": set("Resource", append(list(statement["Resource"]), "*")),
		"other":          set("Condition", map[string]any{"Bool": map[string]any{"aws:SecureTransport": "true"}}),
	}
	if actions := list(statement["Action"]); len(actions) > 1 {
		changes["an action gone"] = set("Action", actions[1:])
	}
	if _, ok := statement["Condition"]; ok {
		changes["no condition"] = set("Condition", nil)
		changes["any key"] = set("Condition", map[string]any{"ForAllValues:StringLike": map[string]any{"dynamodb:LeadingKeys": []any{"*"}}})
		changes["any value"] = set("Condition", map[string]any{"ForAnyValue:StringLike": statement["Condition"].(map[string]any)["ForAllValues:StringLike"]})
	}
	return changes
}

// roleChanges are faults around a role, given all resources and the role.
var roleChanges = map[string]func(resources map[string]any, id string, role map[string]any){
	"managed policy": func(_ map[string]any, _ string, role map[string]any) {
		role["ManagedPolicyArns"] = []any{"arn:aws:iam::aws:policy/AdministratorAccess"}
	},
	"policy inside": func(_ map[string]any, _ string, role map[string]any) {
		role["Policies"] = []any{map[string]any{"PolicyName": "p", "PolicyDocument": map[string]any{"Statement": []any{everything}}}}
	},
	"another policy": func(resources map[string]any, id string, _ map[string]any) {
		resources["Planted"] = map[string]any{"Type": policyType, "Properties": map[string]any{
			"PolicyDocument": map[string]any{"Statement": []any{everything}}, "Roles": []any{map[string]any{"Ref": id}},
		}}
	},
	"managed policy of ours": func(resources map[string]any, id string, _ map[string]any) {
		resources["Planted"] = map[string]any{"Type": "AWS::IAM::ManagedPolicy", "Properties": map[string]any{
			"PolicyDocument": map[string]any{"Statement": []any{everything}}, "Roles": []any{map[string]any{"Ref": id}},
		}}
	},
	"another role": func(resources map[string]any, _ string, _ map[string]any) {
		resources["Planted"] = map[string]any{"Type": roleType, "Properties": map[string]any{
			"Policies": []any{map[string]any{"PolicyDocument": map[string]any{"Statement": []any{everything}}}},
		}}
	},
	"bucket for all": func(resources map[string]any, _ string, _ map[string]any) {
		resources["Planted"] = map[string]any{"Type": bucketPolicy, "Properties": map[string]any{
			"PolicyDocument": map[string]any{"Statement": map[string]any{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "*"}},
		}}
	},
	"function with another's role": func(resources map[string]any, id string, _ map[string]any) {
		for _, r := range resources {
			if properties, _ := r.(map[string]any)["Properties"].(map[string]any); properties["Role"] != nil {
				properties["Role"] = map[string]any{"Fn::GetAtt": []any{id, "Arn"}}
			}
		}
	},
}

// permissionsOf are the permissions that a template gives to roles, and by the
// policies of resources to anybody, in the words of docs/iam.md. Existing are the
// words of ARNs of what the template does not make.
func permissionsOf(t *testing.T, tpl template, existing map[string]string) (all []permission) {
	t.Helper()
	jobs, words := map[string]string{}, map[string]map[string]string{} // by role
	for _, function := range tpl.resources(functionType) {
		role := rendered(function.properties()["Role"])
		job, of := describe(tpl, function)
		jobs[role], words[role] = jobs[role]+job, of
		maps.Copy(of, existing)
	}
	add := func(role string, statements []map[string]any) {
		function := cmp.Or(jobs[role], role)
		for _, s := range statements {
			all = append(all, inWords(function, s, words[role])...)
		}
	}
	for id, role := range tpl.resources(roleType) {
		for _, arn := range list(role.properties()["ManagedPolicyArns"]) {
			all = append(all, permission{function: id, action: rendered(arn)})
		}
		for _, policy := range list(role.properties()["Policies"]) {
			add(attribute(id), policyStatements(resource{"Properties": policy}))
		}
	}
	for _, policy := range tpl.resources(policyType) {
		for _, role := range list(policy.properties()["Roles"]) {
			add(attribute(role.(map[string]any)["Ref"].(string)), policyStatements(policy))
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

// scopeWord stands for a scope in the rows.
const scopeWord = "SCOPE"

// describe tells which job a function does, and the words of the resources that it
// uses: they are those that its variables name, and its mapping.
func describe(tpl template, function resource) (job string, words map[string]string) {
	variables := function.properties()["Environment"].(map[string]any)["Variables"].(map[string]any)
	variable := func(name string) string { return rendered(variables["ONCEBOX_"+name]) }
	made := map[string]string{
		"dedupe table": variable("DEDUPE_TABLE"),
		"log group":    rendered(function.properties()["LoggingConfig"].(map[string]any)["LogGroup"]),
	}
	words = map[string]string{theirKey: "key"}
	if job = "claim"; variables["ONCEBOX_SINK"] == nil {
		made["bank table"] = variable("BANK_TABLE")
	} else {
		job = "dedupe"
		made["destination stream"] = strings.TrimPrefix(variable("SINK"), "kinesis:")
		bucket, scope, _ := strings.Cut(strings.TrimPrefix(variable("DEAD_LETTERS"), "s3://"), "/poison/")
		made["failure bucket"] = bucket
		words[scope] = scopeWord
		made["notifier queue"] = variable("NOTIFY_QUEUE_URL")
		for _, mapping := range tpl.resources(mappingType) {
			words[rendered(mapping.properties()["EventSourceArn"])] = "source stream"
		}
	}
	for word, name := range made {
		if id, ok := strings.CutPrefix(name, "${"); ok {
			words[attribute(strings.TrimSuffix(id, "}"))] = word
		}
	}
	return job, words
}

// attribute is how the ARN of a resource is rendered.
func attribute(id string) string { return "${" + id + ".Arn}" }

// inWords takes a statement apart. What is not understood stays as it is, and so
// is no row.
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

var accountCondition = regexp.MustCompile(`^{"StringEquals":{"s3:ResourceAccount":({"Ref":"AWS::AccountId"}|"\d{12}")}}$`)

var conditions = map[string]*regexp.Regexp{
	"leading keys": regexp.MustCompile(`^{"ForAllValues:StringLike":{"dynamodb:LeadingKeys":\["([^"]+)"\]}}$`),
	"through":      regexp.MustCompile(`^{"StringLike":{"kms:ViaService":"([^"]+)"}}$`),
}

// scopeInWords replaces a scope between # or / by its word.
func scopeInWords(text string, words map[string]string) string {
	for scope, word := range words {
		if word == scopeWord {
			text = strings.Replace(text, "#"+scope+"#", "#"+word+"#", 1)
			text = strings.Replace(text, "/"+scope+"/", "/"+word+"/", 1)
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

func conditionInWords(condition any, words map[string]string) string {
	if condition == nil {
		return ""
	}
	text := scopeInWords(rendered(joined(condition)), words)
	if accountCondition.MatchString(text) {
		return ofTheAccount
	}
	for word, pattern := range conditions {
		if parts := pattern.FindStringSubmatch(text); parts != nil {
			return word + " `" + parts[1] + "`"
		}
	}
	return text
}

func policyStatements(policy resource) (all []map[string]any) {
	document, _ := policy.properties()["PolicyDocument"].(map[string]any)
	for _, s := range list(document["Statement"]) {
		all = append(all, s.(map[string]any))
	}
	return all
}

// list is a list of CloudFormation's or IAM's, which may be a single value.
func list(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return slices.Clone(v)
	}
	return []any{value}
}

// rendered writes a value of a template as a text: references as in Fn::Sub, and
// what is no text as JSON.
func rendered(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok {
			return "${" + ref + "}"
		}
		if path, ok := v["Fn::GetAtt"].([]any); ok {
			return fmt.Sprintf("${%s.%s}", path...)
		}
		if join, ok := v["Fn::Join"].([]any); ok {
			var parts []string
			for _, part := range list(join[1]) {
				parts = append(parts, rendered(part))
			}
			return strings.Join(parts, join[0].(string))
		}
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded
	}
	return string(encoded)
}
