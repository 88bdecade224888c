package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	bankstore "github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// TestBothEnginesOnOneFile: a process has claims and entries in one file, as the oncebox command does.
func TestBothEnginesOnOneFile(t *testing.T) {
	path := inTemp(t)
	ctx := t.Context()
	claims, err := bankstore.Create(ctx, path, bankstore.WithBusyTimeout(time.Minute))
	check(t, err)
	if _, err := Open(ctx, path); !errors.Is(err, ErrNotStore) || !errors.Is(err, bankstore.ErrNotStore) ||
		!strings.Contains(err.Error(), "no tables for deduplication; run `oncebox init`") {
		t.Errorf("without the tables: %v", err)
	}
	entries := newStore(t, path, WithBusyTimeout(time.Minute))
	bank := itembank.NewOperator(claims)
	_, _, err = bank.CreateCampaign(ctx, "c", itembank.Settings{Shards: 1})
	check(t, err)

	const writes = 50
	items := make([]string, 2*writes)
	for i := range items {
		items[i] = fmt.Sprint("item-", i)
	}
	_, err = bank.Load(ctx, "c", itembank.Items(items...), nil)
	check(t, err)
	var all sync.WaitGroup
	for w := range 2 {
		all.Go(func() {
			for i := range writes {
				if _, err := bank.Claim(context.Background(), "c", fmt.Sprint("claimant-", w, "-", i)); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for i := range writes {
				results, err := entries.PutIfAbsent(context.Background(), []dedupe.Entry{entry(fmt.Sprint(w, "-", i), "one")})
				if err != nil || results[0].Existing != nil {
					t.Errorf("%+v, %v", results, err)
				}
			}
		})
	}
	all.Wait()
	check(t, claims.Close())
	if e := entries.put(t, entry("0-0", "two")); !holds(e, entry("0-0", "one")) {
		t.Errorf("after the other engine was closed: %+v", e)
	}
	claims, err = bankstore.Open(ctx, path)
	check(t, err)
	defer func() { check(t, claims.Close()) }()
	n, err := claims.Counts(ctx, engine.Campaign{Name: "c"}, true)
	if want := (engine.Counts{Loaded: 2 * writes, Claimed: 2 * writes}); err != nil || n != want {
		t.Errorf("counts are %+v (%v), want %+v", n, err, want)
	}
}

// TestEntriesFirst: either engine may make the file.
func TestEntriesFirst(t *testing.T) {
	path := inTemp(t)
	newStore(t, path).put(t, entry("a", "one"))
	if _, err := bankstore.Open(t.Context(), path); !errors.Is(err, ErrNotStore) {
		t.Errorf("without the tables: %v", err)
	}
	claims, err := bankstore.Create(t.Context(), path)
	check(t, err)
	check(t, claims.Close())
}
