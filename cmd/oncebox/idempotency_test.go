package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	oncedynamo "github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
	oncesqlite "github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

// caller makes idempotent calls beside the commands, in the namespace pay.
type caller struct {
	*shell
	store  engine.Store
	runner *idempotency.Runner
	runs   int // of functions that succeed; not for concurrent use, because no two executions run at a time
}

// onCalls runs a test on both stores.
func onCalls(t *testing.T, test func(c *caller)) {
	t.Run("sqlite", func(t *testing.T) {
		s := newShell(t)
		s.run(exitDone, "init")
		store, err := oncesqlite.Open(t.Context(), filepath.Join(s.dir, "oncebox.db"))
		must(t, err)
		t.Cleanup(func() { must(t, store.Close()) })
		test(newCaller(s, store))
	})
	t.Run("dynamodb", func(t *testing.T) {
		testengine.CheckOnly(t)
		s, client, tables := onTables(t)
		s.run(exitDone, "init")
		test(newCaller(s, oncedynamo.New(client, "dedupe-"+tables)))
	})
}

func newCaller(s *shell, store engine.Store) *caller {
	runner, err := idempotency.New(store, "pay", idempotency.Settings{})
	must(s.T, err)
	return &caller{shell: s, store: store, runner: runner}
}

func (c *caller) charge(context.Context, idempotency.Execution) (idempotency.Result, error) {
	c.runs++
	return idempotency.Result{ContentType: "text/plain", Body: fmt.Appendf(nil, "charge <%d>\n", c.runs)}, nil
}

// pay calls the function with the key k.
func (c *caller) pay() idempotency.Outcome[idempotency.Result] {
	c.Helper()
	out, err := c.runner.Do(c.Context(), "k", []byte("10 EUR"), c.charge)
	if err != nil {
		c.Error(err)
	}
	return out
}

// command runs a command on a key of the namespace.
func (c *caller) command(code int, name, key string, flags ...string) result {
	c.Helper()
	return c.run(code, append([]string{"idempotency", name, "pay", key}, flags...)...)
}

func number(n int64) string { return fmt.Sprint("--number=", n) }

func TestIdempotencyShow(t *testing.T) {
	onCalls(t, func(c *caller) {
		c.command(exitNo, "show", "k").saying(c.T, `the key has no record in the namespace: "k" in "pay"`)
		paid := c.pay()
		shown := c.command(exitDone, "show", "k")
		shown.saying(c.T, "status     completed\n", fmt.Sprintf("number     %d\n", paid.Number), "counts     yes\n", "lease end  2",
			"expiry     2", "deleted    from 2", "SHA-256 2c23e4533b0a", "result     value, text/plain, 11 bytes\n")
		var record onceRecord
		c.json(&record, "idempotency", "show", "pay", "k")
		if record.Status != engine.Completed || record.Number != paid.Number || !record.Counts || record.LeaseEnd == nil ||
			record.Result == nil || record.Result.Bytes != 11 || record.Result.Kind != engine.Value || record.Result.Body != nil {
			c.Errorf("unexpected %+v", record)
		}
		if strings.Contains(shown.stdout, "charge") {
			c.Errorf("a result may hold personal data: %s", shown.stdout)
		}
		if got := c.command(exitDone, "show", "k", "--result").stdout; got != "charge <1>\n" {
			c.Errorf("got %q", got)
		}
		c.json(&record, "idempotency", "show", "pay", "k", "--result")
		if string(record.Result.Body) != "charge <1>\n" || record.Result.ContentType != "text/plain" {
			c.Errorf("unexpected %+v", record.Result)
		}
		c.run(exitNo, "idempotency", "show", "other", "k").saying(c.T, `"k" in "other"`)
		c.run(exitUsage, "idempotency", "show", "", "k").saying(c.T, "namespace: it has 0 bytes")
		c.run(exitUsage, "idempotency", "show", "pay", "").saying(c.T, "key: it has 0 bytes")
	})
}

