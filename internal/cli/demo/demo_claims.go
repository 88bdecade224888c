package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/claims/itemfile"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// These are the sizes of the first job.
const (
	demoCodes      = 100
	demoCustomers  = 20
	demoRequests   = 100
	demoOthers     = demoCodes - demoCustomers + demoTooMany
	demoTooMany    = 5
	demoContainers = 4
	demoAttempts   = 20 // for a request that is answered 503, as clients do
)

// claims runs the first job.
func (d *demo) claims(ctx context.Context) error {
	d.text("Claims: %d voucher codes in a bank on %s, %d containers of the claim function",
		demoCodes, d.result.Store, demoContainers)
	if err := d.loadFirst(ctx); err != nil {
		return err
	}
	customers := names("customer", demoCustomers)
	codes, err := d.storm(ctx, customers)
	if err != nil {
		return err
	}
	if err := d.askAgain(ctx, customers, codes, "the same 20 customers ask again"); err != nil {
		return err
	}
	if err := d.emptyBank(ctx); err != nil {
		return err
	}
	if err := d.askAgain(ctx, customers, codes, "the first 20 customers ask once more"); err != nil {
		return err
	}
	return d.loadAgain(ctx)
}

func (d *demo) loadFirst(ctx context.Context) (err error) {
	if _, _, err := d.bank.CreateCampaign(ctx, d.campaign, itembank.Settings{}); err != nil {
		return err
	}
	codes := strings.Join(names("SPRING", demoCodes), "\n") + "\n"
	if err := os.WriteFile(d.codesFile(), []byte(codes), 0o600); err != nil {
		return err
	}
	if d.result.Loaded, err = d.load(ctx); err != nil {
		return err
	}
	d.step(fmt.Sprintf("load a file of %d codes", demoCodes), "%d added", d.result.Loaded.Added)
	return check("codes added", d.result.Loaded.Added, demoCodes)
}

func (d *demo) codesFile() string { return filepath.Join(d.dir, "codes.txt") }

func (d *demo) load(ctx context.Context) (itembank.Tally, error) {
	open := func() (io.ReadCloser, error) { return os.Open(d.codesFile()) }
	report, err := d.bank.Load(ctx, d.campaign, itemfile.Lines(open), nil)
	return report.Tally, err
}

// storm sends all requests at once to several containers, each with its own page. It returns the code of each
// customer.
func (d *demo) storm(ctx context.Context, customers []string) (codes map[string]string, err error) {
	codes, holders := map[string]string{}, map[string]string{}
	created, replayed := 0, 0
	for _, r := range d.ask(ctx, customers, demoRequests/demoCustomers) {
		if r.err != nil {
			return nil, r.err
		}
		if r.status == http.StatusCreated {
			created++
		} else {
			replayed++
		}
		if code, ok := codes[r.customer]; ok && code != r.code {
			return nil, fmt.Errorf("the demo failed: %s was given two codes", r.customer)
		}
		if holder, ok := holders[r.code]; ok && holder != r.customer {
			return nil, fmt.Errorf("the demo failed: one code was given to %s and %s", holder, r.customer)
		}
		codes[r.customer], holders[r.code] = r.code, r.customer
	}
	if d.result.AfterStorm, err = d.bank.ConsistentCounts(ctx, d.campaign); err != nil {
		return nil, err
	}
	d.step(fmt.Sprintf("%d customers send %d requests at once", demoCustomers, demoRequests),
		"%d new claims, %d repeats; %d claimed, %d free",
		created, replayed, d.result.AfterStorm.Claimed, d.result.AfterStorm.Free)
	return codes, errors.Join(
		check("customers with a code", int64(len(codes)), demoCustomers),
		check("codes given out", int64(len(holders)), demoCustomers),
		check("new claims", int64(created), demoCustomers),
		check("repeats", int64(replayed), demoRequests-demoCustomers),
		check("claimed in the store", d.result.AfterStorm.Claimed, demoCustomers),
		check("free in the store", d.result.AfterStorm.Free, demoCodes-demoCustomers),
	)
}

// askAgain sends requests of customers who have a code. Each must get the same code.
func (d *demo) askAgain(ctx context.Context, customers []string, codes map[string]string, did string) error {
	same := 0
	for _, r := range d.ask(ctx, customers, 1) {
		if r.err != nil {
			return r.err
		}
		if r.status == http.StatusOK && r.code == codes[r.customer] {
			same++
		}
	}
	d.step(did, "%d of %d got the same code", same, len(customers))
	return check("customers who got the same code", int64(same), int64(len(customers)))
}

// emptyBank lets other customers take the remaining codes, and a few more ask for one.
func (d *demo) emptyBank(ctx context.Context) error {
	got, soldOut := 0, 0
	for _, r := range d.ask(ctx, names("other", demoOthers), 1) {
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
	if d.result.AfterAll, err = d.bank.ConsistentCounts(ctx, d.campaign); err != nil {
		return err
	}
	d.step(fmt.Sprintf("%d other customers ask", demoOthers), "%d got a code, %d were told \"sold out\"; %d free",
		got, soldOut, d.result.AfterAll.Free)
	return errors.Join(
		check("others with a code", int64(got), demoCodes-demoCustomers),
		check("others who were told \"sold out\"", int64(soldOut), demoTooMany),
		check("claimed in the store", d.result.AfterAll.Claimed, demoCodes),
		check("free in the store", d.result.AfterAll.Free, 0),
	)
}

func (d *demo) loadAgain(ctx context.Context) (err error) {
	if d.result.Reloaded, err = d.load(ctx); err != nil {
		return err
	}
	counts, err := d.bank.ConsistentCounts(ctx, d.campaign)
	if err != nil {
		return err
	}
	again := d.result.Reloaded
	d.step("load the same file again", "%d added, %d known; %d free", again.Added, again.Known, counts.Free)
	return errors.Join(
		check("codes added", again.Added, 0),
		check("codes known", again.Known, demoCodes),
		check("free in the store", counts.Free, 0),
	)
}

// demoReply is the reply to one customer.
type demoReply struct {
	customer string
	status   int
	code     string
	err      error
}

// ask lets every customer ask several times, all at once, and returns the replies.
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

// request sends one POST as API Gateway hands it to the Lambda function, and repeats it
// while the answer is 503.
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
	for range demoAttempts {
		reply := answer(ctx, container, event, customer)
		if reply.status != http.StatusServiceUnavailable || ctx.Err() != nil {
			return reply
		}
	}
	return demoReply{err: fmt.Errorf("the demo failed: the store was busy in %d attempts of %s", demoAttempts, customer)}
}

// answer is one reply of the function.
func answer(
	ctx context.Context, container *claimapi.Handler, event events.APIGatewayV2HTTPRequest, customer string,
) demoReply {
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
		return demoReply{err: fmt.Errorf("the demo failed: status %d: %s", response.StatusCode, body.Detail)}
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
