package simulated

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// Load is a number of new customers a second. They come even if earlier customers have no answer yet. A customer goes
// to any free container, or waits for one. A customer who gets an error does not come again.
type Load struct {
	Model
	Rate       float64 // customers a second, on average; the times between them are exponentially distributed
	Containers int
	Warm       bool          // each container has served one customer shortly before
	Duration   time.Duration // how long customers come

	prepare func(*Store) error // changes the store before the containers are warm
	beside  func(*Store)       // begins what runs beside the customers
}

// warmUp is the number of containers a second that serve their first customer before a Load begins.
const warmUp = 1000

// Report says how the customers of a Load were answered.
type Report struct {
	Answers  int
	Claims   int
	SoldOut  int
	TryAgain int // errors of the family ErrTryAgain, which HTTP answers with 503
	Cost     Cost

	// BankUse and ClaimsUse are how full the fullest partition of the table was, by the spent write units: 1 means its
	// rate.
	BankUse, ClaimsUse float64

	times []time.Duration // of the answers, sorted; with the waiting for a container
}

// Unanswered is the share of answers that are 503.
func (r Report) Unanswered() float64 { return float64(r.TryAgain) / float64(r.Answers) }

// Time returns the time within which a share of the answers came.
func (r Report) Time(share float64) time.Duration { return quantile(r.times, share) }

// PerAnswer returns a count as a multiple of the answers.
func (r Report) PerAnswer(count int) float64 { return float64(count) / float64(r.Answers) }

// quantile returns the smallest of the sorted times that is not exceeded by the given share of them.
func quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// Run plays the load.
func (l Load) Run() (Report, error) {
	s, err := NewStore(l.Model)
	if err != nil {
		return Report{}, err
	}
	if l.prepare != nil {
		if err := l.prepare(s); err != nil {
			return Report{}, err
		}
	}
	f := &fleet{store: s, random: draw(l.Seed, "fleet")}
	for n := range l.Containers {
		f.free = append(f.free, s.Bank(n))
	}
	if l.Warm {
		f.warm()
	}
	s.forgetCost()
	f.report = Report{}
	if l.beside != nil {
		l.beside(s)
	}
	begun, arrivals := time.Now(), draw(l.Seed, "arrivals")
	for n := 0; ; n++ {
		pause := time.Duration(arrivals.ExpFloat64() * float64(time.Second) / l.Rate)
		time.Sleep(untilTurn(arrival, pause))
		took := time.Since(begun)
		if took >= l.Duration {
			f.noteUse(took)
			break
		}
		f.arrive(fmt.Sprintf("customer-%d", n))
	}
	f.serving.Wait()
	return f.finish()
}

// fleet is the containers of a Load.
type fleet struct {
	store   *Store
	random  *rand.Rand // of the arrivals
	serving sync.WaitGroup

	mu      sync.Mutex // guards the rest
	free    []*itembank.Operator
	waiting []visit // for a container
	report  Report
	failed  error
}

// visit is a customer who came at a time.
type visit struct {
	customer string
	came     time.Time
}

// warm lets each container serve a customer.
func (f *fleet) warm() {
	for n, bank := range slices.Clone(f.free) {
		time.Sleep(time.Second / warmUp)
		f.serving.Go(func() { f.serve(bank, visit{fmt.Sprintf("early-customer-%d", n), time.Now()}) })
	}
	f.serving.Wait()
}

// arrive lets a customer come.
func (f *fleet) arrive(customer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := visit{customer, time.Now()}
	if len(f.free) == 0 {
		f.waiting = append(f.waiting, v)
		return
	}
	last := len(f.free) - 1
	chosen := f.random.IntN(len(f.free))
	bank := f.free[chosen]
	f.free[chosen] = f.free[last]
	f.free = f.free[:last]
	f.serving.Go(func() {
		for more := true; more; v, more = f.next(bank) {
			f.serve(bank, v)
		}
	})
}

// next returns the customer who has waited longest. If no customer waits, the container is free.
func (f *fleet) next(bank *itembank.Operator) (v visit, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		f.free = append(f.free, bank)
		return visit{}, false
	}
	v, f.waiting = f.waiting[0], f.waiting[1:]
	return v, true
}

func (f *fleet) serve(bank *itembank.Operator, v visit) {
	_, err := bank.Claim(context.Background(), f.store.Name(), v.customer)
	took := time.Since(v.came)
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.report
	r.Answers++
	r.times = append(r.times, took)
	switch {
	case err == nil:
		r.Claims++
	case errors.Is(err, itembank.ErrSoldOut):
		r.SoldOut++
	case errors.Is(err, itembank.ErrTryAgain):
		r.TryAgain++
	default:
		f.failed = err
	}
}

// noteUse notes how full the partitions were.
func (f *fleet) noteUse(took time.Duration) {
	if f.store.model.Limits == nil {
		return
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.BankUse, f.report.ClaimsUse = f.store.bank.fullest(took), f.store.claims.fullest(took)
}

func (f *fleet) finish() (Report, error) {
	f.report.Cost = f.store.Cost()
	slices.Sort(f.report.times)
	return f.report, f.failed
}
