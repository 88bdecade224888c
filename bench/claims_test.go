package bench

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

const (
	smallBank = 2_000
	largeBank = 100_000

	handings = 5 // of a small bank; their median is the figure
)

// Goals of claims.
const (
	maxWith8       = 1.25 // requests a claim, small bank
	maxWith32      = 1.50
	maxOfLarge     = 1.06
	maxLost        = 0.03 // lost races a claim
	maxAgain       = 1.05 // requests, where each customer asks again and again
	maxAgainWrites = 0.20
	maxAgainReads  = 0.60
	maxTime        = 1 / 0.95 // that is 0.95 of the throughput
	maxProcessor   = 1.15

	maxShared8         = 1.10 // requests a claim, small bank, workers of one process
	maxShared32        = 1.25
	maxSharedTime      = 1 / 0.9
	maxSharedProcessor = 1.25
)

// BenchmarkClaims measures claims through the handler, as the claim function calls it, from the bytes of an event to
// the bytes of the response. It compares them with a bare loop of the same transactions. Banks have the default
// settings. Each worker is a container: it has its own handler and so its own page. In one process all workers share
// a handler, or a bare loop's page. All requests are counted.
func BenchmarkClaims(b *testing.B) {
	throughput(b)
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
	smallBanks(b)
	theLargeBank(b)
	askedAgain(b)
}

// throughput takes handler and bare loop in turn.
func throughput(b *testing.B) {
	b.Helper()
	var took, cpu, sharedTook, sharedCPU pairs
	for b.Loop() {
		floor, handler := handOut(b, 8, (*shop).bare), handOut(b, 8, (*shop).handler)
		took.add(handler.took/smallBank, floor.took/smallBank)
		cpu.add(handler.cpu/smallBank, floor.cpu/smallBank)
		floor, handler = handOut(b, 8, shared((*shop).bare)), handOut(b, 8, shared((*shop).handler))
		sharedTook.add(handler.took/smallBank, floor.took/smallBank)
		sharedCPU.add(handler.cpu/smallBank, floor.cpu/smallBank)
	}
	took.report("time of a claim through the handler", maxTime)
	cpu.report("client's processor time of a claim through the handler", maxProcessor)
	sharedTook.report("time of a claim, 8 workers of one process", maxSharedTime)
	sharedCPU.report("client's processor time of a claim, 8 workers of one process", maxSharedProcessor)
}

// shared starts one container for all workers of a bank.
func shared(start func(s *shop, campaign string) container) func(s *shop, campaign string) container {
	var once sync.Once
	var one container
	return func(s *shop, campaign string) container {
		once.Do(func() { one = start(s, campaign) })
		return one
	}
}

// handOut hands out a small bank on an engine that was not used before.
func handOut(b *testing.B, workers int, start func(s *shop, campaign string) container) spent {
	b.Helper()
	endpoint, stop := testengine.FreshDynoxide(b)
	defer stop()
	s := newShop(b, endpoint)
	return s.toTheLast(smallBank, workers, func(campaign string) container { return start(s, campaign) })
}

// crowds are the workers that hand out a small bank, and the goals of a claim's requests.
var crowds = []struct {
	workers int
	where   string
	share   func(start func(s *shop, campaign string) container) func(s *shop, campaign string) container
	goal    float64
}{
	{8, "", apart, maxWith8},
	{32, "", apart, maxWith32},
	{8, " of one process", shared, maxShared8},
	{32, " of one process", shared, maxShared32},
}

// apart starts a container for each worker.
func apart(start func(s *shop, campaign string) container) func(s *shop, campaign string) container {
	return start
}

func smallBanks(b *testing.B) {
	b.Helper()
	for _, c := range crowds {
		name := fmt.Sprintf("requests a claim, bank of %d, %d workers%s", smallBank, c.workers, c.where)
		var handler, lost, bare []float64
		for range handings {
			spent := handOut(b, c.workers, c.share((*shop).handler))
			handler, lost = append(handler, spent.requests/smallBank), append(lost, spent.lost/smallBank)
			bare = append(bare, handOut(b, c.workers, c.share((*shop).bare)).requests/smallBank)
		}
		note(name, median(handler), c.goal, fmt.Sprintf("%.2f to %.2f, %d times; %.3f lost races",
			slices.Min(handler), slices.Max(handler), handings, median(lost)))
		note(name+": bare loop", median(bare), 0, fmt.Sprintf("%.2f to %.2f", slices.Min(bare), slices.Max(bare)))
	}
}

// theLargeBank is on DynamoDB Local, which is slower, but keeps its speed until the end.
func theLargeBank(b *testing.B) {
	b.Helper()
	s := newShop(b, testengine.DynamoDBLocal(b))
	name := fmt.Sprintf("a claim, bank of %d, 32 workers", largeBank)
	handler := s.toTheLast(largeBank, 32, s.handler)
	note("requests "+name, handler.requests/largeBank, maxOfLarge, "once")
	note("lost races "+name, handler.lost/largeBank, maxLost, "")
}

func askedAgain(b *testing.B) {
	b.Helper()
	endpoint, stop := testengine.FreshDynoxide(b)
	defer stop()
	again := newShop(b, endpoint).againAndAgain(2_000, 50, 8)
	note("2,000 customers who ask 50 times: requests", again.requests, maxAgain, "each time")
	note("2,000 customers who ask 50 times: write units", again.writeUnits, maxAgainWrites, "each time")
	note("2,000 customers who ask 50 times: read units", again.readUnits, maxAgainReads, "each time")
}

// note is a figure that is no ratio of times.
func note(name string, measured, goal float64, detail string) {
	figures = append(figures, figure{name, measured, goal, detail})
}

