// Command scopes shows a shared scope: a studio has three classes in a term, and each
// student may book one of them. A class is a campaign, its places are the items, and
// the term is the scope.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "scopes")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := sqlitestore.Create(ctx, filepath.Join(dir, "studio.db"))
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()

	s := studio{itembank.NewOperator(store), out}
	for _, class := range []string{"monday", "tuesday", "friday"} {
		if err := s.open(ctx, class); err != nil {
			return err
		}
	}
	return s.term(ctx)
}

type studio struct {
	bank *itembank.Operator
	out  io.Writer
}

// term is what happens in a term.
func (s studio) term(ctx context.Context) error {
	monday, err := s.book(ctx, "monday", "ann")
	if err != nil {
		return err
	}
	if _, err := s.book(ctx, "tuesday", "ann"); err != nil { // she has a place on Monday
		return err
	}
	if err := s.cancel(ctx, monday); err != nil {
		return err
	}
	for _, b := range []struct{ class, student string }{
		{"tuesday", "ann"},
		{"monday", "bob"}, // the place that ann has given back
		{"monday", "cid"},
		{"friday", "cid"},
	} {
		if _, err := s.book(ctx, b.class, b.student); err != nil {
			return err
		}
	}
	return s.cancel(ctx, monday) // once more, as after a lost reply: no student loses a place
}

// open makes a class of one place. The scope is the term, so that a student can have one place in it. A place that is
// given back can be booked again.
func (s studio) open(ctx context.Context, class string) error {
	settings := itembank.Settings{Scope: "spring-term", OnEnd: itembank.Return}
	if _, _, err := s.bank.CreateCampaign(ctx, class, settings); err != nil {
		return err
	}
	_, err := s.bank.Load(ctx, class, itembank.Items("the mat at the window"), nil)
	return err
}

// book returns the claim, which the student needs to cancel it. If there is no place for the student, it returns the
// zero Claim.
func (s studio) book(ctx context.Context, class, student string) (itembank.Claim, error) {
	grant, err := s.bank.Claim(ctx, class, student)
	var elsewhere *itembank.ClaimedElsewhereError
	switch {
	case errors.As(err, &elsewhere):
		fmt.Fprintf(s.out, "%s, %s: no, you are booked on %s\n", student, class, elsewhere.Campaign)
	case errors.Is(err, itembank.ErrSoldOut):
		fmt.Fprintf(s.out, "%s, %s: no, the class is full\n", student, class)
	case err != nil:
		return itembank.Claim{}, err
	default:
		fmt.Fprintf(s.out, "%s, %s: %s\n", student, class, grant.Claim.Items[0])
	}
	return grant.Claim, nil
}

// cancel gives back the place of a claim that the student has seen. It uses the claim's id, so that it can be
// repeated, and never gives back a later booking.
func (s studio) cancel(ctx context.Context, claim itembank.Claim) error {
	released, err := s.bank.Release(ctx, claim.Campaign, claim.Claimant, claim.ID)
	if err != nil {
		return err
	}
	if released.Already {
		fmt.Fprintf(s.out, "%s, %s: cancelled already\n", claim.Claimant, claim.Campaign)
		return nil
	}
	fmt.Fprintf(s.out, "%s, %s: cancelled\n", claim.Claimant, claim.Campaign)
	return nil
}
