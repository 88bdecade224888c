package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/lambdatest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// served makes a built function one of the Lambda API.
func (f *function) served(t *testing.T, env []string) *lambdatest.Function {
	t.Helper()
	variables := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	return &lambdatest.Function{Env: variables, Invoke: func(event []byte) (reply, log []byte) {
		before, _ := os.ReadFile(f.log) // the file does not exist before the first invocation
		_, reply = f.invoke(t, event)
		return reply, []byte(f.output(t)[len(before):])
	}}
}

// deployed holds the built functions for the doctor. Each reaches dynoxide through its own proxy.
type deployed struct {
	own          tables
	store        *dynamostore.Store
	bank         *itembank.Operator
	lambda       doctor.Lambda
	claim, sweep *cloud
	found        []doctor.Function
}

// deployClaims starts the claim and the sweep function.
func deployClaims(t *testing.T) *deployed {
	t.Helper()
	engine := testengine.Dynoxide(t)
	d := &deployed{own: newTables(), claim: newCloud(t, "claim"), sweep: newCloud(t, "sweep")}
	d.bank = d.own.create(t, engine)
	d.store = dynamostore.New(itembankengines.Client(engine, nil), d.own.bank, d.own.dedupe)
	words := map[string]string{d.own.bank: "bank table", d.own.dedupe: "dedupe table"}
	d.claim.names, d.sweep.names = words, words
	env := d.own.settings(d.claim.url, "body")
	sweepEnv := []string{
		"AWS_ENDPOINT_URL=" + d.sweep.url, "ONCEBOX_BANK_TABLE=" + d.own.bank, "ONCEBOX_DEDUPE_TABLE=" + d.own.dedupe,
		"ONCEBOX_METRICS=on",
	}
	bootstrap, err := hostSweep()
	must(t, err)
	functions := map[string]*lambdatest.Function{
		"claims": startFunction(t, append(env, "AWS_ENDPOINT_URL="+d.claim.url)...).served(t, env),
		"sweep":  launch(t, bootstrap, t.TempDir(), sweepEnv...).served(t, sweepEnv),
	}
	d.lambda = lambdaClient(lambdatest.Serve(t, "oncebox", functions))
	d.found, err = doctor.Find(t.Context(), d.lambda, []string{"claims", "sweep"})
	must(t, err)
	return d
}

func lambdaClient(endpoint string) *lambda.Client {
	return lambda.New(lambda.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// play plays the claims.
func (d *deployed) play(t *testing.T) *doctor.Report {
	t.Helper()
	report := doctor.NewReport(nil)
	must(t, doctor.PlayClaims(t.Context(), d.claims(), report))
	return report
}

func (d *deployed) claims() doctor.ClaimsPlay {
	return doctor.ClaimsPlay{Lambda: d.lambda, Store: d.store, Claim: d.found[0], Sweep: &d.found[1], Explain: error.Error}
}

// rows returns the keys of all rows of a table.
func (d *deployed) rows(t *testing.T, table string) (rows []string) {
	t.Helper()
	client := itembankengines.Client(testengine.Dynoxide(t), nil)
	pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: &table})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		must(t, err)
		for _, row := range page.Items {
			pk, sk := row["pk"].(*types.AttributeValueMemberS), row["sk"].(*types.AttributeValueMemberS)
			rows = append(rows, pk.Value+" "+sk.Value)
		}
	}
	slices.Sort(rows)
	return rows
}