func TestIdempotencyExplain(t *testing.T) {
	onCalls(t, func(c *caller) {
		explain := func(code int, key string, next idempotency.NextCall, says string, flags ...string) {
			c.Helper()
			var explained onceExplained
			c.jsonWith(code, &explained, append([]string{"idempotency", "explain", "pay", key}, flags...)...)
			if text := strings.Join(explained.Sentences, "\n"); explained.NextCall != next || !strings.Contains(text, says) {
				c.Errorf("%s: want %s, saying %q; got %s, saying\n%s", key, next, says, explained.NextCall, text)
			}
			if got := c.command(code, "explain", key, flags...).stdout; got != strings.Join(explained.Sentences, "\n")+"\n" {
				c.Errorf("%s: the text differs: %s", key, got)
			}
		}
		c.file("same", "10 EUR")
		c.file("other", "10 EUR\n")
		c.file("empty", "")
		explain(exitNo, "none", idempotency.NextRuns, "There is no record. The next call runs the function.")
		c.pay()
		explain(exitDone, "k", idempotency.NextReplays, "The next call gets its result (value, text/plain, 11 bytes), until 2")
		explain(exitDone, "k", idempotency.NextReplays, "The payload in same is the payload of the record.", "--payload-file=same")
		explain(exitDone, "k", idempotency.NextRefused, "The payload in other is not the payload of the record. A call with it is "+
			"refused (ErrOtherPayload) until 2", "--payload-file=other")
		explain(exitDone, "k", idempotency.NextRefused, "The payload in empty is not", "--payload-file=empty")
		piped := c.runWith("10 EUR", "idempotency", "explain", "pay", "k", "--payload-file", "-")
		c.want(exitDone, piped, "explain").saying(c.T, "The payload in - is the payload")
		c.command(exitUsage, "explain", "k", "--payload-file=missing").saying(c.T, "missing: no such file")

		broken := errors.New("card refused")
		_, _ = c.runner.Do(c.Context(), "failed", nil, func(context.Context, idempotency.Execution) (idempotency.Result, error) {
			return idempotency.Result{}, broken
		})
		explain(exitDone, "failed", idempotency.NextRuns, "failed and gave it back, or was evicted.\nThe next call runs the function")
		c.command(exitNo, "show", "failed", "--result").saying(c.T, "the record has no result: its execution has not completed")
		_, _ = c.runner.Do(c.Context(), "final", nil, func(context.Context, idempotency.Execution) (idempotency.Result, error) {
			return idempotency.Result{}, idempotency.Final(broken)
		})
		explain(exitDone, "final", idempotency.NextReplays, "the failure is final.\nThe next call gets the same error, until 2")
		_, _ = idempotency.Do(c.Context(), c.runner, "missing", 0, func(context.Context, idempotency.Execution, int) (chan int, error) {
			return make(chan int), nil
		})
		explain(exitDone, "missing", idempotency.NextReplays, "could not be stored.\nThe next call gets ErrResultNotStored, until 2")
		c.command(exitDone, "show", "missing").saying(c.T, "result     missing; --result says why\n")
		why := c.command(exitNo, "show", "missing", "--result")
		why.saying(c.T, "the record has no result: it could not be stored: it cannot be encoded: json: unsupported type: chan int")
		if why.stdout != "" {
			c.Errorf("%q is not a result", why.stdout)
		}

		past := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		row := engine.Record{
			Status: engine.InProgress, Token: "t", Number: 7, LeaseEnd: past, Expiry: past,
			PurgeAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
		}
		for _, key := range []string{"crashed", "over"} {
			_, err := c.store.Put(c.Context(), engine.Key{Namespace: "pay", Name: key}, row)
			must(c.T, err)
		}
		explain(exitDone, "crashed", idempotency.NextRuns,
			"free since 2026-01-02T03:04:05Z. Execution 7 held it until then, and has neither completed nor given it back.")
		_, err := c.store.Complete(c.Context(), engine.Key{Namespace: "pay", Name: "over"}, "t", engine.Completion{
			Result: engine.Result{Kind: engine.Value}, Expiry: past, PurgeAt: row.PurgeAt,
		})
		must(c.T, err)
		explain(exitDone, "over", idempotency.NextRuns, "its window has been over since 2026-01-02T03:04:05Z.")
	})
}

