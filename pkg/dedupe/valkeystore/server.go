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

// server is one address: a server, or a cluster of Valkey that this is an entrance to.
type server struct {
	address string
	now     *place // in the list of servers; nil: it is only in the previous one
	before  *place // in the previous list; nil: it is not there
	since   int64  // when the lists change, in milliseconds; 0: there is no previous list
	clock   func() time.Time
	option  valkey.ClientOption
	source  string // of the script

	mu     sync.Mutex
	client valkey.Client // nil: not connected
	script string        // its SHA-1
	scopes map[string]scopeRow
}

// connection is what a script call needs.
type connection struct {
	valkey.Client
	slicing
	script string
}

// prepare returns a connection on which everything was checked and the script was loaded.
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
		if row, err = s.settle(ctx, scope, r); err != nil {
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

func (s *server) open(ctx context.Context) (err error) {
	if s.client, err = valkey.NewClient(s.option); err != nil {
		s.client = nil
		return failed("connect", s.address, err)
	}
	s.scopes = map[string]scopeRow{}
	for _, node := range s.client.Nodes() {
		if err := s.check(ctx, node); err != nil {
			return err
		}
		if s.script, err = node.Do(ctx, node.B().ScriptLoad().Script(s.source).Build()).ToString(); err != nil {
			return failed("load the script", s.address, err)
		}
	}
	return nil
}

//go:embed enter.lua
var enterScript string

// oldest is the first version of Redis that has all commands. All versions of Valkey have them, and report a version of
// Redis too.
const oldest = 7

// check refuses a server that would evict rows, or lacks commands. A user who may not ask has to know.
func (s *server) check(ctx context.Context, node valkey.Client) error {
	text, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if reply, ok := replyOf(err); ok && (codeOf(reply) == "NOPERM" || codeOf(reply) == "ERR") {
		return nil
	}
	if err != nil {
		return failed("read INFO", s.address, err)
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	major, _, _ := strings.Cut(info["redis_version"], ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest {
		return fmt.Errorf("valkey: %s is Redis %s: use Valkey, or Redis %d.0 or later", s.address, info["redis_version"], oldest)
	}
	if policy, ok := info["maxmemory_policy"]; ok && policy != "noeviction" {
		return fmt.Errorf("valkey: %s has the maxmemory-policy %s: set it to noeviction, "+
			"since a copy of a record whose row was evicted is delivered again", s.address, policy)
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