// TestDoctorPlaysClaims plays all steps with the built functions, and leaves no row.
func TestDoctorPlaysClaims(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployClaims(t)
	addCampaign(t, d.bank, "spring", itembank.Settings{}, 2)
	_, err := d.bank.Claim(t.Context(), "spring", "customer-1")
	must(t, err)
	before := [2][]string{d.rows(t, d.own.bank), d.rows(t, d.own.dedupe)}
	for range 2 { // it is safe to repeat
		for _, c := range d.play(t).Checks {
			if c.Status != doctor.OK {
				t.Errorf("%s: %s: %s", c.Name, c.Status, c.Detail)
			}
		}
	}
	after := [2][]string{d.rows(t, d.own.bank), d.rows(t, d.own.dedupe)}
	equal(t, "rows of the bank table", strings.Join(after[0], "\n"), strings.Join(before[0], "\n"))
	equal(t, "rows of the dedupe table", strings.Join(after[1], "\n"), strings.Join(before[1], "\n"))
}

// TestDoctorIsInterrupted stops a run after each step. The scratch campaigns must still be deleted.
func TestDoctorIsInterrupted(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployClaims(t)
	steps := len(d.play(t).Checks) - 1 // without the clean-up
	before := [2][]string{d.rows(t, d.own.bank), d.rows(t, d.own.dedupe)}
	for after := 1; after < steps; after++ {
		ctx, interrupt := context.WithCancel(t.Context())
		made := 0
		err := doctor.PlayClaims(ctx, d.claims(), doctor.NewReport(func(doctor.Check) {
			if made++; made == after {
				interrupt()
			}
		}))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d steps: %v", after, err)
		}
		equal(t, "rows of the bank table", strings.Join(d.rows(t, d.own.bank), "\n"), strings.Join(before[0], "\n"))
		equal(t, "rows of the dedupe table", strings.Join(d.rows(t, d.own.dedupe), "\n"), strings.Join(before[1], "\n"))
	}
}

// cut is Lambda for a run that is interrupted in an invocation. The function still gets the event: at once, or when
// the run has ended.
type cut struct {
	doctor.Lambda
	left      int // invocations before that
	interrupt context.CancelFunc
	late      bool
	rest      func() // invokes the function if it is late, and waits for it
}

func (c *cut) Invoke(
	ctx context.Context, in *lambda.InvokeInput, options ...func(*lambda.Options),
) (*lambda.InvokeOutput, error) {
	c.left--
	if c.left != 0 {
		return c.Lambda.Invoke(ctx, in, options...)
	}
	done := make(chan struct{})
	invoke := func() {
		defer close(done)
		_, _ = c.Lambda.Invoke(context.WithoutCancel(ctx), in, options...) // no caller waits for its answer
	}
	if c.rest = invoke; !c.late {
		go invoke()
		c.rest = func() { <-done }
	}
	c.interrupt()
	return nil, ctx.Err()
}

// TestDoctorIsInterruptedInAnInvocation stops a run in each invocation, while the function continues. It must leave
// no row.
func TestDoctorIsInterruptedInAnInvocation(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployClaims(t)
	d.play(t)
	before := [2][]string{d.rows(t, d.own.bank), d.rows(t, d.own.dedupe)}
	for _, late := range []bool{false, true} {
		for n := 1; ; n++ {
			ctx, interrupt := context.WithCancel(t.Context())
			play, c := d.claims(), &cut{Lambda: d.lambda, left: n, interrupt: interrupt, late: late}
			play.Lambda = c
			err := doctor.PlayClaims(ctx, play, doctor.NewReport(nil))
			interrupt()
			if c.rest == nil {
				must(t, err)
				t.Logf("%d invocations", n-1)
				break
			}
			c.rest()
			where := fmt.Sprintf("invocation %d, late: %t: ", n, late)
			equal(t, where+"bank table", strings.Join(d.rows(t, d.own.bank), "\n"), strings.Join(before[0], "\n"))
			equal(t, where+"dedupe table", strings.Join(d.rows(t, d.own.dedupe), "\n"), strings.Join(before[1], "\n"))
		}
	}
}

// cutWrites is the HTTP client of a doctor that is interrupted in its own write. DynamoDB gets an interrupted write
// after the run has ended.
type cutWrites struct {
	left      int // writes before that
	interrupt context.CancelFunc
	rest      func() // sends the write that was cut; nil: none was
}

