package dynamostore_test

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// hashed takes keys with any names, and hashes them.
type hashed struct {
	*dynamostore.PowertoolsStore
	format powertools.Format
}

func (h hashed) of(k engine.Key) engine.Key {
	name, err := h.format.Key(strconv.AppendQuoteToASCII(nil, fmt.Sprintf("%x", md5.Sum([]byte(k.Name)))))
	if err != nil {
		panic(err)
	}
	return engine.Key{Namespace: k.Namespace, Name: name}
}

func (h hashed) Put(ctx context.Context, k engine.Key, r engine.Record) (engine.Answer, error) {
	return h.PowertoolsStore.Put(ctx, h.of(k), r)
}

func (h hashed) Replace(ctx context.Context, k engine.Key, v engine.Version, r engine.Record) (engine.Answer, error) {
	return h.PowertoolsStore.Replace(ctx, h.of(k), v, r)
}

func (h hashed) Prolong(ctx context.Context, k engine.Key, token string, e engine.Ends) (engine.Answer, error) {
	return h.PowertoolsStore.Prolong(ctx, h.of(k), token, e)
}

func (h hashed) Complete(ctx context.Context, k engine.Key, token string, c engine.Completion) (engine.Answer, error) {
	return h.PowertoolsStore.Complete(ctx, h.of(k), token, c)
}

func (h hashed) Release(ctx context.Context, k engine.Key, token, next string) (engine.Answer, error) {
	return h.PowertoolsStore.Release(ctx, h.of(k), token, next)
}

func (h hashed) Read(ctx context.Context, k engine.Key, c engine.Consistency) (engine.Answer, error) {
	return h.PowertoolsStore.Read(ctx, h.of(k), c)
}

func (h hashed) CheckEffects(k engine.Key, e engine.Effects) error {
	return h.PowertoolsStore.CheckEffects(h.of(k), e)
}

func (h hashed) CompleteWith(
	ctx context.Context, k engine.Key, token string, c engine.Completion, e engine.Effects,
) (engine.Answer, error) {
	return h.PowertoolsStore.CompleteWith(ctx, h.of(k), token, c, e)
}

// theirTable is a table of Powertools with a composite key and other names.
func theirTable(format powertools.Format) dynamostore.Powertools {
	return dynamostore.Powertools{
		Format: format, Validation: true, KeyAttr: "pk", SortKeyAttr: "sk", StaticPKValue: "idempotency#pay",
		StatusAttr: "state", DataAttr: "response",
	}
}

func newPowertools(t *testing.T, client dynamostore.Client, p dynamostore.Powertools) *dynamostore.PowertoolsStore {
	t.Helper()
	s, err := dynamostore.NewPowertools(client, table, p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// them does what Powertools does, without a look at tokens. tests/powertools compares it with the packages.
type them struct {
	*testing.T
	client *dynamodb.Client
	format powertools.Format
	key    string
}

func (t them) id() row { return row{"pk": text("idempotency#pay"), "sk": text("pay#" + t.key)} }

// put puts their row. end is in milliseconds; 0: the row has none.
func (t them) put(end int64, expiration time.Time) {
	t.Helper()
	item := t.id()
	item["state"], item["expiration"] = text("INPROGRESS"), n(expiration.Unix())
	if end != 0 {
		item["in_progress_expiration"] = n(end)
	}
	if _, err := t.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: item}); err != nil {
		t.Fatal(err)
	}
}

func (t them) complete(data types.AttributeValue) {
	t.Helper()
	if _, err := t.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: t.id(),
		UpdateExpression:         aws.String("SET #s = :s, expiration = :e, #r = :r"),
		ExpressionAttributeNames: map[string]string{"#s": "state", "#r": "response"},
		ExpressionAttributeValues: row{
			":s": text("COMPLETED"), ":e": n(time.Now().Add(time.Hour).Unix()), ":r": data,
		},
	}); err != nil {
		t.Fatal(err)
	}
}

