package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/internal/aws/awssecret"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/cli/links"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

type localCommand struct {
	Addr        string   `help:"Address to listen on. Default: ${default}." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	LinkKeys    string   `help:"Claimants have personal links, and this file has the public keys." placeholder:"FILE"`
	AllowRemote bool     `help:"Allow an address that other machines can reach. Without links there is no authentication: every caller can claim for any claimant."`
	AllowHost   []string `help:"Answer requests for this host, too. A proxy that passes on the name in its address needs it. May be repeated." placeholder:"NAME"`
}

func (localCommand) Help() string {
	return `Requests go through the Lambda handler, as events of an API Gateway HTTP API. The claimant comes from the body; with
--link-keys, or with the variables of the claim function, from a personal link.
Requests must be for localhost or another loopback address, or for a host of --allow-host. A web page that you visit can
lead its own name to this machine, and would else read what customers claim. With --allow-remote and without
--allow-host every host is answered.
Closes holds and claims whose time is over every second, as the sweep function does on a schedule. Prints a curl
command that makes a claim, and the address of the claim page. Ctrl-C ends it.

Examples:
  oncebox local
  oncebox --store sqlite:codes.db local --addr 127.0.0.1:9090
  oncebox local --link-keys link.key.pub`
}

func (c localCommand) Run(ctx context.Context, a *cli.App) error {
	o, err := c.options(a.Environ)
	if err != nil {
		return err
	}
	return withHandler(ctx, a, o, func(bank *itembank.Operator, h *claimapi.Handler) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Addr)
		if err != nil {
			return listenError(c.Addr, err)
		}
		base := "http://" + listener.Addr().String()
		a.Remark("serving the claim API of %s on %s", a.Store, base)
		remarkExample(ctx, a, bank, base, o)
		defer sweepWhile(ctx, bank)()
		return serve(ctx, listener, c.handler(a, bank, h, o))
	})
}

// handler returns the handler of the server.
func (c localCommand) handler(
	a *cli.App, bank *itembank.Operator, h *claimapi.Handler, o claimapi.Options,
) http.Handler {
	all := claimapi.AllowOrigins(o.CORSOrigins, server{h, a.Store, a.CurrentVersion(), o.ClaimantFrom})
	if !c.AllowRemote || len(c.AllowHost) > 0 { // else others know this machine by names that the operator need not know
		all = h.AllowHosts(c.AllowHost, all)
	}
	return withHealth(&storeHealth{bank: bank, now: time.Now}, all)
}

// sweepEvery is the time between two sweeps. In AWS a schedule does them.
const sweepEvery = time.Second

// sweepWhile closes holds and claims after their end, until the returned function is called. That function returns
// when no request uses the bank any more.
func sweepWhile(ctx context.Context, bank *itembank.Operator) (stop func()) {
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

// options returns the settings of the handler, and checks them with the flags.
func (c localCommand) options(variables []string) (o claimapi.Options, err error) {
	environ, err := c.environ(variables)
	if err != nil {
		return o, err
	}
	if slices.Contains(environ, "ONCEBOX_CALLER=iam") {
		return o, cli.BadUsage(
			errors.New("ONCEBOX_CALLER=iam needs API Gateway, which verifies the callers; there is none here"),
			"Leave it out here, or use --link-keys FILE for personal links.",
		)
	}
	if o, err = handlerOptions(environ); err != nil {
		return o, err
	}
	return o, cmp.Or(c.checkSource(o.ClaimantFrom), c.checkAddr(o.ClaimantFrom), c.checkHosts())
}

// environ returns the settings of the claim function: the variables, and the flags, which replace variables.
func (c localCommand) environ(variables []string) ([]string, error) {
	if c.LinkKeys == "" {
		return variables, nil
	}
	keys, err := os.ReadFile(c.LinkKeys)
	if err != nil {
		return nil, cli.BadUsage(cli.FileError(c.LinkKeys, err), "")
	}
	if _, err := claimlink.ParseKeys(string(keys)); err != nil {
		return nil, links.BadKeys(c.LinkKeys, err)
	}
	return append(slices.Clip(variables), "ONCEBOX_CLAIMANT_FROM="+links.FromLink, "ONCEBOX_LINK_KEYS="+string(keys)), nil
}

// checkSource refuses sources of claimants that need API Gateway: the server would refuse every claim.
func (c localCommand) checkSource(from claimapi.ClaimantFrom) error {
	if text := from.String(); text != links.FromBody && text != links.FromLink {
		return cli.BadUsage(
			fmt.Errorf("ONCEBOX_CLAIMANT_FROM=%s needs API Gateway, which verifies the callers; there is none here", text),
			"Use ONCEBOX_CLAIMANT_FROM=body here, or --link-keys FILE for personal links.",
		)
	}
	return nil
}

// checkAddr refuses addresses that other machines can reach, unless --allow-remote is set.
func (c localCommand) checkAddr(from claimapi.ClaimantFrom) error {
	host, port, err := net.SplitHostPort(c.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return cli.BadUsage(fmt.Errorf("--addr %q: must be HOST:PORT, with a port from 0 to 65535", c.Addr), "")
	}
	ip := net.ParseIP(host)
	if c.AllowRemote || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	who := "there is no authentication: every caller can claim for any claimant"
	if from.String() == links.FromLink {
		who = "everybody with a personal link can claim; the connection is not encrypted"
	}
	return cli.BadUsage(
		fmt.Errorf("--addr %q: other machines can reach this address, and %s", c.Addr, who),
		"Say --allow-remote to let them claim.",
	)
}

// checkHosts refuses texts of --allow-host that no request has as its host.
func (c localCommand) checkHosts() error {
	for _, host := range c.AllowHost {
		if u, err := url.Parse("http://" + host); err != nil || u.Host != host || u.Hostname() != host {
			return cli.BadUsage(
				fmt.Errorf("--allow-host %q: must be a host name without a scheme, a port and a path, as in claims.example", host), "",
			)
		}
	}
	return nil
}

// listenError returns the reason why the address cannot be used.
func listenError(addr string, err error) error {
	var system *os.SyscallError
	if errors.As(err, &system) {
		err = system.Err
	}
	return cli.BadUsage(fmt.Errorf("--addr %s: %w", addr, err), fmt.Sprintf("Choose another port, for example --addr %s.", otherPort(addr)))
}

// otherPort returns an address with another port, which needs no permission.
func otherPort(addr string) string {
	const first, last = 8080, 1<<16 - 1
	host, port, _ := net.SplitHostPort(addr)    // was checked
	other, _ := strconv.ParseUint(port, 10, 16) // likewise
	if other++; other < first || other > last {
		other = first
	}
	return net.JoinHostPort(host, strconv.FormatUint(other, 10))
}

// remarkExample prints an example for a campaign of the store. If the campaigns cannot be read, it says so: the server
// works as soon as they can.
func remarkExample(ctx context.Context, a *cli.App, bank *itembank.Operator, base string, o claimapi.Options) {
	campaigns, err := bank.Campaigns(ctx)
	if err != nil && len(campaigns) == 0 {
		a.Remark("no example, because the campaigns could not be read: %v", err)
		return
	}
	campaign, state := exampleCampaign(ctx, bank, campaigns)
	a.Remark("%s", exampleClaim(base, campaign, state, o.ClaimantFrom))
	if o.Page && campaign != "" {
		a.Remark("claim page: %s", pageAddress(base, campaign, o.ClaimantFrom))
	}
}

// exampleCampaign returns a campaign that is open and has free items. If there is none, it returns the first campaign
// with its state, or "".
func exampleCampaign(ctx context.Context, bank *itembank.Operator, campaigns []itembank.Campaign) (name string, state itembank.State) {
	for i, c := range campaigns {
		now := c.StateAt(time.Now())
		if now == itembank.Open {
			if _, read, err := bank.State(ctx, c.Name); err == nil {
				now = read
			}
		}
		if now == itembank.Open {
			return c.Name, now
		}
		if i == 0 {
			name, state = c.Name, now
		}
	}
	return name, state
}

// exampleClaim returns a curl command that claims an item of a campaign of the store.
func exampleClaim(base, campaign string, state itembank.State, from claimapi.ClaimantFrom) string {
	switch {
	case campaign == "":
		return "the store has no campaigns yet; make one: oncebox campaign create spring"
	case state == itembank.Open:
		return "try: " + curlClaim(base, campaign, from)
	case state == itembank.Empty:
		return fmt.Sprintf("no campaign has free items now; %s is empty: oncebox load %s FILE", campaign, campaign)
	}
	return fmt.Sprintf("no campaign has free items now; %s is %s: oncebox campaign show %s", campaign, state, campaign)
}

// pageAddress returns the address of a campaign's claim page.
func pageAddress(base, campaign string, from claimapi.ClaimantFrom) string {
	address := base + "/c/" + campaign
	if from.String() == links.FromLink {
		return address + "#t=TOKEN  # as a link has it"
	}
	return address
}

func curlClaim(base, campaign string, from claimapi.ClaimantFrom) string {
	request := fmt.Sprintf("curl -X POST %s/campaigns/%s/claims", base, campaign)
	if from.String() == links.FromLink {
		return request + ` -H 'Authorization: Bearer TOKEN'  # what a link has behind #t=`
	}
	return request + ` -H 'Content-Type: application/json' -d '{"claimant":"customer-17"}'`
}

