package main

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// dryRunReport is the output of load --dry-run.
type dryRunReport struct {
	DryRun bool `json:"dry_run"`
	itembank.LoadReport
}

// loading is a load in its own process.
type loading struct {
	*shell
	campaign string
	items    []string
	command  *exec.Cmd
	stdout   bytes.Buffer
	stderr   bytes.Buffer
}

// newLoading writes the items to a file.
func (s *shell) newLoading(campaign, file string, items []string) *loading {
	s.Helper()
	l := &loading{shell: s, campaign: campaign, items: items}
	path := s.file(file, strings.Join(items, "\n")+"\n")
	l.command = s.command(context.Background(), nil, "--output", "json", "load", campaign, path)
	l.command.Stdout, l.command.Stderr = &l.stdout, &l.stderr
	return l
}

func (l *loading) start() *loading {
	l.Helper()
	if err := l.command.Start(); err != nil {
		l.Fatal(err)
	}
	return l
}

// report waits for the end of the load and reads its report.
func (l *loading) report() (r itembank.LoadReport) {
	l.Helper()
	if err := l.command.Wait(); err != nil {
		l.Fatalf("load %s: %v\n%s", l.campaign, err, l.stderr.String())
	}
	if err := json.Unmarshal(l.stdout.Bytes(), &r); err != nil {
		l.Fatalf("load %s: %v in %s", l.campaign, err, l.stdout.String())
	}
	return r
}

// kill kills the process, if it has not ended.
func (l *loading) kill() {
	_ = l.command.Process.Kill()
	_ = l.command.Wait()
}

// store opens the shell's store in this process.
func (s *shell) store() engine.Store {
	s.Helper()
	set := map[string]string{}
	for _, v := range s.env {
		name, value, _ := strings.Cut(v, "=")
		set[name] = value
	}
	if set["ONCEBOX_STORE"] == "" {
		store, err := sqlitestore.Open(s.Context(), filepath.Join(s.dir, "oncebox.db"))
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = store.Close() })
		return store
	}
	client, err := awsclient.NewDynamoDB(s.Context(), func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(set["AWS_ENDPOINT_URL_DYNAMODB"]),
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return dynamostore.New(client, set["ONCEBOX_BANK_TABLE"], set["ONCEBOX_DEDUPE_TABLE"])
}

// createWith makes a campaign in which some items are known.
func (s *shell) createWith(store engine.Store, campaign string, known []string) {
	s.Helper()
	bank := itembank.NewOperator(store)
	_, _, err := bank.CreateCampaign(s.Context(), campaign, itembank.Settings{Shards: 2})
	if err == nil {
		_, err = bank.Load(s.Context(), campaign, itembank.Items(known...), nil)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// onceEach checks that every item is in the bank exactly once.
func (s *shell) onceEach(store engine.Store, campaign string, files ...[]string) {
	s.Helper()
	n := int64(len(distinct(files...)))
	r, err := itembank.NewOperator(store).Reconcile(s.Context(), campaign)
	if want := (itembank.Counts{Loaded: n, Free: n}); err != nil || r.Counts != want || len(r.Inconsistencies) > 0 {
		s.Errorf("want %+v, got %+v, %v", want, r, err)
	}
}

func distinct(files ...[]string) map[string]bool {
	all := map[string]bool{}
	for _, items := range files {
		for _, item := range items {
			all[item] = true
		}
	}
	return all
}

// owned counts the lines of a file by the item rows, which name the load that added them.
func (s *shell) owned(store engine.Store, campaign, loadID string, items []string) (t itembank.Tally) {
	s.Helper()
	for i, item := range items {
		row, err := store.ItemRow(s.Context(), campaign, engine.HashItem(item))
		if err != nil || row == nil {
			s.Fatalf("item row of %s: %v, %v", item, row, err)
		}
		t.Rows++
		switch {
		case row.LoadID != loadID:
			t.Known++
		case row.Row == int64(i)+1:
			t.Added++
		default:
			t.Repeated++
		}
	}
	return t
}

func numbered(prefix string, n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return items
}

// TestLoadersAtOnce: two processes load overlapping files. The common items are in opposite orders, so that the
// processes meet in the middle.
func TestLoadersAtOnce(t *testing.T) {
	testengine.CheckOnly(t)
	const n = interruptedLines / 20
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		store := s.store()
		known := numbered("known", 20)
		s.createWith(store, "spring", known)
		shared := numbered("shared", n)
		one := slices.Concat(numbered("one", n/4), shared, known, shared[:10])
		slices.Reverse(shared)
		two := slices.Concat(shared, []string{"two", "two"}, known[:5], shared[n/2:])
		first, second := s.newLoading("spring", "one.txt", one).start(), s.newLoading("spring", "two.txt", two).start()
		a, b := first.report(), second.report()
		for _, r := range []struct {
			itembank.LoadReport
			items []string
		}{{a, one}, {b, two}} {
			if want := s.owned(store, "spring", r.LoadID, r.items); r.Tally != want || want.Rows != want.Added+want.Known+want.Repeated {
				s.Errorf("want %+v, got %+v", want, r.Tally)
			}
		}
		if union := int64(len(distinct(one, two, known))); a.Added+b.Added+20 != union {
			s.Errorf("of %d items %d and %d were added", union, a.Added, b.Added)
		}
		s.onceEach(store, "spring", one, two, known)
		s.Logf("added %d and %d, known %d and %d", a.Added, b.Added, a.Known, b.Known)
	})
}

