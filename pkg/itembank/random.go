package itembank

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// newClaimID returns a random UUID (version 4).
func (b *Bank) newClaimID() (string, error) {
	id, err := uuid.NewRandomFromReader(b.random)
	if err != nil {
		return "", fmt.Errorf("random source: %w", err)
	}
	return id.String(), nil
}

// randomHash returns a random place in a shard.
func (b *Bank) randomHash() (h engine.Hash, err error) { return h, b.readRandom(h[:]) }

// shuffle puts items into a random order.
func (b *Bank) shuffle(items []engine.FreeItem) error {
	r, err := b.generator()
	if err != nil {
		return err
	}
	r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return nil
}

// generator returns a new random generator for one goroutine, which needs no lock.
func (b *Bank) generator() (*rand.Rand, error) {
	var seed [32]byte
	if err := b.readRandom(seed[:]); err != nil {
		return nil, err
	}
	return rand.New(rand.NewChaCha8(seed)), nil //nolint:gosec // ChaCha8 with a seed of crypto/rand
}

// randomDuration returns a random duration below limit.
func (b *Bank) randomDuration(limit time.Duration) (time.Duration, error) {
	var raw [8]byte
	if err := b.readRandom(raw[:]); err != nil {
		return 0, err
	}
	return time.Duration(binary.BigEndian.Uint64(raw[:]) % uint64(limit)), nil
}

func (b *Bank) readRandom(p []byte) error {
	if _, err := io.ReadFull(b.random, p); err != nil {
		return fmt.Errorf("random source: %w", err)
	}
	return nil
}