func (c *cutWrites) Do(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if slices.Contains([]string{"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"}, operation) {
		if c.left--; c.left == 0 {
			c.interrupt()
			if r.Context().Err() != nil {
				body, err := io.ReadAll(r.Body)
				c.rest = func() {
					late := r.Clone(context.Background())
					late.Body = io.NopCloser(bytes.NewReader(body))
					if response, err := http.DefaultClient.Do(late); err == nil {
						_ = response.Body.Close() // the answer is not read
					}
				}
				return nil, errors.Join(r.Context().Err(), err)
			}
		}
	}
	return http.DefaultClient.Do(r)
}

// TestDoctorIsInterruptedInAWrite stops a run in each of its own writes, which DynamoDB gets after the clean-up. It
// must leave no row.
func TestDoctorIsInterruptedInAWrite(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployClaims(t)
	d.play(t)
	before := [2][]string{d.rows(t, d.own.bank), d.rows(t, d.own.dedupe)}
	engine, cuts := itembankengines.Client(testengine.Dynoxide(t), nil).Options(), 0
	for n := 1; ; n++ {
		ctx, interrupt := context.WithCancel(t.Context())
		c := &cutWrites{left: n, interrupt: interrupt}
		own := engine.Copy()
		own.HTTPClient = c
		play := d.claims()
		play.Store = dynamostore.New(dynamodb.New(own), d.own.bank, d.own.dedupe)
		err := doctor.PlayClaims(ctx, play, doctor.NewReport(nil))
		interrupt()
		if c.rest != nil {
			cuts++
			c.rest()
		}
		where := fmt.Sprintf("write %d: ", n)
		equal(t, where+"bank table", strings.Join(d.rows(t, d.own.bank), "\n"), strings.Join(before[0], "\n"))
		equal(t, where+"dedupe table", strings.Join(d.rows(t, d.own.dedupe), "\n"), strings.Join(before[1], "\n"))
		if err == nil { // it was the clean-up
			t.Logf("%d writes, of which %d were cut", n-1, cuts)
			break
		}
	}
	if cuts == 0 {
		t.Error("no write was cut")
	}
}

// TestDoctorNeedsEachPermission removes each permission that a step says it proves. Then the first of these steps
// must fail and name the action, and none of the steps may be ok.
func TestDoctorNeedsEachPermission(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployClaims(t)
	proved := map[doctor.Permission]bool{}
	for _, c := range d.play(t).Checks {
		equal(t, c.Name+": "+c.Detail, c.Status, doctor.OK) // else nothing would be needed
		for _, p := range c.Proves {
			proved[p] = true
		}
	}
	checkAllRows(t, proved, "claim", "Always")
	checkAllRows(t, proved, "sweep", "Always", "With metrics")
	for p := range maps.Keys(proved) {
		cloud := map[string]*cloud{"claim": d.claim, "sweep": d.sweep}[p.Function]
		cloud.deny(grantOf(t, p))
		checkDenied(t, p, d.play(t))
		cloud.deny(grant{})
	}
	t.Logf("%d permissions", len(proved))
}

// scheduled is Lambda with a schedule that sweeps at the worst moments: before or after requests of claimants.
type scheduled struct {
	doctor.Lambda
	sweep  string // the ARN of the sweep function
	claim  string // the ARN of the claim function
	before int    // a sweep comes just before this request for claimantD; 0: before none
	after  bool   // a sweep comes after each of these requests
	asked  int
}

func (s *scheduled) Invoke(
	ctx context.Context, in *lambda.InvokeInput, options ...func(*lambda.Options),
) (*lambda.InvokeOutput, error) {
	if *in.FunctionName != s.claim || !strings.Contains(string(in.Payload), `oncebox-doctor-d\"`) {
		return s.Lambda.Invoke(ctx, in, options...)
	}
	sweep := func() error {
		_, err := s.Lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &s.sweep, Payload: []byte("{}")})
		return err
	}
	if s.asked++; s.asked == s.before {
		if err := sweep(); err != nil {
			return nil, err
		}
	}
	out, err := s.Lambda.Invoke(ctx, in, options...)
	if s.after && err == nil {
		err = sweep()
	}
	return out, err
}

