package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/examples/seatmap/provider"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

const hold = 2 * time.Minute

// TestPayments: seats are sold if and only if their payment is kept, however the provider calls.
func TestPayments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after func(*bench, provider.Payment) // the visitor has paid
		sold  bool
	}{
		"one call":      {func(b *bench, p provider.Payment) { b.call(p.ID) }, true},
		"two calls":     {func(b *bench, p provider.Payment) { b.call(p.ID); b.call(p.ID) }, true},
		"calls at once": {func(b *bench, p provider.Payment) { b.together(p.ID) }, true},
		"no call":       {func(b *bench, _ provider.Payment) { must(b.T, b.shop.settleAll(b.Context())) }, true},
		"late, and the hold is not closed": {func(b *bench, p provider.Payment) {
			b.clock.advance(hold + time.Minute)
			b.call(p.ID)
		}, true},
		"late": {func(b *bench, p provider.Payment) {
			b.closeHold()
			b.call(p.ID)
			b.call(p.ID)
		}, false},
		"late, and the seat has another holder": {func(b *bench, p provider.Payment) {
			b.closeHold()
			_, err := b.shop.bank.Claim(b.Context(), campaign, "bob", itembank.Choosing("A1"))
			must(b.T, err)
			b.together(p.ID)
		}, false},
		"late, and the visitor holds the seat again": {func(b *bench, p provider.Payment) {
			b.closeHold()
			b.reserve("A1")
			b.call(p.ID)
		}, false},
		"late, and the visitor is forgotten": {func(b *bench, p provider.Payment) {
			_, err := b.shop.bank.Forget(b.Context(), campaign, p.Customer, itembank.ForgetOptions{})
			must(b.T, err)
			b.call(p.ID)
			b.call(p.ID)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.reserve("A1", "C1")
			_, page := b.post("/pay", nil)
			p := b.shop.payments.Create(provider.Payment{Reference: b.claim().ID}) // the same one
			if want := 6500; p.Cents != want || page != p.Page() {
				t.Errorf("the payment is %+v, the page is %s", p, page)
			}
			b.post(p.Page(), url.Values{"calls": {"never"}})
			test.after(b, p)
			p, _ = b.shop.payments.Get(p.ID)
			held, err := b.shop.bank.HeldClaim(t.Context(), campaign, p.Customer)
			confirmed := err == nil && held.ID == p.Reference && held.EndsAt.IsZero()
			if kept := p.Status == provider.Paid; confirmed != test.sold || kept != test.sold {
				t.Errorf("sold: %v, the payment is %s; want sold: %v", confirmed, p.Status, test.sold)
			}
		})
	}
}

// TestDueDate: a payment is due later after its hold was prolonged, and not when it is paid.
func TestDueDate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve("A1")
	_, page := b.post("/pay", nil)
	payment := provider.Payment{Reference: b.claim().ID, Due: b.claim().EndsAt.Add(hold)}
	if due := b.shop.payments.Create(payment).Due; !due.Equal(payment.Due) {
		t.Errorf("the payment is due at %v, want %v", due, payment.Due)
	}
	b.post(page, url.Values{"calls": {"never"}})
	last := payment.Due
	payment.Due = last.Add(hold)
	if due := b.shop.payments.Create(payment).Due; !due.Equal(last) {
		t.Errorf("the payment that was paid is due at %v, want %v", due, last)
	}
}

// TestReplacedTickets: a ticket that an operator replaces, before or after its payment is settled, stays paid.
func TestReplacedTickets(t *testing.T) {
	t.Parallel()
	for _, settledBefore := range []bool{true, false} {
		b := newBench(t)
		b.reserve("A1")
		b.post("/pay", nil)
		p := b.shop.payments.Create(provider.Payment{Reference: b.claim().ID}) // the same one
		b.post(p.Page(), url.Values{"calls": {"never"}})
		if settledBefore {
			b.call(p.ID)
		}
		var last itembank.Grant
		for range 2 {
			var err error
			last, err = b.shop.bank.Replace(t.Context(), campaign, p.Customer, b.claim().ID)
			must(t, err)
		}
		b.together(p.ID)
		must(t, b.shop.settleAll(t.Context()))
		p, _ = b.shop.payments.Get(p.ID)
		if held := b.claim(); held.ID != last.Claim.ID || !held.EndsAt.IsZero() || p.Status != provider.Paid {
			t.Errorf("settled before: %t; the visitor holds %+v, the payment is %s", settledBefore, held, p.Status)
		}
	}
}

// TestSeatWithoutAPrice: a seat that the file does not have any more is not sold for nothing.
func TestSeatWithoutAPrice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shop.seats = b.shop.seats[1:] // without A1
	b.reserve("A1")
	if status, page := b.post("/pay", nil); status != http.StatusConflict {
		t.Errorf("the payment is answered %d, %s", status, page)
	}
}

