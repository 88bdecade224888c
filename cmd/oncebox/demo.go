package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/itemfile"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type demoCommand struct{}

func (demoCommand) Help() string {
	return `Runs on a SQLite file of its own, which is removed afterwards, or with
--store dynamodb: on a campaign of its own in the tables of a local engine. Every
number is counted in the store, and checked: if one is wrong the demo fails.`
}

// The sizes of the demo.
const (
	demoCodes      = 100
	demoCustomers  = 20
	demoRequests   = 100
	demoContainers = 4
	demoTries      = 5 // of a request that is answered try-again, as clients do
)

func (demoCommand) Run(ctx context.Context, a *app) error {
	dir, err := os.MkdirTemp("", "oncebox-demo-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if a.Store != dynamodbStore {
		a.Store = sqlitePrefix + filepath.Join(dir, "demo.db")
	}
	if err := a.create(ctx, false); err != nil {
		return err
	}
	store, closeStore, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	d := &demo{app: a, bank: itembank.New(store), campaign: demoName(), dir: dir}
	defer d.close()
	from, err := claimapi.ParseClaimantFrom("body")
	if err != nil {
		return err
	}
	for range demoContainers {
		log := slog.New(slog.DiscardHandler)
		d.containers = append(d.containers, claimapi.New(itembank.New(store), from, log))
	}
	return d.run(ctx)
}

// demo is the demo on its way, and its result.
type demo struct {
	app        *app
	bank       *itembank.Bank
	containers []*claimapi.Handler
	campaign   string // and the scope and streams of the records
	dir        string
	via        string // how the records went
	step       int
	closers    []func() error
	result     demoResult
}

// close closes what the demo opened. Every number has been read by then.
func (d *demo) close() {
	for _, c := range d.closers {
		_ = c()
	}
}

type demoResult struct {
	Store      string            `json:"store"`
	Loaded     itembank.Tally    `json:"loaded"`
	AfterStorm itembank.Counts   `json:"after_100_requests_of_20_customers"`
	AfterAll   itembank.Counts   `json:"after_the_bank_was_emptied"`
	Reloaded   itembank.Tally    `json:"loaded_again"`
	Records    demoRecordsResult `json:"records"`
}

func (d *demo) run(ctx context.Context) error {
	d.result.Store, _, _ = strings.Cut(d.app.Store, ":")
	if err := d.claims(ctx); err != nil {
		return err
	}
	if err := d.records(ctx); err != nil {
		return err
	}
	return d.app.print(d.result, "every check held")
}

// claims is the first job of the demo.
func (d *demo) claims(ctx context.Context) error {
	customers := names("customer", demoCustomers)
	if err := d.loadFirst(ctx); err != nil {
		return err
	}
	codes, err := d.storm(ctx, customers)
	if err != nil {
		return err
	}
	if err := d.repeat(ctx, customers, codes, "the same 20 customers ask again"); err != nil {
		return err
	}
	if err := d.empty(ctx); err != nil {
		return err
	}
	if err := d.repeat(ctx, customers, codes, "the first 20 customers ask once more, with nothing left"); err != nil {
		return err
	}
	return d.loadAgain(ctx)
}

// say prints a step and what came of it.
func (d *demo) say(what, came string, args ...any) {
	d.step++
	if d.app.Output == "text" {
		_, _ = fmt.Fprintf(d.app.stdout, "%d. %s\n   -> %s\n", d.step, what, fmt.Sprintf(came, args...))
	}
}

func (d *demo) load(ctx context.Context) (itembank.Tally, error) {
	path := filepath.Join(d.dir, "codes.txt")
	report, err := d.bank.Load(ctx, d.campaign, itemfile.Lines(func() (io.ReadCloser, error) { return os.Open(path) }), nil)
	return report.Tally, err
}

func (d *demo) loadFirst(ctx context.Context) (err error) {
	if _, _, err := d.bank.CreateCampaign(ctx, d.campaign, itembank.Settings{}); err != nil {
		return err
	}
	codes := strings.Join(names("SPRING", demoCodes), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(d.dir, "codes.txt"), []byte(codes), 0o600); err != nil {
		return err
	}
	if d.result.Loaded, err = d.load(ctx); err != nil {
		return err
	}
	d.say(fmt.Sprintf("load a file of %d voucher codes into a bank on %s", demoCodes, d.result.Store), "added %d", d.result.Loaded.Added)
	return check("codes added", d.result.Loaded.Added, demoCodes)
}

// storm sends all requests at once, over several containers with pages of
// their own, and returns who got which code.
func (d *demo) storm(ctx context.Context, customers []string) (map[string]string, error) {
	replies := d.ask(ctx, customers, demoRequests/demoCustomers)
	codes, fresh, replayed := map[string]string{}, 0, 0
	holder := map[string]string{}
	for _, r := range replies {
		if r.err != nil {
			return nil, r.err
		}
		if r.status == http.StatusCreated {
			fresh++
		} else {
			replayed++
		}
		if had, ok := codes[r.customer]; ok && had != r.code {
			return nil, fmt.Errorf("%s was given two codes", r.customer)
		}
		if other, ok := holder[r.code]; ok && other != r.customer {
			return nil, fmt.Errorf("one code was given to %s and %s", other, r.customer)
		}
		codes[r.customer], holder[r.code] = r.code, r.customer
	}
	var err error
	if d.result.AfterStorm, err = d.bank.Counts(ctx, d.campaign); err != nil {
		return nil, err
	}
	d.say(fmt.Sprintf("%d simultaneous requests from %d customers, over %d containers", demoRequests, demoCustomers, demoContainers),
		"%d customers with one code each (%d answered 201, %d answered 200); the store counts %d claimed, %d free",
		len(codes), fresh, replayed, d.result.AfterStorm.Claimed, d.result.AfterStorm.Free)
	return codes, errors.Join(
		check("customers with a code", int64(len(codes)), demoCustomers),
		check("codes given out", int64(len(holder)), demoCustomers),
		check("new claims", int64(fresh), demoCustomers),
		check("claimed in the store", d.result.AfterStorm.Claimed, demoCustomers),
		check("free in the store", d.result.AfterStorm.Free, demoCodes-demoCustomers),
	)
}