// TestLoadersOfOneFile: two processes on one file are one load.
func TestLoadersOfOneFile(t *testing.T) {
	testengine.CheckOnly(t)
	const n = interruptedLines / 8
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		store := s.store()
		s.createWith(store, "spring", []string{"known"})
		items := slices.Concat(numbered("code", n), []string{"known", "code-00000"})
		first, second := s.newLoading("spring", "one.txt", items).start(), s.newLoading("spring", "same.txt", items).start()
		whole := itembank.Tally{Rows: n + 2, Added: n, Known: 1, Repeated: 1}
		a, b := first.report(), second.report()
		for _, r := range []itembank.LoadReport{a, b} {
			want := whole
			if strings.HasSuffix(r.LoadID, "#000002") { // it began after the other load had ended
				want = itembank.Tally{Rows: n + 2, Known: n + 2}
			}
			if r.Tally != want {
				s.Errorf("want %+v, got %+v", want, r)
			}
		}
		if a.Tally != whole && b.Tally != whole {
			s.Errorf("no process reports the load: %+v, %+v", a, b)
		}
		s.onceEach(store, "spring", items)
	})
}

// TestKilledLoaders: two processes with overlapping files are killed at random times and started again. The reports at
// the end are exact.
func TestKilledLoaders(t *testing.T) {
	testengine.CheckOnly(t)
	const kills = 4
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		store := s.store()
		known, shared := numbered("known", 10), numbered("shared", 200)
		files := [][]string{
			slices.Concat(numbered("one", 150), shared, known, shared[:10]),
			slices.Concat(shared, []string{"two", "two"}, known[:5], shared[100:]),
		}
		begun := time.Now()
		s.createWith(store, "clean", known)
		s.newLoading("clean", "1.txt", files[0]).start().report()
		took := time.Since(begun)
		cut := 0
		for n := range kills {
			campaign := fmt.Sprintf("spring-%d", n)
			s.createWith(store, campaign, known)
			var all sync.WaitGroup
			for i, items := range files {
				l := s.newLoading(campaign, fmt.Sprintf("%d.txt", i), items).start()
				all.Go(func() {
					time.Sleep(rand.N(took)) // at any moment of the load
					l.kill()
				})
			}
			all.Wait()
			added := int64(len(known))
			for i, items := range files {
				file := filepath.Join(s.dir, fmt.Sprintf("%d.txt", i))
				var would dryRunReport
				s.json(&would, "load", campaign, file, "--dry-run")
				digest, _, _ := strings.Cut(would.LoadID, "#")
				latest, err := store.LatestLoad(s.Context(), campaign, digest)
				if err != nil {
					s.Fatal(err)
				}
				got := s.newLoading(campaign, filepath.Base(file), items).start().report()
				owned := s.owned(store, campaign, digest+"#000001", items)
				want := owned
				if latest != nil && latest.Finished {
					if itembank.Tally(latest.Tally) != owned {
						s.Errorf("a load that had finished has %+v, want %+v", latest.Tally, owned)
					}
					want = itembank.Tally{Rows: owned.Rows, Known: owned.Rows}
				} else if would.Resumed > 0 {
					cut++
				}
				if got.Tally != want || got != would.LoadReport {
					s.Errorf("want %+v, got %+v; the dry run said %+v", want, got, would)
				}
				added += owned.Added
			}
			if union := int64(len(distinct(append(files, known)...))); added != union {
				s.Errorf("of %d items %d were added", union, added)
			}
			s.onceEach(store, campaign, append(files, known)...)
		}
		s.Logf("of %d killed loads %d were on their way", 2*kills, cut)
	})
}

