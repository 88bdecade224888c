// Command seatmap is a ticket shop: visitors choose seats on a map, hold them while they pay, and get them when the
// provider of payments says that they have paid. It is a server of its own over the library, with a SQLite file. The
// provider is a stub, which calls back once, twice, late or never.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/oncebox/oncebox/examples/seatmap/provider"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

const (
	campaign  = "hall"
	mostSeats = 4                // of a visitor
	often     = 5 * time.Second  // how often the shop asks for payments about which it was not called
	patience  = 10 * time.Second // for a request
)

func main() {
	const usage = "usage: seatmap HOST:PORT FILE HOLD; HOLD is how long seats wait for their payment, as in 2m"
	if len(os.Args) != len([]string{"seatmap", "address", "file", "hold"}) {
		log.Fatal(usage)
	}
	hold, err := time.ParseDuration(os.Args[3])
	if err != nil {
		log.Fatal(usage)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], hold); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, file string, hold time.Duration) error {
	store, err := sqlitestore.Create(ctx, file)
	if err != nil {
		return err
	}
	base := "http://" + address
	late := hold + time.Minute // a payment that comes so late finds that the hold is over
	s, err := newShop(ctx, itembank.NewOperator(store), hold, provider.New(base+"/webhook", base+"/", late))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	go every(ctx, time.Second, func() error { _, err := s.bank.SweepDue(ctx, campaign, nil); return err })
	go every(ctx, often, func() error { return s.settleAll(ctx) })
	fmt.Printf("Open %s in a browser, or in two. Ctrl-C ends it.\n", base)
	server := http.Server{Handler: s.routes(), ReadTimeout: patience}
	return server.Serve(listener)
}

// newShop makes the campaign and loads the seats of the shop's file. Both are safe to repeat, so a server can do it
// whenever it starts.
func newShop(
	ctx context.Context, bank *itembank.Operator, hold time.Duration, payments *provider.Provider,
) (*shop, error) {
	file, err := files.Open("seats.csv")
	if err != nil {
		return nil, err
	}
	seats, err := readSeats(file)
	if err != nil {
		return nil, err
	}
	_, _, err = bank.CreateCampaign(ctx, campaign, itembank.Settings{
		Choice: true, MaxItems: mostSeats, Hold: hold, Publish: true,
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(seats))
	for i, s := range seats {
		names[i] = s.Name
	}
	_, err = bank.Load(ctx, campaign, itembank.Items(names...), nil)
	return &shop{bank: bank, payments: payments, seats: seats}, err
}

// every repeats work that is safe to repeat. After an error the next time tries again.
func every(ctx context.Context, pause time.Duration, work func() error) {
	for ticker := time.NewTicker(pause); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
			if err := work(); err != nil {
				log.Print(err)
			}
		}
	}
}
