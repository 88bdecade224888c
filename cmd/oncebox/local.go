package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

type localCommand struct {
	Addr        string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	AllowRemote bool   `help:"Allow an address that other machines can reach. There is no authentication: everybody can claim for everybody."`
}

func (localCommand) Help() string {
	return `Requests go through the Lambda handler, as events of an API Gateway HTTP API. The claimant comes from the body.
Closes holds and claims whose time is over every second, as the sweep function does on a schedule. Prints a curl
command that makes a claim. Ctrl-C ends it.

Examples:
  oncebox local
  oncebox --store sqlite:codes.db local --addr 127.0.0.1:9090`
}

func (c localCommand) Run(ctx context.Context, a *app) error {
	if err := c.checkAddr(); err != nil {
		return err
	}
	return a.withHandler(ctx, func(bank *itembank.Bank, h *claimapi.Handler) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Addr)
		if err != nil {
			return listenError(c.Addr, err)
		}
		base := "http://" + listener.Addr().String()
		a.remark("serving the claim API of %s on %s", a.Store, base)
		example, err := exampleClaim(ctx, bank, base)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		a.remark("%s", example)
		defer sweepWhile(ctx, bank)()
		return serve(ctx, listener, h, a.Store)
	})
}

// sweepEvery is the time between two sweeps. In AWS a schedule does them.
const sweepEvery = time.Second

// sweepWhile closes the holds and claims whose time is over until the returned function is called. That returns when
// nobody uses the bank any more.
func sweepWhile(ctx context.Context, bank *itembank.Bank) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sweeps := sweephandler.New(bank, slog.Default())
		for ticker := time.NewTicker(sweepEvery); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				sweepOnce(ctx, sweeps)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// checkAddr refuses addresses that other machines can reach, unless --allow-remote is set.
func (c localCommand) checkAddr() error {
	host, port, err := net.SplitHostPort(c.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return &usageError{fmt.Errorf("--addr %q: must be HOST:PORT, with a port from 0 to 65535", c.Addr), ""}
	}
	ip := net.ParseIP(host)
	if c.AllowRemote || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return &usageError{
		fmt.Errorf("--addr %q: other machines can reach this address, and there is no authentication", c.Addr),
		"Say --allow-remote to let them claim.",
	}
}

// listenError says why the address cannot be used.
func listenError(addr string, err error) error {
	var system *os.SyscallError
	if errors.As(err, &system) {
		err = system.Err
	}
	return &usageError{fmt.Errorf("--addr %s: %w", addr, err), "Choose another port, for example --addr 127.0.0.1:8081."}
}

// exampleClaim is a curl command that claims an item of a campaign of the store.
func exampleClaim(ctx context.Context, bank *itembank.Bank, base string) (string, error) {
	campaigns, err := bank.Campaigns(ctx)
	if err != nil {
		return "", err
	}
	if len(campaigns) == 0 {
		return "the store has no campaigns yet; make one: oncebox campaign create spring", nil
	}
	campaign := campaigns[0]
	for _, c := range campaigns {
		if c.StateAt(time.Now()) == itembank.Open {
			campaign = c
			break
		}
	}
	return "try: " + curlClaim(base, campaign.Name), nil
}

func curlClaim(base, campaign string) string {
	const headerAndBody = ` -H 'Content-Type: application/json' -d '{"claimant":"customer-17"}'`
	return fmt.Sprintf("curl -X POST %s/campaigns/%s/claims", base, campaign) + headerAndBody
}

// sweepOnce runs a sweep to its end, also when the context ends meanwhile. The log has its error, and the next sweep
// tries again.
func sweepOnce(ctx context.Context, sweeps *sweephandler.Handler) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	_, _ = sweeps.Handle(ctx)
}

// Time-outs of the local server. They are much longer than a claim.
const (
	readTimeout     = 10 * time.Second
	writeTimeout    = 35 * time.Second
	shutdownTimeout = 5 * time.Second
)

// serve answers until the context ends, then lets running requests finish.
func serve(ctx context.Context, listener net.Listener, h *claimapi.Handler, store string) error {
	httpServer := &http.Server{Handler: server{h, store}, ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	failed := make(chan error, 1)
	go func() { failed <- httpServer.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := httpServer.Shutdown(ending); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// withHandler runs a command with the Lambda handler over the store. Settings other than the tables come from the
// variables of the Lambda function.
func (a *app) withHandler(ctx context.Context, run func(*itembank.Bank, *claimapi.Handler) error) error {
	options, err := claimapi.ParseOptions(os.Environ())
	if err != nil {
		return &usageError{err, ""}
	}
	store, closeStore, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	bank := itembank.New(store, itembank.WithCampaignCache(options.CampaignCache))
	confirm := claimapi.WithClaimantsConfirm(options.ClaimantsConfirm)
	return run(bank, claimapi.New(bank, options.ClaimantFrom, slog.Default(), confirm))
}

// server is the claim API and a page for the person at this machine: / says what answers here.
type server struct {
	api   http.Handler
	store string
}

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		s.describe(w, r)
		return
	}
	s.api.ServeHTTP(w, r)
}

// rootJSON says what answers here.
type rootJSON struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Store   string `json:"store"`
	Example string `json:"example"`
}

func (s server) describe(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	printJSON(w, rootJSON{"oncebox claim API", currentVersion(), s.store, curlClaim("http://"+r.Host, "CAMPAIGN")})
}
