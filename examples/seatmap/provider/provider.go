// Package provider is a stub of a provider of payments. Its page lets the visitor say how it calls the shop back: once,
// twice, late or never.
package provider

import (
	"crypto/rand"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// The statuses of a payment.
const (
	Open     = "open"
	Paid     = "paid"
	Refunded = "refunded"
)

// Payment is a payment as the provider knows it.
type Payment struct {
	ID        string
	Reference string // the shop's id of what is paid; there is one payment for each
	Customer  string
	Cents     int
	Due       time.Time // it cannot be paid later
	Status    string
}

// Page returns the path of the page on which the customer pays.
func (p Payment) Page() string { return "/provider/" + p.ID }

// Amount returns what is paid, for people.
func (p Payment) Amount() string { return fmt.Sprintf("%d.%02d €", p.Cents/100, p.Cents%100) }

// Provider keeps payments in memory. It is safe for concurrent use.
type Provider struct {
	hook, back string // addresses of the shop: for calls, and for customers who have paid
	late       time.Duration

	mu       sync.Mutex
	payments map[string]Payment // by id
}

// New makes a Provider that calls hook, and sends customers back to another address.
func New(hook, back string, late time.Duration) *Provider {
	return &Provider{hook: hook, back: back, late: late, payments: map[string]Payment{}}
}

// Create makes a payment, or returns the payment that has this reference. While that one is open, it gets a later
// due date: the hold may have been prolonged.
func (p *Provider) Create(payment Payment) Payment {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, known := range p.payments {
		if known.Reference != payment.Reference {
			continue
		}
		if known.Status == Open && known.Due.Before(payment.Due) {
			known.Due = payment.Due
			p.payments[id] = known
		}
		return known
	}
	payment.ID, payment.Status = rand.Text(), Open
	p.payments[payment.ID] = payment
	return payment
}

// Get returns a payment.
func (p *Provider) Get(id string) (payment Payment, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	payment, ok = p.payments[id]
	return payment, ok
}

// Paid returns the payments that are paid. A real provider has a list by time.
func (p *Provider) Paid() (paid []Payment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, payment := range p.payments {
		if payment.Status == Paid {
			paid = append(paid, payment)
		}
	}
	return paid
}

// Refund pays a payment back. It is safe to repeat.
func (p *Provider) Refund(id string) { p.change(id, Paid, Refunded) }

// change gives a payment another status, if it has the one before.
func (p *Provider) change(id, before, after string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	payment := p.payments[id]
	if payment.Status == before {
		payment.Status = after
		p.payments[id] = payment
	}
}

// ServeHTTP shows the page of a payment, and takes the customer's answer.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	payment, ok := p.Get(r.URL.Path[len("/provider/"):])
	switch {
	case !ok:
		http.NotFound(w, r)
	case r.Method == http.MethodPost && payment.Status == Open && time.Now().Before(payment.Due):
		p.pay(payment, r.FormValue("calls"))
		fallthrough
	case payment.Status != Open || r.Method == http.MethodPost:
		http.Redirect(w, r, p.back+"?payment="+payment.ID, http.StatusSeeOther)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, payment) // the customer may be gone
	}
}

// pay takes the money and calls the shop. A late call is about money that came late, as with a transfer.
func (p *Provider) pay(payment Payment, calls string) {
	if calls == "late" {
		time.AfterFunc(p.late, func() { p.pay(payment, "once") })
		return
	}
	p.change(payment.ID, Open, Paid)
	for range map[string]int{"once": 1, "twice": 2}[calls] {
		go p.call(payment.ID)
	}
}

func (p *Provider) call(id string) {
	answer, err := http.PostForm(p.hook, url.Values{"id": {id}}) //nolint:noctx // nobody waits for it
	if err != nil {
		log.Print("the provider cannot call the shop: ", err)
		return
	}
	_ = answer.Body.Close()
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Pay {{.Amount}}</title>
<link rel="stylesheet" href="/seatmap.css">
</head>
<body>
<main>
<h1>Pay {{.Amount}}</h1>
<p>This is the page of the provider of payments. It takes no money. How does it call the shop?</p>
<form method="post" class="actions">
<button class="main" name="calls" value="once">Pay</button>
<button name="calls" value="twice">Pay, and call twice</button>
<button name="calls" value="late">Pay by a transfer that comes too late</button>
<button name="calls" value="never">Pay, and never call</button>
</form>
<p><a href="/">Back without paying</a></p>
</main>
</body>
</html>
`))
