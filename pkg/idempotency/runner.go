package idempotency

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/internal/shared/repeats"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Settings are the choices of a Runner. The zero value of each has its default.
type Settings struct {
	// Window is how long a completed record counts, from its completion: 1 second to 10 years, by default 24 hours.
	// After it the function runs again for the key.
	Window time.Duration
	// Lease is how long an execution holds the key without a heartbeat: 5 seconds to 24 hours, by default 30 seconds. A
	// heartbeat prolongs the lease every third of it. After a crash the key is blocked for up to this time.
	Lease time.Duration
	// LeaseUntilDeadline makes the lease last until the deadline of the call's context, and sends no heartbeat. Use it
	// where a process cannot run longer than that, as in AWS Lambda. A call is refused if its context has no deadline,
	// or if the deadline is in more than 24 hours.
	LeaseUntilDeadline bool
	// DoNotWait makes a call return an *InProgressError at once while another call holds the key. By default it waits
	// until that call ends or its own context ends.
	DoNotWait bool
	// CacheBytes is how many bytes of memory copies of completed records may take, about: those that calls of this
	// Runner used last. A replay of a copy costs no request. 0, the default, keeps none, because a copy hides an
	// eviction ([Runner.Evict]) from this Runner until the window of the record is over, and because the memory of a
	// Lambda function is small. Use it where clients repeat the same keys often, and where no operator evicts keys, or
	// can restart the process after that. A copy has the bytes of its key and of its result, and 512 more.
	CacheBytes int
}

const (
	defaultWindow = 24 * time.Hour
	leastWindow   = time.Second
	maxWindow     = 10 * 365 * 24 * time.Hour
	defaultLease  = 30 * time.Second
	leastLease    = 5 * time.Second
	maxLease      = 24 * time.Hour
	maxName       = 1024 // bytes of a key or a namespace
)

func (s Settings) withDefaults() (Settings, error) {
	if s.Window == 0 {
		s.Window = defaultWindow
	}
	if s.Lease == 0 {
		s.Lease = defaultLease
	}
	switch {
	case s.Window < leastWindow:
		return s, &InvalidError{"Window", fmt.Sprintf("%s is too short: use %s or longer", s.Window, leastWindow)}
	case s.Window > maxWindow:
		return s, &InvalidError{"Window", fmt.Sprintf("%s is too long: use %s or shorter; the store keeps each record for "+
			"as long", s.Window, maxWindow)}
	case s.Lease < leastLease:
		return s, &InvalidError{"Lease", fmt.Sprintf("%s is too short: use %s or longer", s.Lease, leastLease)}
	case s.Lease > maxLease:
		return s, &InvalidError{"Lease", fmt.Sprintf("%s is too long: use %s or shorter; a crash blocks the key for as "+
			"long, and heartbeats prolong a shorter lease", s.Lease, maxLease)}
	case s.CacheBytes < 0:
		return s, &InvalidError{"CacheBytes", fmt.Sprintf("%d is negative: use 0 for no cache", s.CacheBytes)}
	}
	return s, nil
}

// Runner runs functions once for each key of a namespace. It is safe for concurrent use. Make one for each namespace in
// a process: calls with one key in one Runner wait for each other without requests.
type Runner struct {
	store     engine.Store
	namespace string
	settings  Settings
	machine   Machine
	server    *serverclock.Clock // of the last reply of the store
	random    io.Reader
	turns     turns
	copies    cache
	replays   repeats.Share
	observer  func(context.Context, Report)
}

// Moment is a moment by the two clocks of a machine.
type Moment = serverclock.Moment

