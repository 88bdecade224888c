package valkeystore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// server is one address: of a single server, or of a cluster of Valkey.
type server struct {
	address string
	now     *place // in the current list of servers; nil: it is only in the previous one
	before  *place // in the previous list; nil: it is not in that list
	since   int64  // when the lists change, in milliseconds; 0: there is no previous list
	clock   func() time.Time
	option  valkey.ClientOption
	source  string // of the script

	mu     sync.Mutex
	client valkey.Client // nil: not connected
	script string        // its SHA-1
	scopes map[string]scopeRow
}

// connection has the parameters of a script call.
type connection struct {
	valkey.Client
	slicing
	script string
}

// prepare returns a connection on which all checks were made and the script was loaded.
func (s *server) prepare(ctx context.Context, scope string, r dedupe.Retention) (connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		if err := s.open(ctx); err != nil {
			s.close()
			return connection{}, err
		}
	}
	row, known := s.scopes[scope]
	if !known {
		var err error
		if row, err = s.putScopeRow(ctx, scope, r); err != nil {
			if errors.Is(err, dedupe.ErrTryAgain) {
				s.close()
			}
			return connection{}, err
		}
		s.scopes[scope] = row
	}
	slices, err := slicingOf(row.Slice, r)
	return connection{s.client, slices, s.script}, err
}

// open connects, and prepares each node of a cluster. A node that is down does not stop the others: if it is needed
// later, it reports that it does not have the script.
func (s *server) open(ctx context.Context) (err error) {
	if s.client, err = valkey.NewClient(s.option); err != nil {
		s.client = nil
		return failed("connect", s.address, err)
	}
	s.script, s.scopes = "", map[string]scopeRow{}
	for _, node := range s.client.Nodes() {
		script, nodeErr := s.load(ctx, node)
		if nodeErr == nil {
			s.script = script
		} else if err = nodeErr; !errors.Is(err, dedupe.ErrTryAgain) {
			return err
		}
	}
	if s.script != "" {
		return nil
	}
	return err
}

// load checks a node and loads the script.
func (s *server) load(ctx context.Context, node valkey.Client) (script string, err error) {
	if err := s.check(ctx, node); err != nil {
		return "", err
	}
	script, err = node.Do(ctx, node.B().ScriptLoad().Script(s.source).Build()).ToString()
	return script, failed("load the script", s.address, err)
}

//go:embed enter.lua
var enterScript string

// check refuses a server that cannot keep rows. If the user may not read INFO, there is no check.
func (s *server) check(ctx context.Context, node valkey.Client) error {
	info, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if reply, ok := replyOf(err); ok && codeOf(reply) == "NOPERM" {
		return nil
	}
	if err != nil {
		return failed("read INFO", s.address, err)
	}
	if err := checkInfo(info); err != nil {
		return fmt.Errorf("valkey: %s %w", s.address, err)
	}
	return nil
}

// oldest is the first major version of Redis that has all commands. All versions of Valkey have them, and also report a
// version of Redis.
const oldest = 7

func checkInfo(text string) error {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("is Redis %s: use Valkey, or Redis %d.0 or later", version, oldest)
	}
	if policy, ok := info["maxmemory_policy"]; ok && policy != "noeviction" {
		return fmt.Errorf("has the maxmemory-policy %s: set it to noeviction, "+
			"since a copy of a record whose row was evicted is delivered again", policy)
	}
	return nil
}

// forget makes the next call connect again, if client is still the connection.
func (s *server) forget(client valkey.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == client {
		s.close()
	}
}

func (s *server) close() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}
