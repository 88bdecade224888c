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
)

type localCommand struct {
	Addr        string `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	AllowRemote bool   `help:"Allow an address that other machines reach. There is no authentication: whoever connects can claim for anybody."`
}

func (localCommand) Help() string {
	return `Requests go through the Lambda handler, as events of an API Gateway HTTP API.
The claimant comes from the body. End it with Ctrl-C.

Examples:
  oncebox local
  curl -X POST localhost:8080/campaigns/spring/claims \
    -H 'Content-Type: application/json' -d '{"claimant":"customer-17"}'`
}

func (c localCommand) Run(ctx context.Context, a *app) error {
	if err := c.checkAddr(); err != nil {
		return err
	}
	return a.withHandler(ctx, func(h *claimapi.Handler) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Addr)
		if err != nil {
			return err
		}
		a.remark("serving the claim API of %s on http://%s", a.Store, listener.Addr())
		return serve(ctx, listener, h)
	})
}

// checkAddr refuses addresses that other machines reach, unless that is asked for.
func (c localCommand) checkAddr() error {
	host, port, err := net.SplitHostPort(c.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return &usageError{fmt.Errorf("--addr %q: must be HOST:PORT, with a port of 0 to 65535: %w", c.Addr, err), ""}
	}
	ip := net.ParseIP(host)
	if c.AllowRemote || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return &usageError{fmt.Errorf("--addr %q is not a loopback address; say --allow-remote if other machines are meant to claim without authentication", c.Addr), ""}
}

// Time-outs of the local server, far above what a claim takes.
const (
	readTimeout     = 10 * time.Second
	writeTimeout    = 35 * time.Second
	shutdownTimeout = 5 * time.Second
)

// serve answers until the context ends, then lets requests under way finish.
func serve(ctx context.Context, listener net.Listener, h *claimapi.Handler) error {
	server := &http.Server{Handler: h, ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// withHandler runs a command with the Lambda handler over the store. Settings
// other than the tables come from the Lambda function's own variables.
func (a *app) withHandler(ctx context.Context, run func(*claimapi.Handler) error) error {
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
	return run(claimapi.New(bank, options.ClaimantFrom, slog.Default()))
}