func (t them) row() row {
	t.Helper()
	out, err := t.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: t.id(), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func n(i int64) types.AttributeValue { return &types.AttributeValueMemberN{Value: fmt.Sprint(i)} }

// beside runs a test with a table of each format.
func beside(t *testing.T, do func(t them, r *idempotency.Runner)) {
	t.Helper()
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	for _, format := range []powertools.Format{powertools.Python, powertools.TypeScript} {
		t.Run(string(format), func(t *testing.T) {
			p := theirTable(format)
			p.Validation = false
			r, err := idempotency.New(newPowertools(t, client, p), "pay", idempotency.Settings{DoNotWait: true})
			if err != nil {
				t.Fatal(err)
			}
			key, err := format.Key([]byte(strconv.Quote(t.Name())))
			if err != nil {
				t.Fatal(err)
			}
			do(them{t, client, format, key}, r)
		})
	}
}

// theirs is the string that a function of theirs returns, as data.
func (t them) theirs() types.AttributeValue {
	if t.format == powertools.Python {
		return text(`"theirs"`)
	}
	return text("theirs")
}

func (t them) call(r *idempotency.Runner, fn func() (string, error)) (idempotency.Outcome[string], error) {
	return idempotency.Do(t.Context(), r, t.key, 0, func(context.Context, idempotency.Execution, int) (string, error) {
		return fn()
	})
}

// TestTheirLateCompletion: their completion keeps our token. It is not taken for ours, and stays. So our caller gets
// their result, and the row keeps what it has.
func TestTheirLateCompletion(t *testing.T) {
	beside(t, func(t them, r *idempotency.Runner) {
		t.put(time.Now().Add(-time.Minute).UnixMilli(), time.Now().Add(time.Hour))
		out, err := t.call(r, func() (string, error) {
			t.complete(t.theirs())
			return "ours", nil
		})
		if err != nil || out.Value != "theirs" || !out.Replayed {
			t.Errorf("got %+v, %v", out, err)
		}
		if row := t.row(); row["oncebox_token"] == nil || row["oncebox_completed_by"] != nil {
			t.Errorf("got %v", row)
		}
	})
}

// TestTheirRowBlocks: a row of theirs blocks until its end; without one until it expires. After that it is taken over.
func TestTheirRowBlocks(t *testing.T) {
	beside(t, func(t them, r *idempotency.Runner) {
		ours := func() (string, error) { return "ours", nil }
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		t.put(in(time.Minute).UnixMilli(), in(time.Hour))
		if _, err := t.call(r, ours); !errors.Is(err, idempotency.ErrInProgress) {
			t.Errorf("in its lease: %v", err)
		}
		t.put(0, in(time.Hour))
		if _, err := t.call(r, ours); !errors.Is(err, idempotency.ErrInProgress) {
			t.Errorf("without a lease: %v", err)
		}
		t.put(0, in(-time.Minute))
		if out, err := t.call(r, ours); err != nil || out.Value != "ours" || out.Replayed {
			t.Errorf("expired: %+v, %v", out, err)
		}
	})
}

// TestTheirUnreadableRow: a row with an unknown status is an error until it expires. After that it is taken over.
func TestTheirUnreadableRow(t *testing.T) {
	beside(t, func(t them, r *idempotency.Runner) {
		item := t.id()
		item["state"] = text("OF ANOTHER VERSION")
		for _, end := range []time.Duration{time.Hour, -time.Minute} {
			item["expiration"] = n(time.Now().Add(end).Unix())
			if _, err := t.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: item}); err != nil {
				t.Fatal(err)
			}
			out, err := t.call(r, func() (string, error) { return "ours", nil })
			if end < 0 && (err != nil || out.Value != "ours" || out.Replayed) {
				t.Errorf("expired: %+v, %v", out, err)
			}
			if end > 0 && (err == nil || !strings.Contains(err.Error(), `the status "OF ANOTHER VERSION"`)) {
				t.Errorf("not expired: %+v, %v", out, err)
			}
		}
	})
}

// TestLongNames: a result of any size that is stored fits beside long names of attributes. A larger one is not stored.
func TestLongNames(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	p := theirTable(powertools.Python)
	p.DataAttr, p.StatusAttr = strings.Repeat("d", 3<<10), strings.Repeat("s", 3<<10)
	s := newPowertools(t, client, p)
	r, err := idempotency.New(s, strings.Repeat("p", 900), idempotency.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for more, stored := range []bool{true, false} {
		key, err := p.Format.Key([]byte(strconv.Itoa(more + 1)))
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Do(t.Context(), key, []byte("1"), func(context.Context, idempotency.Execution) (idempotency.Result, error) {
			const kind = "application/json"
			body := strconv.Quote(strings.Repeat("x", s.MaxResult()-len(kind)-2+more))
			return idempotency.Result{ContentType: kind, Body: []byte(body)}, nil
		})
		if err != nil || out.NotStored == stored {
			t.Errorf("%d bytes more: not stored %t, %v", more, out.NotStored, err)
		}
	}
}

// TestEvictTheirs: after an eviction of their record, which has no number and no token, the function runs again. A repeat
// of the eviction does not evict a later record of theirs.
func TestEvictTheirs(t *testing.T) {
	beside(t, func(t them, r *idempotency.Runner) {
		for name, begin := range map[string]func(){
			"completed":   func() { t.complete(t.theirs()) },
			"in progress": func() { t.put(time.Now().Add(time.Minute).UnixMilli(), time.Now().Add(time.Hour)) },
			"no lease":    func() { t.put(0, time.Now().Add(time.Hour)) },
		} {
			if _, err := t.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
				TableName: aws.String(table), Key: t.id(),
			}); err != nil {
				t.Fatal(err)
			}
			begin()
			found, err := r.Explain(t.Context(), t.key, nil)
			if err != nil || found.Record == nil {
				t.Fatalf("%s: %+v, %v", name, found, err)
			}
			evict := idempotency.Eviction{Number: found.Record.Number, Running: true}
			if row, err := r.Evict(t.Context(), t.key, evict); err != nil || row == nil {
				t.Errorf("%s: %+v, %v", name, row, err)
			}
			if row, err := r.Evict(t.Context(), t.key, evict); err != nil || row != nil {
				t.Errorf("%s, again: %+v, %v", name, row, err)
			}
			t.put(time.Now().Add(-time.Minute).UnixMilli(), time.Now().Add(2*time.Hour)) // they run it again
			if _, err := r.Evict(t.Context(), t.key, evict); !errors.Is(err, idempotency.ErrOtherExecution) {
				t.Errorf("%s, a later record: %v", name, err)
			}
			out, err := t.call(r, func() (string, error) { return "ours", nil })
			if err != nil || out.Value != "ours" || out.Replayed {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
		}
	})
}

