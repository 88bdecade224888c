package itembank

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sizes in bytes of UTF-8. Items and claimants hold no control characters.
const (
	MaxItem     = 512
	MaxClaimant = 256
	MaxName     = 63 // of a campaign or a scope
)

// HashSize is the size of a Hash in bytes.
const HashSize = 16

// Hash identifies an item: the first 128 bits of its SHA-256. Its first bytes
// give the item's order in a shard, its last 8 bytes the shard.
type Hash [HashSize]byte

// HashItem returns the hash of an item's bytes.
func HashItem(item string) Hash {
	sum := sha256.Sum256([]byte(item))
	return Hash(sum[:HashSize])
}

// String returns the hash as 32 lower-case hexadecimal digits. Texts order as
// their hashes do.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String wrote.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*HashSize {
		return h, fmt.Errorf("item hash: want %d hexadecimal digits, got %d characters", 2*HashSize, len(s))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return h, fmt.Errorf("item hash: %w", err)
	}
	return h, nil
}

// ShardOf returns which of n shards the hash falls into.
func (h Hash) ShardOf(n int) int {
	return int(binary.BigEndian.Uint64(h[HashSize-8:]) % uint64(n))
}

// Shard names one part of a campaign's bank.
type Shard struct {
	Campaign   string
	Generation int
	Number     int // 0 to Campaign.Shards-1
}

// FreeItem is an item in the bank: nobody holds it.
type FreeItem struct {
	Shard  Shard
	Hash   Hash
	Value  string
	EndsAt time.Time // zero: never
}

// ItemRow says that an item was ever loaded. It outlives the item's stay in
// the bank, so that a claimed item is never loaded again.
type ItemRow struct {
	LoadID     string
	Row        int64 // position among the load's items, from 1
	Generation int
	EndsAt     time.Time // zero: never
	State      ItemState
	Returns    int // how often the item came back to the bank from a claim
}

// ItemState is how an item ended; empty while it is in the bank or held.
type ItemState string

// The ends of an item. Each is for good: the item is neither handed out nor
// loaded again.
const (
	Burned    ItemState = "burned"    // its claim was released, and somebody had seen it
	Expired   ItemState = "expired"   // its life or its claim's ended
	Withdrawn ItemState = "withdrawn" // it was taken out of the bank by hand
)

// Claim is the fact that a claimant holds an item.
type Claim struct {
	ID        string // random; never used again
	Campaign  string
	Scope     string
	Claimant  string
	Item      string
	ItemHash  Hash
	ClaimedAt time.Time // UTC, whole milliseconds
	EndsAt    time.Time // zero: never
}

// endGrace is how much later than its end a claim may be closed. Clocks of two
// machines differ by less, so the holder's request, which found the claim alive, is
// over by then.
const endGrace = 10 * time.Second

// closable reports that the claim ended so long ago that whoever meets it closes it.
func (c Claim) closable(now time.Time) bool {
	return !c.EndsAt.IsZero() && c.EndsAt.Before(now.Add(-endGrace))
}

// ended reports that the item may not be handed out any more.
func (i FreeItem) ended(now time.Time) bool { return !i.EndsAt.IsZero() && !i.EndsAt.After(now) }

// ValidateClaimant checks a claimant: 1 to 256 bytes of UTF-8 without control
// characters. Claimants compare byte for byte.
func ValidateClaimant(claimant string) error { return validateText("claimant", claimant, MaxClaimant) }

// ValidateItem checks an item: 1 to 512 bytes of UTF-8 without control characters.
func ValidateItem(item string) error { return validateText("item", item, MaxItem) }

func validateText(field, s string, limit int) error {
	switch {
	case s == "":
		return &InvalidError{field, "is empty"}
	case len(s) > limit:
		return &InvalidError{field, fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), limit)}
	case !utf8.ValidString(s):
		return &InvalidError{field, "is not valid UTF-8"}
	}
	for i, r := range s {
		if unicode.IsControl(r) {
			return &InvalidError{field, fmt.Sprintf("has a control character (%U) at byte %d", r, i+1)}
		}
	}
	return nil
}

// ValidateName checks the name of a campaign or scope: [a-z0-9][a-z0-9-]{0,62}.
func ValidateName(field, name string) error {
	if name == "" || len(name) > MaxName || name[0] == '-' {
		return badName(field)
	}
	for i := range len(name) {
		c := name[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return badName(field)
		}
	}
	return nil
}

func badName(field string) error {
	return &InvalidError{field, "must be 1 to 63 characters, a-z, 0-9 or -, and not begin with -"}
}
