package simulated

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Customers returns the names of so many customers.
func Customers(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("customer-%d", i+1)
	}
	return names
}

// Repeated returns the names in a random order, each so many times.
func Repeated(seed uint64, names []string, times int) (visits []string) {
	for range times {
		visits = append(visits, names...)
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(visits), func(i, j int) { visits[i], visits[j] = visits[j], visits[i] })
	return visits
}

// Play sends customers to the containers, each as soon as one is free, until all have an item. After every answer it
// calls answered with the number of answers so far.
func Play(m Model, customers []string, containers int, answered func(n int, s *Store)) (*Store, error) {
	s, err := NewStore(m)
	if err != nil {
		return nil, err
	}
	p := play{store: s, customers: customers, answered: answered}
	var working sync.WaitGroup
	for n := range containers {
		working.Go(func() { p.work(n) })
	}
	working.Wait()
	return s, p.failed
}

// play is a queue of customers.
type play struct {
	store    *Store
	answered func(n int, s *Store)

	mu        sync.Mutex // guards the rest
	customers []string
	answers   int
	failed    error
}

func (p *play) work(container int) {
	bank := p.store.Bank(container)
	start := draw(p.store.model.Seed, fmt.Sprintf("start %d", container))
	time.Sleep(untilTurn(container, p.store.model.Latency.of(start)))
	for {
		customer, ok := p.next()
		if !ok {
			return
		}
		_, err := bank.Claim(context.Background(), p.store.Name(), customer)
		p.note(err)
	}
}

func (p *play) next() (customer string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.customers) == 0 || p.failed != nil {
		return "", false
	}
	customer, p.customers = p.customers[0], p.customers[1:]
	return customer, true
}

func (p *play) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failed = err
		return
	}
	p.answers++
	if p.answered != nil {
		p.answered(p.answers, p.store)
	}
}
