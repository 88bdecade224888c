package format

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"
)

// The reasons why a record of any bytes is bad.
const (
	reasonNoKey      = "the id is the partition key, and the record has none"
	reasonKeyUnicode = "the partition key is not Unicode"
	reasonContentID  = "the id is the hash of the content, so the record cannot have another id"
)

// rawVersion names the fingerprint of a Raw: the SHA-256 of the payload.
const rawVersion = "r1"

// Raw reads records of any bytes. The fingerprint is the SHA-256 of the payload, and no payload is ever changed. It is
// safe for concurrent use.
//
// By default the id of a record is its fingerprint: two records are the same if their payloads are. No record is then a
// synthetic duplicate. With PartitionKey the id is the partition key: two records are the same if they have the same
// partition key and the same payload. A synthetic duplicate gets its new id as its partition key.
type Raw struct {
	PartitionKey bool // the id is the partition key
}

// Read is ReadKeyed for a record without a partition key.
func (f Raw) Read(ctx context.Context, payload []byte) (Fields, error) {
	return f.ReadKeyed(ctx, "", payload)
}

// ReadKeyed returns the values that identify a record. With PartitionKey, the error is a *BadRecord for a key that is
// empty or not Unicode.
func (f Raw) ReadKeyed(_ context.Context, key string, payload []byte) (Fields, error) {
	switch {
	case f.PartitionKey && key == "":
		return Fields{}, bad(reasonNoKey)
	case f.PartitionKey && !utf8.ValidString(key):
		return Fields{}, bad(reasonKeyUnicode)
	}
	sum := sha256.Sum256(payload)
	fields := Fields{Fingerprint: hex.EncodeToString(sum[:]), Version: rawVersion}
	fields.ID = fields.Fingerprint
	if f.PartitionKey {
		fields.ID = key
	}
	return fields, nil
}

// Rename returns a *BadRecord: a payload has no id that could be changed.
func (Raw) Rename(context.Context, []byte, string, string) ([]byte, error) {
	return nil, bad(reasonContentID)
}

// RenameKeyed returns the new id as the new partition key, and the unchanged payload. Without PartitionKey it returns a
// *BadRecord.
func (f Raw) RenameKeyed(
	_ context.Context, _ string, payload []byte, _, newID string,
) (newKey string, renamed []byte, err error) {
	if !f.PartitionKey {
		return "", nil, bad(reasonContentID)
	}
	return newID, payload, nil
}
