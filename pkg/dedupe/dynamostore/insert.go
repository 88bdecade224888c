package dynamostore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// FullRequest is how many entries a request puts: the most statements that it may have (API reference,
// BatchExecuteStatement). A call with fewer entries puts each of its own.
const FullRequest = 25

// mostKeys is the most keys that a request reads (API reference, BatchGetItem).
const mostKeys = 100

// inserting are the entries of a call that are put by statements of PartiQL. Each statement inserts one entry if its
// key has no row, and is refused by itself.
type inserting struct {
	*Store
	entries []dedupe.Entry
	results []dedupe.PutResult
	next    []next // by entry
}

// next is what an entry needs after a request.
type next int8

const (
	nothing next = iota // its result is set
	read                // the row of its key
	alone               // a put of its own
)

// inStatements reports whether entries are put by statements. Fewer than a full request are not: a put of its own gets
// the old row with its refusal. An entry with a Hold needs the Date of the reply that shows the old row.
func (s *Store) inStatements(entries []dedupe.Entry) bool {
	return len(entries) >= s.statements.From &&
		!slices.ContainsFunc(entries, func(e dedupe.Entry) bool { return e.Hold != (dedupe.Hold{}) })
}

// insert puts entries by statements, and reads the rows of all keys that are taken. It returns the indexes of the
// entries that need a put of their own, because its condition says what a statement cannot say, or because the SDK
// repeats it: see sendStatements and compare.
func (s *Store) insert(
	ctx context.Context, entries []dedupe.Entry, results []dedupe.PutResult, all []int,
) (putAlone []int) {
	in := inserting{s, entries, results, make([]next, len(entries))}
	in.inPacks(all, FullRequest, func(pack []int) error { return in.sendStatements(ctx, pack) })
	in.inPacks(in.need(read), mostKeys, func(pack []int) error { return in.readTaken(ctx, pack) })
	return in.need(alone)
}

// need returns the indexes of the entries that need something.
func (in inserting) need(what next) (all []int) {
	for i, n := range in.next {
		if n == what {
			all = append(all, i)
		}
	}
	return all
}

// inPacks sends a request for each pack of entries. Its error is the result of them all.
func (in inserting) inPacks(entries []int, size int, send func(pack []int) error) {
	packs := slices.Collect(slices.Chunk(entries, size))
	errs := make([]error, len(packs))
	in.each(len(packs), func(i int) *error { return &errs[i] }, func(i int) { errs[i] = send(packs[i]) })
	for i, err := range errs {
		if err == nil {
			continue
		}
		for _, at := range packs[i] {
			in.results[at].Err, in.next[at] = err, nothing
		}
	}
}

// sendStatements inserts a pack of entries. A statement that was not done, for example because its key was throttled,
// comes in a reply with status 200, which the SDK does not repeat: its entry is put alone. So are all entries if
// DynamoDB refuses the request for good: see refused. A missing permission can come in either form.
func (in inserting) sendStatements(ctx context.Context, pack []int) error {
	request := &dynamodb.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(pack))}
	for i, at := range pack {
		request.Statements[i] = in.statement(&in.entries[at])
	}
	out, err := in.client.BatchExecuteStatement(ctx, request)
	switch {
	case in.refused(err, &in.toldInsert):
		in.putAlone(pack)
		return nil
	case err == nil && len(out.Responses) != len(pack):
		err = fmt.Errorf("%w: %d responses for %d statements", dedupe.ErrTryAgain, len(out.Responses), len(pack))
	}
	if err != nil {
		return failed("put entries", err)
	}
	for i, at := range pack {
		switch e := out.Responses[i].Error; {
		case e == nil: // put
		case e.Code != types.BatchStatementErrorCodeEnumDuplicateItem:
			in.next[at] = alone
			if e.Code == types.BatchStatementErrorCodeEnumAccessDenied {
				in.tellOneByOne(aws.ToString(e.Message), &in.toldInsert)
			}
		case len(e.Item) > 0:
			in.compare(ctx, at, e.Item)
		default:
			in.next[at] = read
		}
	}
	return nil
}

