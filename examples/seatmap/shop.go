package main

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/examples/seatmap/provider"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// files are the page, and the shop's own list of its seats: what there is and what it costs. The bank knows which of
// them are free.
//
//go:embed index.html seatmap.css seatmap.js seats.csv
var files embed.FS

// seat is a line of the shop's file.
type seat struct {
	Name   string `json:"seat"`
	Row    string `json:"row"`
	Number string `json:"number"`
	Cents  int    `json:"cents"`
}

// readSeats reads a file such as seats.csv. Its first line is columns, and prices are such as 40 or 35.50.
func readSeats(file io.Reader) (seats []seat, err error) {
	const columns = "seat,row,number,price"
	lines := csv.NewReader(file)
	first, _ := lines.Read() // what cannot be read is another line
	if got := strings.Join(first, ","); got != columns {
		return nil, fmt.Errorf("seats.csv: the first line must be %s; is %q", columns, got)
	}
	known := map[string]bool{}
	for {
		fields, err := lines.Read()
		switch {
		case errors.Is(err, io.EOF) && len(seats) == 0:
			return nil, errors.New("seats.csv: there is no seat in it")
		case errors.Is(err, io.EOF):
			return seats, nil
		case err != nil: // it names the line
			return nil, fmt.Errorf("seats.csv: %w", err)
		}
		line, _ := lines.FieldPos(0)
		next := seat{Name: fields[0], Row: fields[1], Number: fields[2]}
		if known[next.Name] {
			return nil, fmt.Errorf("seats.csv, line %d: seat %s is on an earlier line, too", line, next.Name)
		}
		known[next.Name] = true
		if next.Cents, err = centsOf(fields[3]); err != nil {
			return nil, fmt.Errorf("seats.csv, line %d: %w", line, err)
		}
		seats = append(seats, next)
	}
}

// centsOf reads a price such as 40 or 35.50.
func centsOf(price string) (cents int, err error) {
	units, fraction, found := strings.Cut(price, ".")
	if !found {
		fraction = "00"
	}
	const digits, bits = 2, 31
	n, err := strconv.ParseUint(units+fraction, 10, bits)
	if err != nil || units == "" || len(fraction) != digits {
		return 0, fmt.Errorf("the price %q is not a number such as 40 or 35.50", price)
	}
	return int(n), nil
}

// shop sells seats. It stores nothing itself: who has which seat is in the bank, and who has paid is at the provider.
type shop struct {
	bank     *itembank.Operator
	payments *provider.Provider
	seats    []seat
}

func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	mux.Handle("/campaigns/", claimapi.New(s.bank.Bank, claimapi.FromContext(), slog.New(slog.DiscardHandler)))
	mux.HandleFunc("GET /seats.json", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.seats) })
	mux.HandleFunc("POST /pay", s.pay)
	mux.HandleFunc("GET /payments/{id}", s.payment)
	mux.HandleFunc("POST /webhook", s.webhook)
	mux.Handle("/provider/", s.payments)
	return withVisitor(mux)
}

type visitorKey struct{}

// withVisitor tells the claim API who the visitor is. Here each browser is a visitor, by a cookie. Behind a login, take
// the customer that it has verified. Behind TLS, make the cookie Secure.
func withVisitor(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("visitor")
		if err != nil || cookie.Value == "" {
			cookie = &http.Cookie{ //nolint:gosec // there is no TLS on this machine
				Name: "visitor", Value: rand.Text(), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
			}
			http.SetCookie(w, cookie)
		}
		ctx := context.WithValue(r.Context(), visitorKey{}, cookie.Value)
		next.ServeHTTP(w, r.WithContext(claimapi.WithCaller(ctx, cookie.Value)))
	})
}

func visitorOf(r *http.Request) string {
	visitor, _ := r.Context().Value(visitorKey{}).(string)
	return visitor
}

