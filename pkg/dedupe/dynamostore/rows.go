package dynamostore

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

type key struct {
	PK string `dynamodbav:"pk"`
	SK string `dynamodbav:"sk"`
}

// entryKey returns the key of an entry. It is short, with the Key as 22 characters, because it is sent with each put.
func entryKey(scope string, k dedupe.Key) key {
	return key{"record#" + scope + "#" + base64.RawURLEncoding.EncodeToString(k[:]), "entry"}
}

func runKey(scope, id string) key { return key{"run#" + scope, id} }

func consumerKey(scope string, stream dedupe.Stream) key {
	return key{"consumer#" + scope, stream.String()}
}

// ackPartition returns the partition key of the acks of a shard and sink.
func ackPartition(k dedupe.AckKey) string {
	return "ack#" + k.Scope + "#" + k.Stream.String() + "#" + k.Shard + "#" + k.Sink
}

// ackKey sorts acks by their last sequence number. Two acks may end at the same record, so the key also has a hash of
// their content.
func ackKey(k dedupe.AckKey, last string, owners []byte) key {
	sum := sha256.Sum256(owners)
	return key{ackPartition(k), last + "#" + hex.EncodeToString(sum[:8])}
}

// entryRow is an entry as it is read. Its attribute names are short, because they are sent with each put. purge_at is
// the TTL attribute, in seconds. An entry that is kept for ever has no purge_at: every comparison with it is then
// false.
//
// For people, an entry also has the version of its fingerprint (v) and the arrival in milliseconds (a).
type entryRow struct {
	OwnerText string `dynamodbav:"r"` // says which line of a run over files has put the entry
	Owner     []byte `dynamodbav:"o"` // digest
	Content   []byte `dynamodbav:"c"` // digest of the fingerprint
	PurgeAt   int64  `dynamodbav:"purge_at,omitempty"`
	Done      bool   `dynamodbav:"d"` // the effect is done; absent in other rows
	Token     []byte `dynamodbav:"t"` // of the run that holds the entry of a message of a queue; absent in other rows
	Ends      int64  `dynamodbav:"l"` // of its lease, in milliseconds
}

// named is an attribute of a row, with its name.
type named struct {
	name  string
	value types.AttributeValue
}

// entryAttributes makes the row of an entry without attributevalue, which takes several times as long.
func entryAttributes(e *dedupe.Entry) []named {
	owner, content := e.Owner.Digest(), dedupe.ContentDigest(e.Fingerprint)
	k := entryKey(e.Scope, e.Key)
	all := append(make([]named, 0, mostAttributes),
		named{"pk", text(k.PK)}, named{"sk", text(k.SK)}, named{"o", binary(owner[:])},
		named{"c", binary(content[:])}, named{"r", text(ownerText(e.Owner))}, named{"v", text(e.Version)},
		named{"a", number(e.Arrival.UnixMilli())})
	if e.PurgeAt != dedupe.Never {
		all = append(all, named{"purge_at", number(e.PurgeAt)})
	}
	if e.Done {
		all = append(all, named{"d", yes})
	}
	if e.Hold != (dedupe.Hold{}) {
		all = append(all, named{"t", binary(e.Hold.Token[:])}, named{"l", number(e.Hold.Ends)})
	}
	return all
}

// mostAttributes is how many attributes an entry has at most.
const mostAttributes = 11

func entryItem(e *dedupe.Entry) map[string]types.AttributeValue {
	item := make(map[string]types.AttributeValue, mostAttributes)
	for _, a := range entryAttributes(e) {
		item[a.name] = a.value
	}
	return item
}

// ownerText returns the owner for people, without the stream: with the whole text, puts took an engine up to a tenth
// longer (docs/benchmarks.md). The sequence numbers of a shard belong to one stream.
func ownerText(o dedupe.Owner) string {
	if _, shard, ok := strings.Cut(o.Source, "/shardId-"); ok {
		o.Source = cmp.Or(strings.TrimLeft(shard, "0"), "0")
	}
	return o.String()
}