// TestReleasedForThem: a row that we gave back has an end of 0, so that they take it over at once.
func TestReleasedForThem(t *testing.T) {
	beside(t, func(t them, r *idempotency.Runner) {
		if _, err := t.call(r, func() (string, error) { return "", errors.New("failed") }); err == nil {
			t.Error("no error")
		}
		if got := fmt.Sprint(values(t.row(), "state", "in_progress_expiration")); got != "[INPROGRESS 0]" {
			t.Errorf("got %s", got)
		}
	})
}

func values(item row, names ...string) (all []string) {
	for _, name := range names {
		switch v := item[name].(type) {
		case *types.AttributeValueMemberS:
			all = append(all, v.Value)
		case *types.AttributeValueMemberN:
			all = append(all, v.Value)
		default:
			all = append(all, fmt.Sprintf("%T", v))
		}
	}
	return all
}

// TestUnknownAttributes: a heartbeat, a completion and a release keep attributes of others.
func TestUnknownAttributes(t *testing.T) {
	beside(t, func(t them, _ *idempotency.Runner) {
		s := newPowertools(t.T, t.client, theirTable(t.format))
		key := engine.Key{Namespace: "pay", Name: t.key}
		end := time.Now().Add(time.Hour)
		for name, write := range map[string]func() (engine.Answer, error){
			"prolong": func() (engine.Answer, error) {
				return s.Prolong(t.Context(), key, "t", engine.Ends{LeaseEnd: end, Expiry: end})
			},
			"complete": func() (engine.Answer, error) {
				return s.Complete(t.Context(), key, "t", engine.Completion{Expiry: end})
			},
			"release": func() (engine.Answer, error) { return s.Release(t.Context(), key, "t", "u") },
		} {
			item := t.id()
			maps.Copy(item, row{
				"state": text("INPROGRESS"), "expiration": n(end.Unix()), "in_progress_expiration": n(1),
				"oncebox_token": text("t"), "oncebox_number": n(1), "other": text("kept"),
			})
			if _, err := t.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: item}); err != nil {
				t.Fatal(err)
			}
			if a, err := write(); err != nil || !a.Done || t.row()["other"] == nil {
				t.Errorf("%s: %+v, %v, %v", name, a, err, t.row())
			}
		}
	})
}

// TestPowertoolsRefusals: windows that are too short, keys that are no hash, payloads without JSON, and names that are
// not clear.
func TestPowertoolsRefusals(t *testing.T) {
	t.Parallel()
	s := newPowertools(t, nil, dynamostore.Powertools{Format: powertools.Python, Validation: true})
	if _, err := idempotency.New(s, "pay", idempotency.Settings{Window: 15*time.Minute - 1}); !errors.Is(err, idempotency.ErrInvalid) {
		t.Errorf("a short window: %v", err)
	}
	_, err := idempotency.New(s, "pay", idempotency.Settings{CacheBytes: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "CacheBytes: other programs") {
		t.Errorf("a cache: %v", err)
	}
	r, err := idempotency.New(s, "pay.$f", idempotency.Settings{Window: 15 * time.Minute}) // a prefix of theirs
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(t.Context(), "order-1", []byte("{}"), nil); err == nil || !strings.Contains(err.Error(), "package powertools") {
		t.Errorf("a key: %v", err)
	}
	if _, err := r.Do(t.Context(), "order-1", []byte("{"), nil); !errors.Is(err, idempotency.ErrInvalid) {
		t.Errorf("a payload: %v", err)
	}
	for want, p := range map[string]dynamostore.Powertools{
		`format "x" is unknown`:                  {Format: "x"},
		`set both or none`:                       {Format: powertools.Python, SortKeyAttr: "sk"},
		`DataAttr "id" is the name of KeyAttr`:   {Format: powertools.Python, DataAttr: "id"},
		`StatusAttr "oncebox_token" is the name`: {Format: powertools.Python, StatusAttr: "oncebox_token"},
	} {
		if _, err := dynamostore.NewPowertools(nil, table, p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
