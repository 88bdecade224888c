package deploy

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/testkit/goldenfile"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// TestUpgrade updates a stack, and looks after each call of the update at what a request, a batch and a run of the
// schedule would get: the code and the variables of one release, and never those of two. A function with strict
// variables answers nothing with those of two. The template is the one that infra makes, as tests/stack has it. Nobody
// runs the functions, so their code is only a mark.
//
// At first everything calls the functions without aliases. That mixes two releases, and the test must see it. The aliases
// then come with new permissions and other integrations, in one update.
//
// The emulator shows neither the time that a change needs to reach all of Lambda and API Gateway, nor requests that are
// answered while it changes, nor the position of a mapping in its stream.
func TestUpgrade(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	c, stack := newClients(t), stackName("upgrade")
	first := release{"1", nil}
	second := release{"2", map[string]any{"ONCEBOX_LOG_LEVEL": "debug"}}
	third := release{"3", map[string]any{"ONCEBOX_METRICS": nil}}
	_, err := c.cloudformation.CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: &stack, TemplateBody: withoutAliases(t, first.template(t, c, stack)), Capabilities: mayMakeRoles,
	})
	must(t, err)
	keeps := describe(t, stack).keeps()
	doctorFinds(t, c, stack, "")

	if u := update(t, stack, withoutAliases(t, second.template(t, c, stack))); len(u.mixed()) == 0 {
		t.Errorf("nobody sees that an update without aliases mixes two releases: %v", u)
	}
	for _, step := range []struct {
		what string
		to   release
	}{
		{"aliases, with the release that runs", second},
		{"a release that removes two variables", third},
		{"back to the release before, which adds them", second},
	} {
		u := update(t, stack, step.to.template(t, c, stack))
		if mixed := u.mixed(); len(mixed) > 0 {
			t.Errorf("%s:\n%s", step.what, strings.Join(mixed, "\n"))
		}
		for caller, gets := range u.after {
			if !strings.Contains(gets, step.to.mark(t)) {
				t.Errorf("%s: after it, %s %s", step.what, caller, gets)
			}
		}
	}

	d := describe(t, stack)
	if got := d.keeps(); !slices.Equal(got, keeps) {
		t.Errorf("the stack has replaced what keeps data: it had %v and has %v", keeps, got)
	}
	for _, function := range d.resources["AWS::Lambda::Function"] {
		versions, err := d.lambda.ListVersionsByFunction(t.Context(), &lambda.ListVersionsByFunctionInput{FunctionName: &function})
		must(t, err)
		if got := len(versions.Versions); got != 4 { // $LATEST and one for each step
			t.Errorf("%s has %d versions, want 4", function, got)
		}
	}
	refusesAnotherRecord(t, d, stack, third.template(t, c, stack))
	for _, next := range []release{second, third} { // the rollback, which the emulator leaves out, and another update
		for caller, gets := range update(t, stack, next.template(t, c, stack)).after {
			if !strings.Contains(gets, next.mark(t)) {
				t.Errorf("after the update that was refused, and one to release %s: %s %s", next.number, caller, gets)
			}
		}
	}
	doctorWarnsOfACanary(t, c, doctorFinds(t, c, stack, "live")[0])
}

// refusesAnotherRecord updates a stack as a change of what a record is does under a canary: the alias of the dedupe function
// has another logical id and the name of the one that exists. The update fails, and all callers get what they got before.
func refusesAnotherRecord(t *testing.T, d *deployed, stack string, template *string) {
	t.Helper()
	before := d.callers(t)
	_, err := d.cloudformation.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{
		StackName: &stack, Capabilities: mayMakeRoles,
		TemplateBody: aws.String(strings.ReplaceAll(*template, "RecordsLiveAB660755", "RecordsIdentityOfAnotherRecord")),
	})
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("the update ends with %v", err)
	}
	if after := d.callers(t); !maps.Equal(before, after) {
		t.Errorf("before the update %v\nafter it %v", before, after)
	}
}

// TestAFirstDeploymentThatFails: of everything that stays otherwise, only the tables are left. Without rows they cost
// nothing.
func TestAFirstDeploymentThatFails(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	c, stack := newClients(t), stackName("fails")
	var template map[string]any
	text := release{"1", nil}.template(t, c, stack)
	must(t, json.Unmarshal([]byte(*text), &template))
	resources := template["Resources"].(map[string]any)
	resources["Impossible"] = map[string]any{"Type": "AWS::Glue::Database", "DependsOn": slices.Sorted(maps.Keys(resources))}
	content, err := json.Marshal(template)
	must(t, err)
	_, err = c.cloudformation.CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: &stack, TemplateBody: aws.String(string(content)), Capabilities: mayMakeRoles,
	})
	if err == nil || !strings.Contains(err.Error(), "Impossible") {
		t.Fatalf("the deployment ends with %v", err)
	}

	left := c.left(t, stack)
	if len(left) != 2 || !strings.Contains(left[0], "BankTable") || !strings.Contains(left[1], "DedupeTable") {
		t.Errorf("these are left: %v", left)
	}
}

