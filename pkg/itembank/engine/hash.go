package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// HashSize is the size of a Hash in bytes.
const HashSize = 16

// Hash identifies an item: the first 128 bits of its SHA-256. Its first bytes decide the item's order in a shard, its
// last 8 bytes decide the shard.
type Hash [HashSize]byte

// HashItem returns the hash of an item's bytes.
func HashItem(item string) Hash {
	sum := sha256.Sum256([]byte(item))
	return Hash(sum[:HashSize])
}

// String returns the hash as 32 lower-case hexadecimal digits. The texts have
// the same order as the hashes.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash is the inverse of Hash.String.
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

// ShardOf returns the shard of the hash among n shards.
func (h Hash) ShardOf(n int) int {
	return int(binary.BigEndian.Uint64(h[HashSize-8:]) % uint64(n))
}
