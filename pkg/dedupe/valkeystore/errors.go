package valkeystore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

var (
	errForGood = errors.New("valkey: a scope that is kept for ever needs another ledger: set a window")

	errNoWindow = errors.New("valkey: the window must be above 0")

	errAhead = errors.New("valkey: the record arrived more than an hour ahead of this machine's clock: " +
		"check the clocks of this machine and of the producer")

	errReply = errors.New("valkey: the server's reply does not fit what it was asked")
)

// passing are the codes of errors that may pass: a server is starting, is busy, has no memory, or is failing over.
var passing = map[string]string{
	"LOADING":     "",
	"BUSY":        "",
	"TRYAGAIN":    "",
	"CLUSTERDOWN": "",
	"MOVED":       "",
	"ASK":         "",
	"MASTERDOWN":  "",
	"READONLY":    "",
	"NOREPLICAS":  "",
	"MISCONF":     "",
	"NOSCRIPT":    "",
	"OOM":         "the server has no memory left: give it more, or use a shorter window or horizon: ",
}

// failed translates all errors of the client library. An error that is not a reply of the server is a network error.
func failed(doing, address string, err error) error {
	if err == nil {
		return nil
	}
	advice, passes := "", true
	if reply, ok := replyOf(err); ok {
		advice, passes = passing[codeOf(reply)]
	}
	if passes {
		return fmt.Errorf("valkey: %s on %s: %w: %s%w", doing, address, dedupe.ErrTryAgain, advice, err)
	}
	return fmt.Errorf("valkey: %s on %s: %w", doing, address, err)
}

// replyOf returns the error if a server has sent it.
func replyOf(err error) (*valkey.ValkeyError, bool) {
	reply, ok := errors.AsType[*valkey.ValkeyError](err)
	return reply, ok && !reply.IsNil()
}

// codeOf returns the first word of an error reply. The protocol has no other error code.
func codeOf(reply *valkey.ValkeyError) string {
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code
}

// serverChanged reports whether an error says that the server was restarted or is no longer the primary. The checks
// that were made on the connection are then void. If a connection breaks, the client library replaces it by itself.
func serverChanged(err error) bool {
	reply, ok := replyOf(err)
	if !ok {
		return false
	}
	switch codeOf(reply) {
	case "NOSCRIPT", "READONLY", "MASTERDOWN":
		return true
	}
	return false
}