// TestLoadKilledAtEveryRequest: a process is killed at each of its requests, before the request has its effect, or
// after the effect and before the reply.
func TestLoadKilledAtEveryRequest(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	target := testengine.Dynoxide(t)
	s.env = append(localEngine(target), "ONCEBOX_BANK_TABLE=bank-"+cryptorand.Text(), "ONCEBOX_DEDUPE_TABLE=dedupe-"+cryptorand.Text())
	s.run(exitDone, "init")
	store := s.store()
	known := []string{"known-1", "known-2"}
	items := slices.Concat(numbered("code", 56), known, []string{"code-00000", "end", "end"})
	want := itembank.Tally{Rows: 61, Added: 57, Known: 2, Repeated: 2}
	finished := itembank.Tally{Rows: 61, Known: 61}

	through := func(campaign string, plan func(n int, operation string) faultproxy.Fault) (*loading, *faultproxy.Proxy) {
		s.createWith(store, campaign, known)
		proxy := faultproxy.New(t, target, plan)
		l := s.newLoading(campaign, "codes.txt", items)
		l.command.Env = append(l.command.Env, "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL)
		return l, proxy
	}
	clean, proxy := through("clean", func(int, string) faultproxy.Fault { return faultproxy.None })
	if got := clean.start().report(); got.Tally != want {
		t.Fatalf("want %+v, got %+v", want, got)
	}
	requests := proxy.Operations()
	last := slices.Index(requests, "PutItem") // the start of the load; the later ones are counts
	for last+1 < len(requests) && slices.Contains(requests[last+1:], "PutItem") {
		last += 1 + slices.Index(requests[last+1:], "PutItem")
	}
	for at, operation := range requests {
		for i, fault := range []faultproxy.Fault{faultproxy.Refuse, faultproxy.Drop} {
			campaign := fmt.Sprintf("killed-%d-%d", at, i)
			process := make(chan *os.Process, 1)
			l, _ := through(campaign, func(n int, _ string) faultproxy.Fault {
				if n < at {
					return faultproxy.None
				}
				if n == at {
					_ = (<-process).Kill()
				}
				return fault
			})
			process <- l.start().command.Process
			_ = l.command.Wait() // how it ended is checked next
			if code := l.command.ProcessState.ExitCode(); code != -1 {
				t.Fatalf("killed at request %d (%s), it ended with %d: %s", at, operation, code, l.stderr.String())
			}
			want := want
			if at > last || at == last && fault == faultproxy.Drop {
				want = finished
			}
			if got := s.newLoading(campaign, "codes.txt", items).start().report(); got.Tally != want {
				t.Errorf("killed at request %d (%s; %s): want %+v, got %+v", at, operation, fault, want, got)
			}
			s.onceEach(store, campaign, items)
		}
	}
	t.Logf("%d kills at %v", 2*len(requests), requests)
}

// TestLargeLoad: of 20,000 lines some are known and some are repeated. The dry run predicts the numbers of the load.
func TestLargeLoad(t *testing.T) {
	testengine.CheckOnly(t)
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring")
		codes := numbered("code", 19_000)
		s.run(exitDone, "load", "spring", s.file("known.txt", strings.Join(codes[:300], "\n")))
		items := slices.Concat(codes, codes[9_000:9_500], codes[18_600:], codes[:100]) // the last hundred are known
		file := s.file("codes.csv", "id,code\n0,"+strings.Join(items, "\n0,"))
		var would dryRunReport
		var did itembank.LoadReport
		s.json(&would, "load", "spring", file, "--column", "code", "--dry-run")
		s.json(&did, "load", "spring", file, "--column", "code")
		if want := (itembank.Tally{Rows: 20_000, Added: 18_700, Known: 400, Repeated: 900}); did.Tally != want || would.LoadReport != did {
			s.Errorf("want %+v, got %+v; the dry run said %+v", want, did, would)
		}
		s.counts(itembank.Counts{Loaded: 19_000, Free: 19_000})
	})
}