// TestIdempotencyEvict: a key is free after an eviction, and a repeat never evicts the execution that followed.
func TestIdempotencyEvict(t *testing.T) {
	onCalls(t, func(c *caller) {
		c.command(exitUsage, "evict", "k").saying(c.T, "--number")
		c.command(exitUsage, "evict", "k", "--number=x").saying(c.T, `--number: "x" is not a whole number`)
		c.command(exitNo, "evict", "k", "--number=1").saying(c.T, `has no record in the namespace: "k" in "pay"`)
		first := c.pay().Number
		c.command(exitNo, "evict", "k", number(first-1)).saying(c.T, "another execution", fmt.Sprint("it has the number ", first))
		if out := c.pay(); !out.Replayed {
			c.Error("the record of another number was evicted")
		}
		c.command(exitDone, "evict", "k", number(first)).saying(c.T, fmt.Sprint("evicted execution ", first), "charge, can happen a second time",
			"includes effects in the transaction of the result")
		c.command(exitDone, "show", "k").saying(c.T, "no: the execution gave the key back, or was evicted", fmt.Sprint(first))
		var again evictedJSON
		if c.json(&again, "idempotency", "evict", "pay", "k", number(first)); again != (evictedJSON{first, "already"}) {
			c.Errorf("unexpected %+v", again)
		}
		second := c.pay()
		if second.Replayed || second.Number <= first || c.runs != 2 {
			c.Errorf("unexpected %+v after %d runs", second, c.runs)
		}
		c.command(exitNo, "evict", "k", number(first)).saying(c.T, "another execution", "oncebox idempotency explain")
		if out := c.pay(); !out.Replayed {
			c.Error("a repeat evicted the next execution")
		}
	})
}

// TestIdempotencyEvictRunning: an execution within its lease is evicted only with --running, and does not complete then.
func TestIdempotencyEvictRunning(t *testing.T) {
	onCalls(t, func(c *caller) {
		numbers, evicted, ended := make(chan int64), make(chan bool), make(chan error)
		go func() {
			_, err := c.runner.Do(c.Context(), "k", nil, func(_ context.Context, e idempotency.Execution) (idempotency.Result, error) {
				numbers <- e.Number
				<-evicted
				return idempotency.Result{}, nil
			})
			ended <- err
		}()
		running := <-numbers
		c.command(exitDone, "explain", "k").saying(c.T, fmt.Sprintf("Execution %d holds the key until 2", running), "waits for its result")
		c.command(exitNo, "evict", "k", number(running)).saying(c.T, "holds the key for up to ", "say --running")
		c.command(exitDone, "show", "k").saying(c.T, "in-progress", "counts     yes")
		evicting := c.command(exitDone, "evict", "k", number(running), "--running")
		if evicting.saying(c.T, "evicted", "It cannot complete any more"); strings.Contains(evicting.stdout, "transaction") {
			c.Error("the effects of an execution that cannot complete do not happen:", evicting.stdout)
		}
		close(evicted)
		if err := <-ended; !errors.Is(err, idempotency.ErrLeaseLost) {
			c.Error(err)
		}
		if out := c.pay(); out.Replayed || out.Number <= running {
			c.Errorf("unexpected %+v", out)
		}
	})
}

// TestIdempotencyEvictAtOnce: two evictions and two calls at once. One eviction frees the key, and the function runs
// once for it.
func TestIdempotencyEvictAtOnce(t *testing.T) {
	onCalls(t, func(c *caller) {
		for round := range 5 {
			before := c.pay().Number
			runs := c.runs
			evictions := make([]result, 2)
			var all sync.WaitGroup
			for i := range evictions {
				all.Go(func() { evictions[i] = c.runWith("", "idempotency", "evict", "pay", "k", number(before)) })
				all.Go(func() { c.pay() })
			}
			all.Wait()
			evicted := 0
			for _, r := range evictions {
				if strings.HasPrefix(r.stdout, "evicted") {
					evicted++
				} else if r.code != exitNo && !strings.HasPrefix(r.stdout, "nothing to evict") {
					c.Errorf("unexpected %+v", r)
				}
			}
			if c.pay(); evicted != 1 || c.runs != runs+1 {
				c.Errorf("round %d: %d evictions, and %d runs: %+v", round, evicted, c.runs-runs, evictions)
			}
		}
	})
}