// existing returns the entry, or an error for a row that this version did not write: it must not be compared.
func (r entryRow) existing() (*dedupe.Existing, error) {
	if len(r.Owner) != len(dedupe.Digest{}) || len(r.Content) != len(dedupe.Digest{}) {
		return nil, errors.New("dynamodb: the entry has no owner or no content: another version of oncebox wrote it")
	}
	e := &dedupe.Existing{
		Owner: dedupe.Digest(r.Owner), Content: dedupe.Digest(r.Content), PurgeAt: r.PurgeAt, Done: r.Done,
	}
	if len(r.Token) > 0 {
		if len(r.Token) != len(dedupe.Token{}) {
			return nil, errors.New("dynamodb: the token of the entry has the wrong length: another version of oncebox wrote it")
		}
		e.Hold = dedupe.Hold{Token: dedupe.Token(r.Token), Ends: r.Ends}
	}
	return e, nil
}

type ackRow struct {
	key
	First   string `dynamodbav:"first"` // padded
	Owners  []byte `dynamodbav:"owners"`
	PurgeAt int64  `dynamodbav:"purge_at,omitempty"`
}

func (r ackRow) ack() dedupe.Ack {
	last, _, _ := strings.Cut(r.SK, "#")
	return dedupe.Ack{
		First: dedupe.UnpadSequence(r.First), Last: dedupe.UnpadSequence(last), Owners: r.Owners, PurgeAt: r.PurgeAt,
	}
}

// layout is the version of the rows. Another one is refused.
const layout = 2

type consumerRow struct {
	key
	Function string `dynamodbav:"function"`
	Layout   int    `dynamodbav:"layout"`
	Ledger   string `dynamodbav:"ledger"`
}

type runRow struct {
	key
	Digest      string       `dynamodbav:"digest"`
	Finished    bool         `dynamodbav:"finished"`
	Input       int64        `dynamodbav:"input"`
	Lines       int64        `dynamodbav:"lines"`
	File        int          `dynamodbav:"file"`
	Line        int64        `dynamodbav:"line"`
	Output      int64        `dynamodbav:"output"`
	DeadLetters int64        `dynamodbav:"dead_letters"` // bytes of the file
	Tally       dedupe.Tally `dynamodbav:"tally"`
	About       string       `dynamodbav:"about,omitempty"`
	OutputID    string       `dynamodbav:"output_id,omitempty"` // absent in imports
	Beat        int64        `dynamodbav:"beat"`
	Rests       bool         `dynamodbav:"rests"`
	Closed      bool         `dynamodbav:"closed"`
}

func newRunRow(scope string, r dedupe.Run) runRow {
	return runRow{
		key: runKey(scope, r.ID), Digest: r.Digest, Finished: r.Finished, Input: r.Input, Lines: r.Lines, File: r.File,
		Line: r.Line, Output: r.Output, DeadLetters: r.DeadLetters, Tally: r.Tally, About: r.About,
		OutputID: r.OutputID, Beat: r.Beat, Rests: r.Rests, Closed: r.Closed,
	}
}

func (r runRow) run() *dedupe.Run {
	return &dedupe.Run{
		Digest: r.Digest, ID: r.SK, Finished: r.Finished, Input: r.Input, Lines: r.Lines, File: r.File, Line: r.Line,
		Output: r.Output, DeadLetters: r.DeadLetters, Tally: r.Tally, About: r.About,
		OutputID: r.OutputID, Beat: r.Beat, Rests: r.Rests, Closed: r.Closed,
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

var (
	yes types.AttributeValue = &types.AttributeValueMemberBOOL{Value: true}
	no  types.AttributeValue = &types.AttributeValueMemberBOOL{}
)

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// seconds returns a time as a decimal number of seconds, exact to the millisecond.
func seconds(t time.Time) types.AttributeValue {
	sign, ms := "", t.UnixMilli()
	if ms < 0 {
		sign, ms = "-", -ms
	}
	return &types.AttributeValueMemberN{Value: fmt.Sprintf("%s%d.%03d", sign, ms/1000, ms%1000)}
}