// TestLoadAgain: the items in their order identify a load. The same items again, in a file of any form, are the next
// load with that digest; another column is another load. Known items stay known.
func TestLoadAgain(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring")
		const table = "id,code,alias\r\n1,A-1,A-2\r\n2,A-2,A-1\r\n3,A-3,A-4\r\n"
		codes := s.file("codes.csv", table)
		first := itembank.Tally{Rows: 3, Added: 3}
		known := itembank.Tally{Rows: 3, Known: 3}
		digests := map[string]string{}
		for _, step := range []struct {
			args   []string
			load   string // names the items
			number string
			want   itembank.Tally
		}{
			{[]string{codes, "--column", "code"}, "code", "000001", first},
			{[]string{codes, "--column", "code"}, "code", "000002", known},
			{[]string{s.file("same.csv", "\xef\xbb\xbf\"code\",id\nA-1,\n\nA-2,\nA-3,"), "--column", "code"}, "code", "000003", known},
			{[]string{s.file("same.txt", "A-1\n\nA-2\r\nA-3")}, "code", "000004", known},
			{[]string{s.file("order.txt", "A-2\nA-1\nA-3")}, "order", "000001", known},
			{[]string{codes, "--column", "alias"}, "alias", "000001", itembank.Tally{Rows: 3, Added: 1, Known: 2}},
			{[]string{s.file("bare.csv", "1,A-2\n2,A-1\n3,A-4\n4,A-5\n"), "--column", "2"}, "without names", "000001", itembank.Tally{Rows: 4, Added: 1, Known: 3}},
			{[]string{codes, "--column", "id"}, "id", "000001", first},
			{[]string{codes, "--column", "code"}, "code", "000005", known},
		} {
			var would dryRunReport
			var did itembank.LoadReport
			s.json(&would, append([]string{"load", "spring", "--dry-run"}, step.args...)...)
			s.json(&did, append([]string{"load", "spring"}, step.args...)...)
			digest, number, _ := strings.Cut(did.LoadID, "#")
			if did.Tally != step.want || number != step.number || did.Resumed != 0 || would.LoadReport != did {
				s.Errorf("%v: want %+v in load %s, got %+v; the dry run said %+v", step.args, step.want, step.number, did, would)
			}
			if seen, ok := digests[step.load]; ok && seen != digest {
				s.Errorf("%v: want digest %s, got %s", step.args, seen, digest)
			}
			digests[step.load] = digest
		}
		if len(distinct(slices.Collect(maps.Values(digests)))) != len(digests) {
			s.Errorf("loads of other items share a digest: %v", digests)
		}
		s.counts(itembank.Counts{Loaded: 8, Free: 8})
	})
}
