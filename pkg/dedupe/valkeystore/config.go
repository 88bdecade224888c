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

// DefaultBuckets suits 6.5 million keys in a slice, for example 38 records a second with a window of 48 hours.
const DefaultBuckets = 1 << 16

// MaxServers is the largest number of servers in a list. For more servers use a cluster of Valkey, which has one
// address.
const MaxServers = 64

// DefaultTimeout is the time-out of one call to a server. It is far below the time-out of a function.
const DefaultTimeout = 5 * time.Second

// Servers says where the rows are. Both fields are fixed for a scope. Only Options.Previous can change them.
type Servers struct {
	// Addresses are HOST:PORT of each server. The server of a key depends on the number and the order of the
	// addresses. So an address may be replaced only by another address of the same server or of its replica. For a
	// cluster, use the address of its configuration endpoint.
	Addresses []string
	// Buckets is the number of hashes for the keys of a slice. 0 means DefaultBuckets. Hashes of about 100 keys take
	// the least memory: see the package documentation.
	Buckets int
}

// Options are the settings of a Ledger.
type Options struct {
	Servers
	// Previous and Since change the servers or the buckets. A record that arrived before Since is on the previous
	// servers. A record that arrived more than a window later is on the new ones. In between both are used. Set both
	// fields in all functions before Since, and keep them until Since + window + horizon.
	Previous *Servers
	Since    time.Time

	TLS *tls.Config // nil: no TLS
	// Credentials returns the user and the password. It is called for each connection, so that the password can be
	// changed. nil: no credentials.
	Credentials func(ctx context.Context) (Credentials, error)
	Timeout     time.Duration    // of one call; 0 means DefaultTimeout
	Now         func() time.Time // nil: real time
}

// Credentials name a user. The empty User is the server's default user.
type Credentials struct {
	User     string `json:"username"`
	Password string `json:"password"`
}

// ParseCredentials reads the content of a file or a secret: only the password, or a JSON object with username and
// password.
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

// FromFile returns a function for Options.Credentials that reads a file.
func FromFile(path string) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return Credentials{}, fmt.Errorf("valkey: read the password: %w", err)
		}
		return ParseCredentials(text)
	}
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
		if strings.Contains(address, "@") { // do not repeat the text, which may contain a password
			return errors.New("valkey: an address has a user or a password: name a file or a secret that holds them")
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" || strings.Contains(address, "/") {
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