// TestSeatsFile: the shop's file has prices with and without cents, and may be one of Windows, with quotes. The page
// gets what the shop has read. An error names the file, the line and the value.
func TestSeatsFile(t *testing.T) {
	t.Parallel()
	const columns = "seat,row,number,price\n"
	b := newBench(t)
	var err error
	b.shop.seats, err = readSeats(strings.NewReader(strings.ReplaceAll(columns+`A1,A,1,40
"A2","A",2,35.50
`, "\n", "\r\n")))
	must(t, err)
	const want = `[{"seat":"A1","row":"A","number":"1","cents":4000},{"seat":"A2","row":"A","number":"2","cents":3550}]`
	page := httptest.NewRecorder()
	b.shop.routes().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/seats.json", nil))
	if got := strings.TrimSpace(page.Body.String()); got != want {
		t.Errorf("the page gets %s, want %s", got, want)
	}
	const first = "the first line must be seat,row,number,price; is "
	for file, want := range map[string]string{
		"":                                first + `""`,
		"A1,A,1,40\n":                     first + `"A1,A,1,40"`,
		"seat;row;number;price\n":         first + `"seat;row;number;price"`,
		columns:                           "there is no seat in it",
		columns + "A2,A,2,35.5":           `line 2: the price "35.5" `,
		columns + "A2,A,2,35,50":          "line 2: wrong number of fields",
		columns + "A2,A,2,":               `line 2: the price "" `,
		columns + "A2,A,2,-3":             `line 2: the price "-3" `,
		columns + "A2,A,2,.50":            `line 2: the price ".50" `,
		columns + "\nA2,A,2,40 €":         `line 3: the price "40 €" `,
		columns + "A2,A,2,25\nA2,A,1,300": "line 3: seat A2 is on an earlier line",
	} {
		_, err := readSeats(strings.NewReader(file))
		if text := fmt.Sprint(err); !strings.HasPrefix(text, "seats.csv") || !strings.Contains(text, want) {
			t.Errorf("%q: the error is %q, want %q", file, text, want)
		}
	}
}

// TestForgedCall: a call about a payment that nobody has made, or has paid, sells nothing.
func TestForgedCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reserve("A1")
	b.post("/pay", nil)
	b.call(b.shop.payments.Create(provider.Payment{Reference: b.claim().ID}).ID)
	if status, _ := b.post("/webhook", url.Values{"id": {"forged"}}); status != http.StatusNotFound {
		t.Errorf("a forged call is answered %d", status)
	}
	if b.claim().EndsAt.IsZero() {
		t.Error("a seat is sold without money")
	}
}

// bench is a shop with one visitor, whose browser has cookies.
type bench struct {
	*testing.T
	shop    *shop
	base    string
	browser *http.Client
	clock   *clock
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "seats.db"))
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	jar, err := cookiejar.New(nil)
	must(t, err)
	b := &bench{T: t, browser: &http.Client{Jar: jar}, clock: &clock{}}
	bank := itembank.NewOperator(store, itembank.WithClock(b.clock))
	mux := http.NewServeMux() // the shop needs the address of its server
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b.base = server.URL
	b.shop, err = newShop(t.Context(), bank, hold, provider.New(b.base+"/webhook", b.base+"/", 0))
	must(t, err)
	mux.Handle("/", b.shop.routes())
	return b
}

// post sends a form, and returns the status and the path of the answer, after redirects.
func (b *bench) post(path string, form url.Values) (status int, answered string) {
	b.Helper()
	return b.send(path, "application/x-www-form-urlencoded", form.Encode())
}

func (b *bench) send(path, contentType, body string) (status int, answered string) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.base+path, strings.NewReader(body))
	must(b.T, err)
	request.Header.Set("Content-Type", contentType)
	answer, err := b.browser.Do(request)
	must(b.T, err)
	must(b.T, answer.Body.Close())
	return answer.StatusCode, answer.Request.URL.Path
}

func (b *bench) reserve(seats ...string) {
	b.Helper()
	body := `{"items":["` + strings.Join(seats, `","`) + `"]}`
	if status, _ := b.send("/campaigns/hall/claims", "application/json", body); status != http.StatusCreated {
		b.Fatalf("the reservation is answered %d", status)
	}
}

// claim returns what the visitor holds.
func (b *bench) claim() itembank.Claim {
	b.Helper()
	base, err := url.Parse(b.base)
	must(b.T, err)
	held, err := b.shop.bank.HeldClaim(b.Context(), campaign, b.browser.Jar.Cookies(base)[0].Value)
	must(b.T, err)
	return held
}

func (b *bench) call(id string) {
	b.Helper()
	if status, _ := b.post("/webhook", url.Values{"id": {id}}); status != http.StatusOK {
		b.Errorf("a call of the provider is answered %d", status)
	}
}

func (b *bench) together(id string) {
	b.Helper()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { b.call(id) })
	}
	all.Wait()
	must(b.T, b.shop.settleAll(b.Context()))
}

func (b *bench) closeHold() {
	b.Helper()
	b.clock.advance(hold + time.Minute)
	_, err := b.shop.bank.SweepDue(b.Context(), campaign, nil)
	must(b.T, err)
}

// clock is the machine's clock, ahead by a duration.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