// TestIdempotencyReadsOnly: the commands that only read make no file and no tables.
func TestIdempotencyReadsOnly(t *testing.T) {
	s := newShell(t)
	for _, name := range []string{"show", "explain"} {
		s.run(exitUsage, "idempotency", name, "pay", "k").saying(t, "there is no such file", "oncebox --store sqlite:oncebox.db init")
		s.absent("oncebox.db", "oncebox.db.lock")
	}
	s.run(exitUsage, "idempotency", "evict", "pay", "k", "--number=1").saying(t, "there is no such file")
	s.absent("oncebox.db", "oncebox.db.lock")
}

// theirTable is a table of Powertools with a completed row, as aws-lambda-powertools 3.37.0 and
// @aws-lambda-powertools/idempotency 2.35.0 write it for the key "order-1" and the payload "19.90".
type theirTable struct {
	*shell
	client *dynamodb.Client
	name   string
	hash   string // of the key
	hashed string // the payload
	row    map[string]types.AttributeValue
}

// onTheirTables runs a test on a table of each format. The one of TypeScript has other names.
func onTheirTables(t *testing.T, test func(theirTable)) {
	t.Helper()
	number := func(n int64) types.AttributeValue { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
	now := time.Now()
	expiry, lease := number(now.Add(time.Hour).Unix()), number(now.Add(time.Minute).UnixMilli())
	for format, r := range map[powertools.Format]struct {
		hash, hashed, options, key, sort string
		row                              map[string]types.AttributeValue
	}{
		powertools.Python: {
			"729040816f7330c4cb31f54a56f59a7b", "b1178c4db3edc4b05c9f9a68c48ae57f", "", "id", "",
			map[string]types.AttributeValue{
				"id": text("pay.main.pay#729040816f7330c4cb31f54a56f59a7b"), "status": text("COMPLETED"),
				"expiration": expiry, "in_progress_expiration": lease,
				"validation": text("b1178c4db3edc4b05c9f9a68c48ae57f"), "data": text(`{"charge": "ch \u00e9"}`),
			},
		},
		powertools.TypeScript: {
			"cpBAgW9zMMTLMfVKVvWaew==", "sReMTbPtxLBcn5poxIrlfw==", "?key-attr=pk&sort-key-attr=sk" +
				"&static-pk-value=idempotency%23pay&status-attr=state&expiry-attr=ends&in-progress-expiry-attr=lease" +
				"&data-attr=response&validation-key-attr=hash", "pk", "sk",
			map[string]types.AttributeValue{
				"pk": text("idempotency#pay"), "sk": text("pay.main.pay#cpBAgW9zMMTLMfVKVvWaew=="), "state": text("COMPLETED"),
				"ends": expiry, "lease": lease, "hash": text("sReMTbPtxLBcn5poxIrlfw=="),
				"response": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"charge": text("ch é")}},
			},
		},
	} {
		t.Run(string(format), func(t *testing.T) {
			s, client, tables := onTables(t)
			name := "theirs-" + tables
			createTable(t, client, name, r.key, r.sort, "")
			s.env = append(s.env, "ONCEBOX_STORE="+string(format)+":"+name+r.options)
			table := theirTable{s, client, name, r.hash, r.hashed, r.row}
			table.put("COMPLETED")
			test(table)
		})
	}
}

// put puts their row with a status.
func (t theirTable) put(status string) {
	t.Helper()
	for _, name := range []string{"status", "state"} {
		if t.row[name] != nil {
			t.row[name] = text(status)
		}
	}
	_, err := t.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &t.name, Item: t.row})
	must(t.T, err)
}

