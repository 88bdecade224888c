// Package engine is the contract between idempotency and the databases behind it.
//
// It is for authors of engines. Callers use package idempotency. The contract is not stable: it changes with the needs
// of a Runner, also in minor versions.
//
// An engine implements [Store]. It keeps one row for each key ([Record]). A row is one item, and each write is a
// conditional write of one item. The engine decides nothing: the Runner gives it the condition and reads the old row.
// An engine with transactions can implement [Transactor], too.
//
// # Results and errors
//
// A condition that fails is a result ([Answer]), never an error. A busy, throttled or unreachable engine returns an
// error of the family [ErrTryAgain]. The call may then have taken effect, and may take effect later.
package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// ErrTryAgain says that the engine was busy, throttled or out of reach. The write may have taken effect. Package
// idempotency exports the same value under the same name.
var ErrTryAgain = errors.New("idempotency: try again")

// Key names a record.
type Key struct {
	Namespace string // of the caller: a function, a tenant
	Name      string // the key that the caller chose
}

// Digest returns the SHA-256 of the key as 64 hexadecimal digits. Two keys never share their digest, because the length
// of the namespace is part of it.
func (k Key) Digest() string {
	text := binary.BigEndian.AppendUint64(nil, uint64(len(k.Namespace)))
	sum := sha256.Sum256(append(append(text, k.Namespace...), k.Name...))
	return hex.EncodeToString(sum[:])
}

// Status says whether a record has its result.
type Status string

// The two states of a record.
const (
	InProgress Status = "in-progress"
	Completed  Status = "completed"
)

// Record is the row of a key. An engine stores it; the Runner interprets it. Times are UTC in whole milliseconds.
type Record struct {
	Status   Status
	Token    string    // of the execution; random
	Number   int64     // of the execution; each execution of the key has a larger one
	LeaseEnd time.Time // the execution holds the key until then; the Unix epoch: it gave the key back
	// Expiry is when a completed record ceases to count. Of a record in progress it is the end of the lease and the
	// window.
	Expiry  time.Time
	PurgeAt time.Time // whole seconds; the engine may delete the row from then on
	Payload string    // the hash of the payload
	Result  Result    // of a completed record
	// CompletedBy is the token of the execution that completed the record. In formats that others write, too, a row can
	// keep the token of our execution although another program has completed it. Then CompletedBy is empty.
	CompletedBy string
}

// Version is what Replace compares. A token alone is not enough: it stays the same when the execution prolongs its
// lease, completes, or puts a new row over its own. Such a row can have the same LeaseEnd, and has another Number.
type Version struct {
	Status   Status
	Token    string
	Number   int64
	LeaseEnd time.Time
	Expiry   time.Time
}

// Version returns the version of the row.
func (r Record) Version() Version { return Version{r.Status, r.Token, r.Number, r.LeaseEnd, r.Expiry} }

// Result is what a completed record keeps.
type Result struct {
	Kind        Kind
	ContentType string
	Body        []byte // of a Failure or Missing: its text, for people
}

// Kind says what a result is.
type Kind string

// The kinds of results.
const (
	Value   Kind = "value"   // what the function returned
	Failure Kind = "failure" // an error of the function that is final
	Missing Kind = "missing" // the function has run, but its result could not be stored
)

// Ends is what Prolong changes.
type Ends struct{ LeaseEnd, Expiry, PurgeAt time.Time }

// Completion is what Complete changes.
type Completion struct {
	Result          Result
	Expiry, PurgeAt time.Time
}

// Answer is the reply of an engine.
type Answer struct {
	Done bool // the condition held, and the row was written; of a Read it says nothing
	// Row is the row that was read, or the row that a write found instead. It is nil if there is no row, and after a
	// write that was done.
	Row *Record
	// Date is the engine's time when it replied. It has the precision of the Date of HTTP: a second, rounded or cut off.
	// An engine without a clock of its own takes the clock of the machine. It is never zero.
	Date time.Time
}

// Consistency says what a read shows.
type Consistency bool

const (
	// Eventual reads may be the engine's cheapest. They may miss the writes of the last seconds.
	Eventual Consistency = false
	// Strong reads show every write that has ended.
	Strong Consistency = true
)

// Store is an engine. These rules hold for all methods:
//
//   - A write is one conditional write. It takes effect once, completely, or not at all.
//   - A busy, throttled or unreachable engine returns an error of the family ErrTryAgain. The write may have taken
//     effect, and may take effect up to 15 minutes later.
//   - An engine may send a write again by itself. So a write may take effect, and its answer may be refused by its own
//     first effect.
//   - Every method is safe for concurrent use, has a time-out of its own, and ends soon after ctx.
//   - A row that another program wrote keeps the attributes that the engine does not know.
type Store interface {
	// Put puts the record if the key has no row.
	Put(ctx context.Context, key Key, record Record) (Answer, error)
	// Replace puts the record if the key has no row, or a row whose version is old.
	Replace(ctx context.Context, key Key, old Version, record Record) (Answer, error)
	// Prolong changes the ends of a row in progress with this token, if its LeaseEnd is earlier than the new one.
	Prolong(ctx context.Context, key Key, token string, ends Ends) (Answer, error)
	// Complete completes a row in progress with this token, and sets its CompletedBy to the token. It never makes a row.
	Complete(ctx context.Context, key Key, token string, completion Completion) (Answer, error)
	// Release sets the LeaseEnd of a row in progress with this token to the Unix epoch, and its token to next. The row
	// stays, because it holds the number. It never makes a row.
	Release(ctx context.Context, key Key, token, next string) (Answer, error)
	// Read reads the row of the key.
	Read(ctx context.Context, key Key, c Consistency) (Answer, error)

	// MaxResult returns the largest Result in bytes: its content type and its body together.
	MaxResult() int
}

// Foreign is a Store whose rows programs of others write and read, too. Such a row has one end: the database may delete
// it from its Expiry on. The Store keeps Expiry in whole seconds, rounded up, and returns it as PurgeAt, too.
type Foreign interface {
	Store
	// LeastWindow returns the shortest window: the longest time in which a late request can take effect.
	LeastWindow() time.Duration
	// PayloadHash returns the hash of a payload as the others calculate it, or "" if rows have none. An error says what
	// is wrong with the payload, and has no part of it.
	PayloadHash(payload []byte) (string, error)
}
