package dynamostore

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

type key struct {
	PK string `dynamodbav:"pk"`
	SK string `dynamodbav:"sk"`
}

func entryKey(scope string, k dedupe.Key) key {
	return key{"record#" + scope + "#" + hex.EncodeToString(k[:]), "entry"}
}

func checkpointKey(k dedupe.CheckpointKey) key {
	return key{"checkpoint#" + k.Scope + "#" + k.Stream.String(), k.Shard}
}

func runKey(scope, digest string) key { return key{"run#" + scope, digest} }

// entryRow is an entry. purge_at is the TTL attribute, in seconds. An entry that is kept for ever has no purge_at: then
// every comparison with it is false.
type entryRow struct {
	key
	Owner       string `dynamodbav:"owner"`
	Fingerprint string `dynamodbav:"fingerprint"`
	Version     string `dynamodbav:"version"`
	Arrival     int64  `dynamodbav:"arrival"` // milliseconds
	PurgeAt     int64  `dynamodbav:"purge_at,omitempty"`
}

func newEntryRow(e dedupe.Entry) entryRow {
	return entryRow{entryKey(e.Scope, e.Key), e.Owner, e.Fingerprint, e.Version, e.Arrival.UnixMilli(), e.PurgeAt}
}

func (r entryRow) entry(scope string, k dedupe.Key) *dedupe.Entry {
	return &dedupe.Entry{
		Scope: scope, Key: k, Owner: r.Owner, Fingerprint: r.Fingerprint, Version: r.Version,
		Arrival: time.UnixMilli(r.Arrival).UTC(), PurgeAt: r.PurgeAt,
	}
}

type checkpointRow struct {
	key
	Sequence string `dynamodbav:"sequence"` // padded
	Consumer string `dynamodbav:"consumer"`
}

func newCheckpointRow(k dedupe.CheckpointKey, c dedupe.Checkpoint) (checkpointRow, error) {
	sequence, err := dedupe.PadSequence(c.Sequence)
	return checkpointRow{checkpointKey(k), sequence, c.Consumer}, err
}

func (r checkpointRow) checkpoint() *dedupe.Checkpoint {
	return &dedupe.Checkpoint{Sequence: dedupe.UnpadSequence(r.Sequence), Consumer: r.Consumer}
}

type runRow struct {
	key
	ID          string       `dynamodbav:"run_id"`
	Finished    bool         `dynamodbav:"finished"`
	Input       int64        `dynamodbav:"input"`
	Lines       int64        `dynamodbav:"lines"`
	Output      int64        `dynamodbav:"output"`
	DeadLetters int64        `dynamodbav:"dead_letters"` // bytes of the file
	Tally       dedupe.Tally `dynamodbav:"tally"`
}

func newRunRow(scope string, r dedupe.Run) runRow {
	return runRow{runKey(scope, r.Digest), r.ID, r.Finished, r.Input, r.Lines, r.Output, r.DeadLetters, r.Tally}
}

func (r runRow) run(digest string) *dedupe.Run {
	return &dedupe.Run{
		Digest: digest, ID: r.ID, Finished: r.Finished, Input: r.Input, Lines: r.Lines,
		Output: r.Output, DeadLetters: r.DeadLetters, Tally: r.Tally,
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

// seconds is a time as a decimal number of seconds, exact to the millisecond.
func seconds(t time.Time) types.AttributeValue {
	sign, ms := "", t.UnixMilli()
	if ms < 0 {
		sign, ms = "-", -ms
	}
	return &types.AttributeValueMemberN{Value: fmt.Sprintf("%s%d.%03d", sign, ms/1000, ms%1000)}
}
