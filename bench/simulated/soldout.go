package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// SoldOut is a bank without items, and one warm container that gets requests of new customers. Customers who come
// while it serves another go to another container, which is not simulated.
type SoldOut struct {
	Model
	Rate     float64       // customers a second, on average; the times between them are exponentially distributed
	Timeout  time.Duration // of a request; the container answers nothing then
	Duration time.Duration // how long customers come
}

// SoldOutReport says what answers cost.
type SoldOutReport struct {
	Answers  int // "sold out"
	Timeouts int
	Requests int

	times []time.Duration // of answers and time-outs, sorted
}

// PerAnswer is the number of requests an answer.
func (r SoldOutReport) PerAnswer() float64 { return float64(r.Requests) / float64(r.Answers) }

// Time returns the time within which a share of the customers had an answer or a time-out.
func (r SoldOutReport) Time(share float64) time.Duration { return quantile(r.times, share) }

// MeanTime returns the mean time of an answer or a time-out.
func (r SoldOutReport) MeanTime() time.Duration {
	var sum time.Duration
	for _, t := range r.times {
		sum += t
	}
	return sum / time.Duration(max(len(r.times), 1))
}

// Run sends the requests to the container. The first customer, who warms it, is not in the report.
func (o SoldOut) Run() (report SoldOutReport, err error) {
	s, err := NewStore(o.Model)
	if err != nil {
		return report, err
	}
	bank, arrivals := s.Bank(0), draw(o.Seed, "arrivals")
	if err := o.ask(s, bank, 0, &report); err != nil {
		return report, err
	}
	report = SoldOutReport{}
	s.forgetCost()
	begun := time.Now()
	for n := 1; ; n++ {
		time.Sleep(time.Duration(arrivals.ExpFloat64() * float64(time.Second) / o.Rate))
		if time.Since(begun) >= o.Duration {
			break
		}
		if err := o.ask(s, bank, n, &report); err != nil {
			return report, err
		}
	}
	report.Requests = s.Cost().Requests
	slices.Sort(report.times)
	return report, nil
}

// ask asks for one customer.
func (o SoldOut) ask(s *Store, bank *itembank.Operator, customer int, report *SoldOutReport) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
	defer cancel()
	came := time.Now()
	_, err := bank.Claim(ctx, s.Name(), fmt.Sprintf("customer-%d", customer))
	report.times = append(report.times, time.Since(came))
	switch {
	case errors.Is(err, itembank.ErrSoldOut):
		report.Answers++
	case errors.Is(err, context.DeadlineExceeded):
		report.Timeouts++
	default:
		return fmt.Errorf("customer %d of a bank without items: %w", customer, err)
	}
	return nil
}