// TestIdempotencyOfPowertools: the commands read their records, by the hash of a key or by its JSON, and evict them. A
// repeat does not evict a later record.
func TestIdempotencyOfPowertools(t *testing.T) {
	onTheirTables(t, func(t theirTable) {
		command := func(code int, name, key string, flags ...string) result {
			t.Helper()
			return t.run(code, append([]string{"idempotency", name, "pay.main.pay", key}, flags...)...)
		}
		const key = `"order-1"`
		var shown onceRecord
		for _, key := range []string{key, t.hash} {
			t.json(&shown, "idempotency", "show", "pay.main.pay", key, "--result")
			if shown.Key != t.hash || !shown.Counts || !strings.Contains(string(shown.Result.Body), `"charge"`) {
				t.Errorf("unexpected %+v", shown)
			}
		}
		command(exitDone, "show", key).saying(t.T, "payload    validation "+t.hashed, "by         Powertools")
		t.file("same", `"19.90"`)
		t.file("other", `"99.00"`)
		command(exitDone, "explain", key, "--payload-file=same").saying(t.T, "A function with Powertools has completed.",
			"The payload in same is the payload of the record")
		command(exitDone, "explain", key, "--payload-file=other").saying(t.T, "The payload in other is not")

		command(exitNo, "evict", key, number(shown.Number-1)).saying(t.T, "another execution")
		command(exitDone, "evict", key, number(shown.Number)).saying(t.T, "evicted execution")
		command(exitDone, "evict", key, number(shown.Number)).saying(t.T, "the key is free")
		command(exitDone, "explain", key).saying(t.T, "gave it back, or was evicted")
		for _, name := range []string{"expiration", "ends"} { // they run it again
			if n, ok := t.row[name].(*types.AttributeValueMemberN); ok {
				n.Value = fmt.Sprint(shown.Number + 9)
			}
		}
		t.put("INPROGRESS")
		command(exitNo, "evict", key, number(shown.Number), "--running").saying(t.T, "another execution")
		command(exitDone, "explain", key).saying(t.T, "A function with Powertools holds the key until 2")
		command(exitDone, "evict", key, number(shown.Number+9), "--running").saying(t.T, "may still run, and complete")

		for _, name := range []string{"validation", "hash"} {
			delete(t.row, name)
		}
		t.put("COMPLETED")
		command(exitDone, "explain", key).saying(t.T, "The payload is not compared")
		command(exitUsage, "explain", key, "--payload-file=same").saying(t.T, "--payload-file same: the record has no hash")
		command(exitUsage, "show", "order-1").saying(t.T, `KEY "order-1": the value is not JSON`, "a text has quotes")
		command(exitNo, "show", `"order-2"`).saying(t.T, `in "pay.main.pay"`)
		for address, want := range map[string]string{
			"powertools-python:none":                       "the DynamoDB table none does not exist",
			"powertools-python:" + t.name + "?key-attr=no": "Check --store: the keys of the table are key-attr",
		} {
			got := t.runWith("", "--store", address, "idempotency", "show", "pay.main.pay", key)
			got.saying(t.T, want)
		}
		t.run(exitUsage, "campaign", "list").saying(t.T, "Only the commands of `oncebox idempotency`")
	})
}

// TestAddressesOfPowertools: an error names the option as it was typed.
func TestAddressesOfPowertools(t *testing.T) {
	s := newShell(t)
	for address, want := range map[string]string{
		"powertools-python:":                   "does not have the name of a table",
		"powertools-ruby:t":                    `--store "powertools-ruby:t": must be`,
		"powertools-python:t?key-atr=id":       "did you mean key-attr?",
		"powertools-python:t?sort-key-attr=sk": `sort-key-attr "sk" and static-pk-value "": set both or none`,
		"powertools-python:t?data-attr=status": `data-attr "status" is the name of status-attr, too`,
	} {
		s.run(exitUsage, "--store", address, "idempotency", "show", "pay", "1").saying(t, want)
	}
}