// repeat lets customers ask again; each must get the code it has.
func (d *demo) repeat(ctx context.Context, customers []string, codes map[string]string, what string) error {
	same := 0
	for _, r := range d.ask(ctx, customers, 1) {
		if r.err != nil {
			return r.err
		}
		if r.status == http.StatusOK && r.code == codes[r.customer] {
			same++
		}
	}
	d.say(what, "%d of %d got the same code", same, len(customers))
	return check("customers who got the same code", int64(same), int64(len(customers)))
}

// empty lets others take the rest, and five more hear that it is gone.
func (d *demo) empty(ctx context.Context) error {
	rest := demoCodes - demoCustomers
	got, soldOut := 0, 0
	for _, r := range d.ask(ctx, names("other", rest+5), 1) {
		switch {
		case r.err != nil:
			return r.err
		case r.status == http.StatusCreated:
			got++
		case r.status == http.StatusConflict:
			soldOut++
		}
	}
	var err error
	if d.result.AfterAll, err = d.bank.Counts(ctx, d.campaign); err != nil {
		return err
	}
	d.say(fmt.Sprintf("%d others ask", rest+5), "%d got a code, %d heard sold-out; the store counts %d claimed, %d free",
		got, soldOut, d.result.AfterAll.Claimed, d.result.AfterAll.Free)
	return errors.Join(
		check("others with a code", int64(got), int64(rest)),
		check("others who heard sold-out", int64(soldOut), 5),
		check("free in the store", d.result.AfterAll.Free, 0),
	)
}

func (d *demo) loadAgain(ctx context.Context) (err error) {
	if d.result.Reloaded, err = d.load(ctx); err != nil {
		return err
	}
	counts, err := d.bank.Counts(ctx, d.campaign)
	if err != nil {
		return err
	}
	d.say("load the same file again", "added %d, known %d; the store counts %d free", d.result.Reloaded.Added, d.result.Reloaded.Known, counts.Free)
	return errors.Join(
		check("codes added", d.result.Reloaded.Added, 0),
		check("codes known", d.result.Reloaded.Known, demoCodes),
		check("free in the store", counts.Free, 0),
	)
}

// check is one thing that must hold.
func check(what string, got, want int64) error {
	if got != want {
		return fmt.Errorf("the demo failed: %s: %d, want %d", what, got, want)
	}
	return nil
}

type demoReply struct {
	customer string
	status   int
	code     string
	err      error
}

// ask lets every customer ask several times, all at once.
func (d *demo) ask(ctx context.Context, customers []string, times int) []demoReply {
	replies := make([]demoReply, len(customers)*times)
	var wg sync.WaitGroup
	for i := range replies {
		container := d.containers[(i/len(customers)+i)%len(d.containers)]
		wg.Go(func() { replies[i] = d.request(ctx, container, customers[i%len(customers)]) })
	}
	wg.Wait()
	return replies
}

// request is one POST as API Gateway hands it to the Lambda function, sent
// again while the answer is try-again.
func (d *demo) request(ctx context.Context, container *claimapi.Handler, customer string) demoReply {
	body, err := json.Marshal(map[string]string{"claimant": customer})
	if err != nil {
		return demoReply{err: err}
	}
	path := "/campaigns/" + d.campaign + "/claims"
	event := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RawPath: path, Headers: map[string]string{"content-type": "application/json"}, Body: string(body),
	}
	event.RequestContext.Stage = "$default"
	event.RequestContext.HTTP.Method = http.MethodPost
	event.RequestContext.HTTP.Path = path
	for range demoTries {
		reply := answer(ctx, container, event, customer)
		if reply.status != http.StatusServiceUnavailable || ctx.Err() != nil {
			return reply
		}
	}
	return demoReply{err: fmt.Errorf("the store was busy for all of %d tries", demoTries)}
}

// answer is one reply of the function.
func answer(ctx context.Context, container *claimapi.Handler, event events.APIGatewayV2HTTPRequest, customer string) demoReply {
	response, err := container.Handle(ctx, event)
	if err != nil {
		return demoReply{err: err}
	}
	var body struct {
		Item   string `json:"item"`
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal([]byte(response.Body), &body); err != nil {
		return demoReply{err: err}
	}
	if response.StatusCode == http.StatusInternalServerError {
		return demoReply{err: fmt.Errorf("status %d: %s", response.StatusCode, body.Detail)}
	}
	return demoReply{customer: customer, status: response.StatusCode, code: body.Item}
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%03d", prefix, i+1)
	}
	return all
}
