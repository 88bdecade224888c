package valkeystore

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// DefaultBuckets suits 6.5 million keys a slice, such as 38 records a second with a window of 48 hours.
const DefaultBuckets = 1 << 16

// MaxServers is how many servers a list has at most. More servers are a cluster of Valkey, which is one address.
const MaxServers = 64

// DefaultTimeout is how long one call to a server may take. It is far below the time-out of a function.
const DefaultTimeout = 5 * time.Second

// Servers says where the rows are. Both are fixed with a scope. Options.Previous changes them.
type Servers struct {
	// Addresses are HOST:PORT of each server. A key's server follows from the number of addresses and their order, so an
	// address may be replaced by another one of the same server, or of its replica. The address of a cluster's
	// configuration endpoint stands for the whole cluster.
	Addresses []string
	// Buckets is the number of hashes that the keys of a slice are divided into. 0 means DefaultBuckets. A hash of about
	// 100 keys takes the least memory: see the package documentation.
	Buckets int
}

// Options are the settings of a Ledger.
type Options struct {
	Servers
	// Previous and Since change the servers or the buckets: a record that arrived before Since is on the previous servers,
	// and one that arrived more than a window later is on the new ones. In between both are used. Set both in all
	// functions before Since, and leave them until Since + window + horizon.
	Previous *Servers
	Since    time.Time

	TLS *tls.Config // nil: no TLS
	// Credentials returns the user and the password. It is called for each connection, so that a password can be changed.
	// nil: none.
	Credentials func(ctx context.Context) (Credentials, error)
	Timeout     time.Duration    // of one call; 0 means DefaultTimeout
	Now         func() time.Time // nil: the real time
}

// Credentials name a user. The empty User is the server's default user.
type Credentials struct {
	User     string `json:"username"`
	Password string `json:"password"`
}

// ParseCredentials reads what a file or a secret holds: the password alone, or a JSON object with username and password.
func ParseCredentials(text []byte) (Credentials, error) {
	trimmed := strings.TrimSpace(string(text))
	var c Credentials
	switch {
	case !strings.HasPrefix(trimmed, "{"):
		c.Password = trimmed
	case json.Unmarshal([]byte(trimmed), &c) != nil:
		return Credentials{}, errors.New("valkey: the credentials begin with { and are no JSON object with texts: " +
			`use {"username": "...", "password": "..."}, or the password alone`)
	}
	if c.Password == "" {
		return Credentials{}, errors.New("valkey: the credentials have no password")
	}
	return c, nil
}

// FromFile returns Options.Credentials that reads a file.
func FromFile(path string) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return Credentials{}, fmt.Errorf("valkey: read the password: %w", err)
		}
		return ParseCredentials(text)
	}
}

// ParseServers reads valkey://HOST:PORT[,HOST:PORT...], or valkeys:// for TLS.
func ParseServers(text string) (addresses []string, secure bool, err error) {
	rest, secure := strings.CutPrefix(text, "valkeys://")
	if !secure {
		var plain bool
		if rest, plain = strings.CutPrefix(text, "valkey://"); !plain {
			return nil, false, fmt.Errorf("valkey: %q is not valkey://HOST:PORT[,HOST:PORT...], or valkeys:// for TLS", text)
		}
	}
	if strings.Contains(rest, "@") { // it may hold a password: it is not repeated
		return nil, false, errors.New("valkey: the address has a user or a password: name a file or a secret that holds them")
	}
	addresses = strings.Split(strings.TrimSuffix(rest, "/"), ",")
	return addresses, secure, Servers{Addresses: addresses}.check()
}

func (s Servers) check() error {
	if len(s.Addresses) == 0 || len(s.Addresses) > MaxServers {
		return fmt.Errorf("valkey: %d servers: use 1 to %d", len(s.Addresses), MaxServers)
	}
	if s.Buckets < 0 {
		return fmt.Errorf("valkey: %d buckets: use 1 or more", s.Buckets)
	}
	seen := map[string]bool{}
	for _, address := range s.Addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" {
			return fmt.Errorf("valkey: %q is not HOST:PORT", address)
		}
		if seen[address] {
			return fmt.Errorf("valkey: %s is named twice", address)
		}
		seen[address] = true
	}
	return nil
}

func (o *Options) check() error {
	if err := o.Servers.check(); err != nil {
		return err
	}
	if (o.Previous == nil) != o.Since.IsZero() {
		return errors.New("valkey: the previous servers and the time of the change belong together: set both, or none")
	}
	if o.Previous == nil {
		return nil
	}
	if o.Since.UnixMilli() <= 0 {
		return fmt.Errorf("valkey: the time of the change, %v, is before 1970", o.Since)
	}
	return o.Previous.check()
}