var mayMakeRoles = []cloudformationtypes.Capability{cloudformationtypes.CapabilityCapabilityIam}

// keeps returns the physical ids of what keeps data, or has a name that others know.
func (d *deployed) keeps() (ids []string) {
	for _, kind := range []string{
		tableType, streamType, bucketType, queueType, apiType, mappingType, ruleType, functionType, "AWS::Logs::LogGroup",
	} {
		ids = append(ids, d.resources[kind]...)
	}
	slices.Sort(ids)
	return ids
}

// A release has code of its own, and these variables other than those of its template. Nil removes one.
type release struct {
	number    string
	variables map[string]any
}

// zip returns the code of all functions of the release.
func (r release) zip(t *testing.T) []byte { t.Helper(); return zipped(t, []byte(r.number)) }

// zipped returns the code of a function with an executable.
func zipped(t *testing.T, executable []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	header.SetMode(0o755)
	file, err := w.CreateHeader(header)
	must(t, err)
	_, err = file.Write(executable)
	must(t, err)
	must(t, w.Close())
	return archive.Bytes()
}

// mark is in what a caller of the release gets.
func (r release) mark(t *testing.T) string { t.Helper(); return digest(r.zip(t)) }

var versionName = regexp.MustCompile(`(CurrentVersion[0-9A-F]{8})HASH`)

// golden returns a template of tests/stack as JSON.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	template, err := goldenfile.Read("../stack/testdata/goldens", name)
	must(t, err)
	content, err := json.Marshal(template)
	must(t, err)
	return content
}

// template returns the default template of tests/stack, for a stack with the functions of the release.
func (r release) template(t *testing.T, c clients, stack string) *string {
	t.Helper()
	bucket, key := aws.String(stack+"-code"), aws.String(r.number+".zip")
	_, err := c.s3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: bucket})
	must(t, err)
	_, err = c.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key, Body: bytes.NewReader(r.zip(t))})
	must(t, err)
	text := strings.ReplaceAll(string(golden(t, "default")), "oncebox-Claims", stack+"-Claims")
	return withCode(t, versionName.ReplaceAllString(text, "${1}"+r.number), *bucket, *key, r.variables)
}

// withCode returns a template of tests/stack that the emulator takes, with the code and more variables of the functions.
// A variable that is nil is removed.
func withCode(t *testing.T, text, bucket, key string, more map[string]any) *string {
	t.Helper()
	var template map[string]any
	must(t, json.Unmarshal([]byte(text), &template))
	delete(template, "Parameters") // about the bootstrap of the CDK
	delete(template, "Rules")
	for _, resource := range template["Resources"].(map[string]any) {
		if resource := resource.(map[string]any); resource["Type"] == "AWS::Lambda::Function" {
			p := resource["Properties"].(map[string]any)
			p["Code"] = map[string]any{"S3Bucket": bucket, "S3Key": key}
			variables := p["Environment"].(map[string]any)["Variables"].(map[string]any)
			maps.Copy(variables, more)
			maps.DeleteFunc(variables, func(_ string, value any) bool { return value == nil })
		}
	}
	content, err := json.Marshal(template)
	must(t, err)
	return aws.String(string(content))
}

// withoutAliases changes a template so that its callers call the functions themselves.
func withoutAliases(t *testing.T, text *string) *string {
	t.Helper()
	var template map[string]any
	must(t, json.Unmarshal([]byte(*text), &template))
	functions := map[string]any{} // by alias
	resources := template["Resources"].(map[string]any)
	for id, resource := range resources {
		switch resource := resource.(map[string]any); resource["Type"] {
		case "AWS::Lambda::Alias":
			functions[id] = resource["Properties"].(map[string]any)["FunctionName"].(map[string]any)["Ref"]
			delete(resources, id)
		case "AWS::Lambda::Version", "AWS::Lambda::EventInvokeConfig":
			delete(resources, id)
		}
	}
	content, err := json.Marshal(template)
	must(t, err)
	changed := string(content)
	for alias, function := range functions {
		changed = strings.ReplaceAll(changed, fmt.Sprintf(`{"Ref":%q}`, alias), fmt.Sprintf(`{"Fn::GetAtt":[%q,"Arn"]}`, function))
	}
	return &changed
}

