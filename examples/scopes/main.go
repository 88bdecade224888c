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

	s := studio{itembank.New(store), out}
	for _, class := range []string{"monday", "tuesday", "friday"} {
		if err := s.open(ctx, class); err != nil {
			return err
		}
	}
	return errors.Join(
		s.book(ctx, "monday", "ann"),
		s.book(ctx, "tuesday", "ann"), // she has a place on Monday
		s.cancel(ctx, "monday", "ann"),
		s.book(ctx, "tuesday", "ann"),
		s.book(ctx, "monday", "bob"), // the place that ann has given back
		s.book(ctx, "monday", "cid"),
		s.book(ctx, "friday", "cid"),
	)
}

type studio struct {
	bank *itembank.Bank
	out  io.Writer
}

// open makes a class of one place. The scope is the term, so that a student can have
// one place in it; a place that is given back can be booked again.
func (s studio) open(ctx context.Context, class string) error {
	settings := itembank.Settings{Scope: "spring-term", OnEnd: itembank.Return}
	if _, _, err := s.bank.CreateCampaign(ctx, class, settings); err != nil {
		return err
	}
	_, err := s.bank.Load(ctx, class, itembank.Items("the mat at the window"), nil)
	return err
}

func (s studio) book(ctx context.Context, class, student string) error {
	grant, err := s.bank.Claim(ctx, class, student)
	var elsewhere *itembank.ClaimedElsewhereError
	switch {
	case errors.As(err, &elsewhere):
		fmt.Fprintf(s.out, "%s, %s: no, you are booked on %s\n", student, class, elsewhere.Campaign)
	case errors.Is(err, itembank.ErrSoldOut):
		fmt.Fprintf(s.out, "%s, %s: no, the class is full\n", student, class)
	case err != nil:
		return err
	default:
		fmt.Fprintf(s.out, "%s, %s: %s\n", student, class, grant.Claim.Item)
	}
	return nil
}

// cancel gives back the place that the student has seen: by the claim's id, so that
// it can be repeated, and gives back no later booking.
func (s studio) cancel(ctx context.Context, class, student string) error {
	claim, err := s.bank.HeldClaim(ctx, class, student)
	if err != nil {
		return err
	}
	if _, err := s.bank.Release(ctx, class, student, claim.ID); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s, %s: cancelled\n", student, class)
	return nil
}