// Machine measures and waits. A Runner never asks it what time it is: times of records come from the store.
type Machine interface {
	Moment() Moment
	// Sleep waits, or returns ctx.Err() if ctx ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Option changes a default of a Runner.
type Option func(*Runner)

// WithMachine sets the clocks. By default a Runner uses the clocks of this machine.
func WithMachine(m Machine) Option { return func(r *Runner) { r.machine = m } }

// WithRandom sets the source of tokens and of the spread of waits. The default is crypto/rand.
func WithRandom(random io.Reader) Option { return func(r *Runner) { r.random = random } }

// New returns a Runner. The namespace separates keys that could be the same by accident, such as keys of two functions
// or of two tenants. CheckNamespace says what it must be. An error belongs to ErrInvalid.
func New(store engine.Store, namespace string, settings Settings, options ...Option) (*Runner, error) {
	settings, err := settings.withDefaults()
	if err != nil {
		return nil, err
	}
	if foreign, ok := store.(engine.Foreign); ok {
		err = checkForeign(foreign, namespace, settings)
	} else {
		err = CheckNamespace(namespace)
	}
	if err != nil {
		return nil, err
	}
	r := &Runner{store: store, namespace: namespace, settings: settings, machine: newMachine(), random: rand.Reader}
	r.copies.limit = settings.CacheBytes
	for _, change := range options {
		change(r)
	}
	r.server = serverclock.On(r.machine.Moment)
	return r, nil
}

// CheckNamespace returns an error of ErrInvalid unless a namespace has 1 to 1,024 bytes and none of the characters # * ?
// and $. With them, a policy that allows a function the rows of one namespace would allow it rows of others. That is
// infra.GrantNamespace, or a condition of your own on dynamodb:LeadingKeys.
func CheckNamespace(namespace string) error {
	if strings.ContainsAny(namespace, "#*?$") {
		return &InvalidError{"namespace", fmt.Sprintf("%q has one of the characters # * ? and $: use a name without them, "+
			"so that a policy can allow its rows and no others", namespace)}
	}
	return checkName("namespace", namespace)
}

// checkForeign checks what rows that others write need. Their namespace is a prefix that the others have chosen.
func checkForeign(store engine.Foreign, namespace string, settings Settings) error {
	switch least := store.LeastWindow(); {
	case settings.Window < least:
		return &InvalidError{"Window", fmt.Sprintf("%s is too short for rows that others read, too: use %s or longer",
			settings.Window, least)}
	case settings.CacheBytes > 0:
		return &InvalidError{"CacheBytes", "other programs can change a completed record of this store: use no cache"}
	}
	return checkName("namespace", namespace)
}

// Foreign reports whether other programs write the rows of the store, too (engine.Foreign).
func (r *Runner) Foreign() bool {
	_, ok := r.store.(engine.Foreign)
	return ok
}

// Settings returns the settings of the Runner, with the defaults.
func (r *Runner) Settings() Settings { return r.settings }

func checkName(field, name string) error {
	if name == "" || len(name) > maxName {
		return &InvalidError{field, fmt.Sprintf("it has %d bytes: use 1 to %d", len(name), maxName)}
	}
	return nil
}

// machine is this machine.
type machine struct{ clock *serverclock.Clock }

func newMachine() machine { return machine{serverclock.New()} }

func (m machine) Moment() Moment { return m.clock.Moment() }

func (machine) Sleep(ctx context.Context, d time.Duration) error { return pause.For(ctx, d) }

// newToken returns 32 random hexadecimal digits.
func (r *Runner) newToken() (string, error) {
	var token [16]byte
	if _, err := io.ReadFull(r.random, token[:]); err != nil {
		return "", fmt.Errorf("random source: %w", err)
	}
	return hex.EncodeToString(token[:]), nil
}

// hash returns the hash of a payload.
func (r *Runner) hash(payload []byte) (string, error) {
	if store, ok := r.store.(engine.Foreign); ok {
		hash, err := store.PayloadHash(payload)
		if err != nil {
			return "", &InvalidError{"payload", err.Error()}
		}
		return hash, nil
	}
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:]), nil
}

const (
	firstWait   = 20 * time.Millisecond
	longestWait = time.Second
)

// backOff waits before a repeat: between half of a limit and the limit, which doubles with each try.
func (r *Runner) backOff(ctx context.Context, tries int) error {
	limit := min(firstWait<<min(tries, 10), longestWait)
	spread, err := rand.Int(r.random, big.NewInt(int64(limit/2)))
	if err != nil {
		return fmt.Errorf("random source: %w", err)
	}
	return r.machine.Sleep(ctx, limit/2+time.Duration(spread.Int64()))
}
