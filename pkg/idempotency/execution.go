package idempotency

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Execution is what a function knows about its execution.
type Execution struct {
	// Number grows with each execution of the key. It begins with the store's time in milliseconds since 1970. What the
	// function calls can keep the largest number that it has seen, and refuse a smaller one: that stops a process that
	// was frozen and woke after its lease.
	Number  int64
	key     engine.Key
	effects *Effects // that Commit sets
}

// KeyFor returns an idempotency key for something that the function calls, as 64 hexadecimal digits. It is the same in
// every execution of the key. Give each call of the function a name of its own, such as "charge" or "mail".
//
// An Execution that no Runner has made has no key, and KeyFor returns "": two calls that nothing protects must not share
// one.
func (e Execution) KeyFor(name string) string {
	if e.key == (engine.Key{}) {
		return ""
	}
	sum := sha256.Sum256([]byte(e.key.Digest() + "#" + name))
	return hex.EncodeToString(sum[:])
}
