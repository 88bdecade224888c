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

// passing are the codes of errors that pass by themselves: a server starts, is busy, has no memory, or fails over.
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

// failed is the only translator of errors of the client library. An error that is not a reply of the server is about
// the way to it.
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

// replyOf returns an error that a server has sent.
func replyOf(err error) (*valkey.ValkeyError, bool) {
	reply, ok := errors.AsType[*valkey.ValkeyError](err)
	return reply, ok && !reply.IsNil()
}

// codeOf is the first word of an error. The protocol has no other code.
func codeOf(reply *valkey.ValkeyError) string {
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code
}

// elsewhere reports whether an error says that the server was restarted or is no longer the primary. Then what was
// checked on the connection says nothing about the server that is to be asked. The client library itself replaces a
// connection that breaks.
func elsewhere(err error) bool {
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