// pay sends the visitor to the provider, to pay for the seats that they hold. The payment names the claim, and is due
// when the hold ends. The same claim again is the same payment, so two tabs do not pay twice.
func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	held, err := s.bank.HeldClaim(r.Context(), campaign, visitorOf(r))
	switch {
	case errors.Is(err, itembank.ErrRefused) || err == nil && held.EndsAt.IsZero(): // ended, or paid before
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	case err != nil:
		tryAgain(w, err)
		return
	}
	payment := provider.Payment{Reference: held.FirstID(), Customer: held.Claimant, Due: held.EndsAt}
	for _, name := range held.Items {
		i := slices.IndexFunc(s.seats, func(known seat) bool { return known.Name == name })
		if i < 0 { // an earlier file had it: the bank keeps its items until they are withdrawn
			http.Error(w, name+" has no price any more: give your seats back, and choose again", http.StatusConflict)
			return
		}
		payment.Cents += s.seats[i].Cents
	}
	payment = s.payments.Create(payment)
	http.Redirect(w, r, payment.Page(), http.StatusSeeOther)
}

// webhook is what the provider calls when a payment has changed. The call says only which one, and the shop asks for
// the rest. So a call that comes twice, late, or from somebody else does no harm.
func (s *shop) webhook(w http.ResponseWriter, r *http.Request) {
	payment, ok := s.payments.Get(r.FormValue("id"))
	if !ok {
		http.Error(w, "there is no such payment", http.StatusNotFound)
		return
	}
	if err := s.settle(r.Context(), payment); err != nil {
		tryAgain(w, err)
	}
}

// settle confirms the claim that was paid, or its replacement, by its id. If the claim is over, its seats may belong to
// somebody else: the money goes back. Every step is safe to repeat, also by two callers at once: a claim that is over
// stays over.
func (s *shop) settle(ctx context.Context, p provider.Payment) error {
	if p.Status != provider.Paid {
		return nil
	}
	_, err := s.bank.Confirm(ctx, campaign, p.Customer, p.Reference)
	if errors.Is(err, itembank.ErrClaimEnded) {
		err = s.confirmReplacement(ctx, p)
	}
	if isOver(err) {
		s.payments.Refund(p.ID)
		return nil
	}
	return err
}

// confirmReplacement confirms the claim that an operator has put in place of the claim that was paid.
func (s *shop) confirmReplacement(ctx context.Context, p provider.Payment) error {
	held, err := s.bank.HeldClaim(ctx, campaign, p.Customer)
	switch {
	case err != nil:
		return err
	case held.FirstID() != p.Reference:
		return itembank.ErrClaimEnded
	}
	_, err = s.bank.Confirm(ctx, campaign, p.Customer, held.ID)
	if errors.Is(err, itembank.ErrClaimEnded) { // replaced once more: the next call reads it
		return itembank.ErrTryAgain
	}
	return err
}

// isOver reports whether an error says that the claim is over. A forgotten or blocked visitor has no claim either.
func isOver(err error) bool {
	return errors.Is(err, itembank.ErrNoClaim) || errors.Is(err, itembank.ErrClaimEnded) ||
		errors.Is(err, itembank.ErrNotEligible)
}

// settleAll settles the payments about which no call came.
func (s *shop) settleAll(ctx context.Context) (failed error) {
	for _, p := range s.payments.Paid() {
		failed = errors.Join(failed, s.settle(ctx, p))
	}
	return failed
}

// payment tells a visitor how their payment is. The seats are in the claim.
func (s *shop) payment(w http.ResponseWriter, r *http.Request) {
	payment, ok := s.payments.Get(r.PathValue("id"))
	if !ok || payment.Customer != visitorOf(r) {
		http.Error(w, "there is no such payment", http.StatusNotFound)
		return
	}
	answer(w, map[string]string{"status": payment.Status, "claim_id": payment.Reference})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value) // the visitor may be gone
}

func tryAgain(w http.ResponseWriter, err error) {
	log.Print(err)
	w.Header().Set("Retry-After", "1")
	http.Error(w, "please try again", http.StatusServiceUnavailable)
}