// shop is an engine with tables, and the clients for its customers.
type shop struct {
	*testing.B
	meter  *meter
	client *dynamodb.Client
	store  *dynamostore.Store
	bank   string // tables
	dedupe string
	event  []byte
}

func newShop(b *testing.B, endpoint string) *shop {
	b.Helper()
	m := &meter{}
	client := newClient(b, endpoint, m)
	s := &shop{
		B: b, meter: m, client: client, bank: "bank-" + rand.Text(), dedupe: "dedupe-" + rand.Text(),
		event: readFile(b, "../events/claim/claim-body.json"),
	}
	s.must(dynamostore.CreateTables(b.Context(), client, s.bank, s.dedupe))
	s.store = dynamostore.New(client, s.bank, s.dedupe)
	return s
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// stock makes a campaign of so many items.
func (s *shop) stock(items int) (campaign string) {
	s.Helper()
	campaign = strings.ToLower(rand.Text())
	codes := make([]string, items)
	for i := range codes {
		codes[i] = fmt.Sprintf("SAVE-%06d-ABCD", i)
	}
	bank := itembank.NewOperator(s.store)
	_, _, err := bank.CreateCampaign(s.Context(), campaign, itembank.Settings{})
	s.must(err)
	_, err = bank.Load(s.Context(), campaign, itembank.Items(codes...), nil)
	s.must(err)
	return campaign
}

// container gives a customer an item. A customer who has an item gets the same item.
type container func(customer int) error

// run lets the customers come to the containers, each as soon as a container is free. It returns the time that this
// took.
func (s *shop) run(campaign string, customers []int, workers int, start func(campaign string) container) spent {
	s.Helper()
	before, cpu, begun := s.meter.read(), s.processorTime(), time.Now()
	queue := make(chan int, len(customers))
	for _, c := range customers {
		queue <- c
	}
	close(queue)
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			claim := start(campaign)
			for c := range queue {
				if err := claim(c); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	if s.Failed() {
		s.FailNow()
	}
	took := s.meter.read().minus(before)
	took.took, took.cpu = time.Since(begun), s.processorTime()-cpu
	return took
}

// toTheLast hands out a bank to its last item, one item to each customer.
func (s *shop) toTheLast(items, workers int, start func(campaign string) container) spent {
	s.Helper()
	customers := make([]int, items)
	for i := range customers {
		customers[i] = i
	}
	return s.run(s.stock(items), customers, workers, start)
}

// againAndAgain measures the cost of one request if each customer sends several, in random order, to a large bank.
func (s *shop) againAndAgain(customers, times, workers int) spent {
	s.Helper()
	all := make([]int, 0, customers*times)
	for range times {
		for c := range customers {
			all = append(all, c)
		}
	}
	mathrand.New(mathrand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return s.run(s.stock(largeBank), all, workers, s.handler).each(len(all))
}

// handler returns a container of the claim function. It gets and returns bytes, as from the Lambda runtime.
func (s *shop) handler(campaign string) container {
	from, err := claimapi.ParseClaimantFrom("body")
	if err != nil {
		panic(err)
	}
	h := claimapi.New(itembank.New(s.store), from, slog.New(slog.NewJSONHandler(nowhere{}, nil)))
	before, after := s.eventAround(campaign)
	return func(customer int) error {
		response, err := h.Invoke(s.Context(), slices.Concat(before, []byte(name(customer)), after))
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(response, created) && !bytes.HasPrefix(response, replayed) {
			return fmt.Errorf("customer %d: %s", customer, response)
		}
		return nil
	}
}

// These are beginnings of responses with an item. Decoding them would cost the client time that the function does not
// spend.
var (
	created  = []byte(`{"statusCode":201,`)
	replayed = []byte(`{"statusCode":200,`)
)

// eventAround returns the text before and after the customer's name in an event that asks for an item of the
// campaign. Making events must cost almost no time.
func (s *shop) eventAround(campaign string) (before, after []byte) {
	const customer = "CUSTOMER"
	var event map[string]any
	if err := json.Unmarshal(s.event, &event); err != nil {
		panic(err)
	}
	event["rawPath"] = "/campaigns/" + campaign + "/claims"
	event["body"] = fmt.Sprintf(`{"claimant":%q}`, customer)
	raw, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	before, after, _ = bytes.Cut(raw, []byte(customer))
	return before, after
}

func name(customer int) string { return fmt.Sprintf("customer-%d@example.com", customer) }

// nowhere discards log lines. A log does not even make its lines for io.Discard.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// processorTime returns the processor time that this process has used so far. The engine is another process.
func (s *shop) processorTime() time.Duration {
	s.Helper()
	var used syscall.Rusage
	s.must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// spent is what claims took.
type spent struct {
	requests, lost        float64 // lost: transactions whose item was gone
	writeUnits, readUnits float64
	sent                  float64 // bytes of bodies
	took, cpu             time.Duration
}

func (c spent) minus(o spent) spent {
	return spent{
		requests: c.requests - o.requests, lost: c.lost - o.lost,
		writeUnits: c.writeUnits - o.writeUnits, readUnits: c.readUnits - o.readUnits, sent: c.sent - o.sent,
	}
}

func (c spent) each(n int) spent {
	f := float64(n)
	return spent{
		requests: c.requests / f, lost: c.lost / f, writeUnits: c.writeUnits / f, readUnits: c.readUnits / f, sent: c.sent / f,
	}
}

// started is how many blocks a text takes.
func started(block int, text []byte) float64 {
	return math.Ceil(float64(len(text)) / float64(block))
}