// TestDoctorNeedsTheIndexBesideASchedule uses a claim function without the index. It finds items only after a sweep,
// which the schedule may start at any time of a run. The step must still fail.
func TestDoctorNeedsTheIndexBesideASchedule(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for name, schedule := range map[string]scheduled{
		"between two requests": {after: true}, "just before a request": {before: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployClaims(t)
			schedule.Lambda, schedule.claim, schedule.sweep = d.lambda, d.found[0].Invoked, d.found[1].Invoked
			d.lambda = &schedule
			for _, c := range d.play(t).Checks { // the schedule alone does no harm
				equal(t, c.Name+": "+c.Detail, c.Status, doctor.OK)
			}
			schedule.asked = 0
			p := doctor.Permission{
				Function: "claim", Action: "dynamodb:Query", Resource: "index `due` of the dedupe table",
				Only: "leading keys `due#*`",
			}
			d.claim.deny(grantOf(t, p))
			checkDenied(t, p, d.play(t))
		})
	}
}

// notProved is the section of docs/iam.md with the rows that the doctor does not prove.
const notProved = "Try the permissions"

// checkAllRows checks that each row of a function is proved, or is a row that docs/iam.md marks as not proved.
func checkAllRows(t *testing.T, proved map[doctor.Permission]bool, function string, sections ...string) {
	t.Helper()
	var found []grant
	for p := range maps.Keys(proved) {
		if p.Function == function {
			found = append(found, grantOf(t, p))
		}
	}
	exceptions := documentedGrants(t, notProved, function)
	for _, section := range sections {
		for _, row := range documentedGrants(t, section, function) {
			if slices.Contains(found, row) == slices.Contains(exceptions, row) {
				t.Errorf("%+v: is proved %t, and docs/iam.md says that it is not: %t", row,
					slices.Contains(found, row), slices.Contains(exceptions, row))
			}
		}
	}
}

// grantOf returns the row of docs/iam.md for a permission.
func grantOf(t *testing.T, p doctor.Permission) grant {
	t.Helper()
	var all []grant
	for _, section := range []string{"Always", fromStream, withKeys, withLog, toStream, withAcks} {
		all = append(all, documentedGrants(t, section, p.Function)...)
	}
	g := grant{function: p.Function, action: p.Action, resource: p.Resource}
	if p.Only != "" {
		parts := keyPattern.FindStringSubmatch(p.Only)
		if parts == nil {
			t.Fatalf("%s: %q is not understood", p, p.Only)
		}
		g.key, g.isPrefix = strings.Replace(parts[1], "SCOPE", "clicks", 1), parts[2] == "*"
	}
	if !slices.Contains(all, g) {
		t.Errorf("docs/iam.md has no row %s", p)
	}
	return g
}

// checkDenied checks the report of a run without a permission.
func checkDenied(t *testing.T, p doctor.Permission, report *doctor.Report) {
	t.Helper()
	failed := false
	for _, c := range report.Checks {
		if !slices.Contains(c.Proves, p) {
			continue
		}
		switch c.Status {
		case doctor.OK:
			t.Errorf("without %s: the step %q is ok", p, c.Name)
		case doctor.Failure, doctor.Warning: // a warning if there may be another reason
			if !failed {
				t.Logf("without %s: %s: %s", p, c.Name, c.Detail)
			}
			failed = true
			if !strings.Contains(c.Do, p.String()) {
				t.Errorf("the step %q does not say what it needs: %s", c.Name, c.Do)
			}
		}
	}
	if !failed {
		text, _ := json.Marshal(report.Checks)
		t.Errorf("without %s: no step fails: %s", p, text)
	}
}