// OneByOne is the message of the warnings that a Store logs by slog.Default, if its caller may not send statements, and
// if it may not read the rows of taken keys: once each. Each entry is then put by a request of its own.
const OneByOne = "entries are put one by one, because a policy lacks a permission"

// refused reports whether DynamoDB has refused a request, so that it had no effect, and would refuse it again. No record
// fails because of that, so only the warning tells of a missing permission.
func (s *Store) refused(err error, told *sync.Once) bool {
	if !awserror.IsRefusal(err) || awserror.IsTransient(err) {
		return false
	}
	if awserror.Code(err) == "AccessDeniedException" {
		s.tellOneByOne(err.Error(), told)
	}
	return true
}

func (s *Store) tellOneByOne(reason string, told *sync.Once) {
	told.Do(func() {
		slog.Warn(OneByOne, "table", s.table, "error", reason, "do", "Allow dynamodb:PartiQLInsert and "+
			"dynamodb:BatchGetItem on the keys record#SCOPE#* of the table, as in docs/iam.md: without them each entry costs a "+
			"request of its own, and several times the processor time.")
	})
}

func (in inserting) putAlone(pack []int) {
	for _, at := range pack {
		in.next[at] = alone
	}
}

// statement inserts an entry if its key has no row. It asks for that row. Local engines do not send it with
// DuplicateItem.
func (in inserting) statement(e *dedupe.Entry) types.BatchStatementRequest {
	attributes := entryAttributes(e)
	values := make([]types.AttributeValue, len(attributes))
	var insert strings.Builder
	insert.WriteString(`INSERT INTO "` + in.table + `" VALUE {`)
	for i, a := range attributes {
		if i > 0 {
			insert.WriteByte(',')
		}
		insert.WriteString("'" + a.name + "':?")
		values[i] = a.value
	}
	insert.WriteByte('}')
	return types.BatchStatementRequest{
		Statement: aws.String(insert.String()), Parameters: values, ReturnValuesOnConditionCheckFailure: allOld,
	}
}

// readTaken reads the rows of keys that are taken, consistently. A key whose row is not in the reply was deleted
// meanwhile, or not read: a put of its own decides.
func (in inserting) readTaken(ctx context.Context, pack []int) error {
	keys := make([]map[string]types.AttributeValue, len(pack))
	for i, at := range pack {
		k := entryKey(in.entries[at].Scope, in.entries[at].Key)
		keys[i] = map[string]types.AttributeValue{"pk": text(k.PK), "sk": text(k.SK)}
	}
	out, err := in.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		in.table: {Keys: keys, ConsistentRead: aws.Bool(true)},
	}})
	switch {
	case in.refused(err, &in.toldRead):
		in.putAlone(pack)
		return nil
	case err != nil:
		return failed("read entries", err)
	}
	rows := make(map[string]map[string]types.AttributeValue, len(pack))
	for _, row := range out.Responses[in.table] {
		if pk, ok := row["pk"].(*types.AttributeValueMemberS); ok {
			rows[pk.Value] = row
		}
	}
	for _, at := range pack {
		row := rows[entryKey(in.entries[at].Scope, in.entries[at].Key).PK]
		if row == nil {
			in.next[at] = alone
			continue
		}
		in.compare(ctx, at, row)
	}
	return nil
}

// compare sets the result of an entry from the row of its key. If the row does not count for the entry, the entry is
// put alone, on condition that the row still does not count. So it is if this version cannot read the row: the
// condition of the put knows whether the row is purged.
func (in inserting) compare(ctx context.Context, at int, row map[string]types.AttributeValue) {
	e := &in.entries[at]
	old, existing, err := existingOf(row)
	if err != nil || existing.PurgedAt(e.Arrival) {
		in.next[at] = alone
		return
	}
	switch void, err := in.watch.Void(ctx, in.Store, e.Scope, old.OwnerText, e.Owner); {
	case err != nil:
		in.results[at].Err, in.next[at] = err, nothing
	case void:
		in.next[at] = alone
	default:
		in.results[at].Existing, in.next[at] = existing, nothing
	}
}