// sweepOnce runs a sweep to its end, even if the context ends during it. Its error goes to the log, and the next
// sweep tries again.
func sweepOnce(ctx context.Context, sweeps *sweephandler.Handler) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	_, _ = sweeps.Handle(ctx)
}

// These are the time-outs of the local server. They are much longer than a claim takes.
const (
	readTimeout     = 10 * time.Second
	writeTimeout    = 35 * time.Second
	shutdownTimeout = 5 * time.Second
)

// serve answers requests until the context ends. Then it lets running requests finish.
func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	httpServer := &http.Server{Handler: h, ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
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

// handlerOptions reads the settings of the handler, other than the tables, from the variables of the Lambda function.
func handlerOptions(environ []string) (claimapi.Options, error) {
	o, err := claimapi.ParseOptions(environ)
	if err != nil {
		err = cli.BadUsage(err, "")
	}
	return o, err
}

// withHandler runs a command with the Lambda handler over the store.
func withHandler(
	ctx context.Context, a *cli.App, o claimapi.Options, run func(*itembank.Operator, *claimapi.Handler) error,
) error {
	store, closeStore, err := a.Open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	bank := cli.NewBank(store, itembank.WithCampaignCache(o.CampaignCache))
	options := o.HandlerOptions(awssecret.Texts(awsclient.FromEnvironment))
	return run(bank, claimapi.New(bank.Bank, o.ClaimantFrom, slog.Default(), options...))
}

// server is the claim API, and a page for the person at this machine: / describes the server.
type server struct {
	api            http.Handler
	store, version string
	from           claimapi.ClaimantFrom
}

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		s.describe(w, r)
		return
	}
	s.api.ServeHTTP(w, r)
}

// rootJSON describes the server.
type rootJSON struct {
	Service string `json:"service"`
	Version string `json:"version"`
	Store   string `json:"store"`
	Example string `json:"example"`
}

func (s server) describe(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	cli.PrintJSON(w, rootJSON{"oncebox claim API", s.version, s.store, curlClaim("http://"+r.Host, "CAMPAIGN", s.from)})
}