// An upgrade is what callers get before an update, after each of its calls, and after it.
type upgrade struct {
	before, after facts
	between       []state
}

type state struct {
	call string // of the update, which made it
	gets facts
}

// update updates a stack to a template.
func update(t *testing.T, stack string, template *string) upgrade {
	t.Helper()
	u := describe(t, stack).watch(t, &cloudformation.UpdateStackInput{
		StackName: &stack, TemplateBody: template, Capabilities: mayMakeRoles,
	})
	if len(u.between) == 0 {
		t.Error("the update was not watched")
	}
	return u
}

// watch updates a stack, and looks at its callers after each call of the update.
func (d *deployed) watch(t *testing.T, input *cloudformation.UpdateStackInput) upgrade {
	t.Helper()
	calls, seen := make(chan string), make(chan bool)
	watch := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		call, _ := io.ReadAll(r.Body) // its name is for the reader of a failure only
		calls <- string(call)
		<-seen
	}))
	defer watch.Close()
	u := upgrade{before: d.callers(t)}
	input.Tags = []cloudformationtypes.Tag{{Key: aws.String("oncebox:watch"), Value: &watch.URL}}
	done := make(chan error)
	go func() {
		_, err := d.cloudformation.UpdateStack(t.Context(), input)
		done <- err
	}()
	for {
		select {
		case call := <-calls:
			u.between = append(u.between, state{call, d.callers(t)})
			seen <- true
		case err := <-done:
			must(t, err)
			u.after = d.callers(t)
			return u
		}
	}
}

// mixed lists what was neither as before the update nor as after it, or was as before again.
func (u upgrade) mixed() (all []string) {
	updated := map[string]bool{}
	for _, s := range u.between {
		for name, got := range s.gets {
			switch {
			case got == u.after[name]:
				updated[name] = true
			case got != u.before[name] || updated[name]:
				all = append(all, fmt.Sprintf("after %s: %s %s\n before %s\n after  %s", s.call, name, got, u.before[name], u.after[name]))
			}
		}
	}
	return all
}

// callers returns what each caller of a function gets now.
func (d *deployed) callers(t *testing.T) facts {
	t.Helper()
	f := facts{}
	for _, api := range d.resources[apiType] {
		routes, err := d.gateway.GetRoutes(t.Context(), &apigatewayv2.GetRoutesInput{ApiId: &api})
		must(t, err)
		for _, route := range routes.Items {
			got, err := d.gateway.GetIntegration(t.Context(), &apigatewayv2.GetIntegrationInput{
				ApiId: &api, IntegrationId: aws.String(path.Base(*route.Target)),
			})
			must(t, err)
			if !d.mayCall(t, api, *route.RouteKey, *got.IntegrationUri) {
				f[*route.RouteKey] = "gets 500: the API may not call " + *got.IntegrationUri
				continue
			}
			f[*route.RouteKey] = d.runs(t, *got.IntegrationUri)
		}
	}
	for _, id := range d.resources[mappingType] {
		got, err := d.lambda.GetEventSourceMapping(t.Context(), &lambda.GetEventSourceMappingInput{UUID: &id})
		must(t, err)
		f["a batch"] = d.runs(t, *got.FunctionArn)
	}
	for _, id := range d.resources[ruleType] {
		got, err := d.eventbridge.ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: &id})
		must(t, err)
		f["the schedule"] = d.runs(t, *got.Targets[0].Arn)
	}
	return f
}

// runs returns the code and the variables of a function, or of what its alias leads to.
func (d *deployed) runs(t *testing.T, arn string) string {
	t.Helper()
	got, err := d.lambda.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &arn})
	must(t, err)
	variables, err := json.Marshal(got.Environment.Variables)
	must(t, err)
	return fmt.Sprintf("gets %s with %s", *got.CodeSha256, variables)
}

// mayCall reports whether the policy of a function or alias lets an API call it for a route.
func (d *deployed) mayCall(t *testing.T, api, routeKey, function string) bool {
	t.Helper()
	policy, err := d.lambda.GetPolicy(t.Context(), &lambda.GetPolicyInput{FunctionName: &function})
	if missing(err) {
		return false
	}
	must(t, err)
	_, routePath, _ := strings.Cut(routeKey, " ")
	return strings.Contains(*policy.Policy, fmt.Sprintf(`"arn:aws:execute-api:%s:%s:%s/*/*%s"`, region, account, api, routePath))
}
