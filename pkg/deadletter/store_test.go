package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// places returns an Objects of each kind.
func places(t *testing.T) map[string]deadletter.Objects {
	t.Helper()
	folder, err := deadletter.NewFolder(filepath.Join(t.TempDir(), "dead"))
	must(t, err)
	client := newClient(t, "bucket")
	return map[string]deadletter.Objects{
		"folder":             folder,
		"bucket":             deadletter.NewBucket(client, "bucket", ""),
		"bucket with prefix": deadletter.NewBucket(client, "bucket", "a/b c/"),
	}
}

func newClient(t *testing.T, buckets ...string) *s3.Client {
	t.Helper()
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(testengine.S3(t, buckets...)), Region: "eu-west-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), Retryer: aws.NopRetryer{},
	})
}

func newLetter(sequence string) dedupe.DeadLetter {
	p := dedupe.Position{
		Stream: dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"},
		Shard:  "shardId-000000000000", Sequence: sequence, Sub: 3,
	}
	return dedupe.DeadLetter{
		Owner: p.Owner().String(), Scope: "orders", Position: p, Reason: "no id", PartitionKey: "key",
		Arrival: time.Date(2026, 11, 20, 1, 2, 3, 456_000_000, time.UTC), Data: []byte("payload \x00\xff\n"),
	}
}

// nameOf returns the name of the object of a record.
func nameOf(letter dedupe.DeadLetter) string {
	return deadletter.Name(letter.Scope, letter.Owner, letter.Data)
}

// put stores one record.
func put(t *testing.T, store *deadletter.Store, letter dedupe.DeadLetter) error {
	t.Helper()
	stored, err := store.Put(t.Context(), []dedupe.DeadLetter{letter})
	if stored != 1 && err == nil || stored != 0 && err != nil {
		t.Errorf("stored %d, %v", stored, err)
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestObjectsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	for name, objects := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := objects.Read(t.Context(), "one"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("before: %v", err)
			}
			for i, want := range []bool{true, false, false} {
				created, err := objects.Create(t.Context(), "one", fmt.Append(nil, i))
				if created != want || err != nil {
					t.Errorf("create %d: %t, %v", i, created, err)
				}
			}
			if got, err := objects.Read(t.Context(), "one"); string(got) != "0" || err != nil {
				t.Errorf("read: %q, %v", got, err)
			}
		})
	}
}

func TestOneOfManyCreatesAnObject(t *testing.T) {
	t.Parallel()
	for name, objects := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for round := range 20 {
				var all sync.WaitGroup
				start := make(chan struct{})
				created := make([]bool, 16)
				for i := range created {
					all.Go(func() {
						var err error
						<-start
						created[i], err = objects.Create(t.Context(), fmt.Sprint("n", round), fmt.Append(nil, i))
						if err != nil {
							t.Error(err)
						}
					})
				}
				close(start)
				all.Wait()
				got, err := objects.Read(t.Context(), fmt.Sprint("n", round))
				must(t, err)
				for i, did := range created {
					if did != (string(got) == fmt.Sprint(i)) {
						t.Errorf("create %d says %t, and there is what %s wrote", i, did, got)
					}
				}
			}
		})
	}
}

func TestEndedContextCreatesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, objects := range places(t) {
		if _, err := objects.Create(ctx, "one", nil); !errors.Is(err, context.Canceled) ||
			errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: create: %v", name, err)
		}
		if _, err := objects.Read(ctx, "one"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: read: %v", name, err)
		}
		if _, err := objects.Read(t.Context(), "one"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// TestPut: a record is read back unchanged. Another Put of it with another reason changes nothing. Two records that
// share an owner are both stored.
func TestPut(t *testing.T) {
	t.Parallel()
	for name, objects := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := deadletter.New(objects)
			f := newLetter("49590338271490256608559692538361571095921575989136588898")
			f.Data = append(f.Data, make([]byte, 2<<20)...)
			must(t, put(t, store, f))
			again := f
			again.Reason = "another"
			must(t, put(t, store, again))
			got, err := store.Read(t.Context(), nameOf(f))
			must(t, err)
			checkSame(t, got, f)
			other := f // as in an aggregate that Lambda has opened
			other.Data = []byte("other data of one owner")
			must(t, put(t, store, other))
			got, err = store.Read(t.Context(), nameOf(other))
			must(t, err)
			checkSame(t, got, other)
		})
	}
}

// crowded counts the creations that are in progress at the same time.
type crowded struct {
	deadletter.Objects
	fails string // the name of the object that fails
	mu    sync.Mutex
	now   int
	most  int // of now
	begun int
}

func (c *crowded) Create(_ context.Context, name string, _ []byte) (bool, error) {
	c.count(1)
	time.Sleep(time.Millisecond) // in the bubble: all that may begin do
	c.count(-1)
	if name == c.fails {
		return false, dedupe.ErrTryAgain
	}
	return true, nil
}

func (c *crowded) count(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += by
	c.most = max(c.most, c.now)
	if by > 0 {
		c.begun++
	}
}

// TestPutMany: Put stores as many records at the same time as the option says. It counts the records before the first
// failure, and begins at most one record after it.
func TestPutMany(t *testing.T) {
	t.Parallel()
	const records, atATime, broken = 200, 7, 60
	letters := make([]dedupe.DeadLetter, records)
	for i := range letters {
		letters[i] = newLetter(fmt.Sprint(i))
	}
	synctest.Test(t, func(t *testing.T) {
		objects := &crowded{}
		stored, err := deadletter.New(objects, deadletter.WithConcurrency(atATime)).Put(t.Context(), letters)
		if stored != records || err != nil || objects.most != atATime || objects.begun != records {
			t.Errorf("stored %d of %d, %d at a time: %v", stored, objects.begun, objects.most, err)
		}
		objects = &crowded{fails: nameOf(letters[broken])}
		stored, err = deadletter.New(objects, deadletter.WithConcurrency(atATime)).Put(t.Context(), letters)
		if stored != broken || !errors.Is(err, dedupe.ErrTryAgain) || objects.begun > broken+2*atATime {
			t.Errorf("with a failure at %d: stored %d of %d begun: %v", broken, stored, objects.begun, err)
		}
	})
	if stored, err := deadletter.New(&crowded{}).Put(t.Context(), nil); stored != 0 || err != nil {
		t.Errorf("no records: stored %d, %v", stored, err)
	}
}

// TestRecordsWithoutOwner: they are refused. Otherwise all would have the same name, and the second would count as
// stored.
func TestRecordsWithoutOwner(t *testing.T) {
	t.Parallel()
	store := deadletter.New(places(t)["bucket"])
	f := newLetter("1")
	f.Owner = ""
	if err := put(t, store, f); err == nil || errors.Is(err, dedupe.ErrTryAgain) {
		t.Errorf("stored: %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	// The name must never change, because programs find objects by it.
	letter := newLetter("49590338271490256608559692538361571095921575989136588898")
	letter.Data = []byte("data")
	inScope := nameOf(letter)
	letter.Scope = "another"
	if another := nameOf(letter); another == inScope || another[:100] != inScope[:100] {
		t.Errorf("in two scopes: %s and %s", inScope, another)
	}
	letter.Scope = ""
	const want = "123456789012_eu-west-1_orders_shardId-000000000000_" +
		"49590338271490256608559692538361571095921575989136588898_3-106383dac5d5f84971d428b39145bbe9.json"
	if got := nameOf(letter); got != want {
		t.Errorf("got %s", got)
	}
	names := map[string]string{}
	for _, parts := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", ""}} {
		names[strings.ToLower(deadletter.Name("", parts[0], []byte(parts[1])))] = parts[0]
	}
	if len(names) != 3 {
		t.Error("the end of an owner is taken for the begin of the data")
	}
	for _, owner := range []string{
		"a", "A", "a/b", "a#b", "a_b", "a%b", "a\\b", "a\nb", "..", "../a", ".", "/", "-", "é", "e\u0301", "\xff", "\xfe",
		"NUL", strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("/", 5000),
	} {
		name := deadletter.Name("", owner, nil)
		folded := strings.ToLower(name)
		if other, taken := names[folded]; taken {
			t.Errorf("%q and %q have one name", owner, other)
		}
		names[folded] = owner
		if len(name) > 200 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" ||
			strings.Contains(name, "..") {
			t.Errorf("%q has the name %q", owner, name)
		}
	}
}

// recorder is a notifier that collects notifications and can fail.
type recorder struct {
	mu            sync.Mutex
	notifications []deadletter.Notification
	err           error
}

func (r *recorder) Notify(_ context.Context, n deadletter.Notification) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notifications = append(r.notifications, n)
	return r.err
}

func TestOnlyNewObjectsAreNotified(t *testing.T) {
	t.Parallel()
	for name, objects := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notifier := &recorder{}
			store := deadletter.New(objects,
				deadletter.WithNotifier(notifier, func(n deadletter.Notification, err error) { t.Error(n, err) }))
			for _, sequence := range []string{"1", "2", "1"} {
				must(t, put(t, store, newLetter(sequence)))
			}
			if len(notifier.notifications) != 2 {
				t.Fatalf("notifications: %+v", notifier.notifications)
			}
			second := newLetter("2")
			want := deadletter.Notification{Place: objects.Place(nameOf(second)), Owner: second.Owner, Reason: "no id"}
			if notifier.notifications[1] != want || want.Place == (deadletter.Place{}) {
				t.Errorf("got %+v, want %+v", notifier.notifications[1], want)
			}
		})
	}
}

// TestFailingNotifier: a failing notifier fails no record, and is not tried for every record.
func TestFailingNotifier(t *testing.T) {
	t.Parallel()
	objects := places(t)["folder"]
	notifier := &recorder{err: errors.New("queue down")}
	var unsent []error
	store := deadletter.New(objects, deadletter.WithNotifier(notifier, func(n deadletter.Notification, err error) {
		unsent = append(unsent, fmt.Errorf("%s: %w", n.Owner, err))
	}))
	now := time.Unix(1_800_000_000, 0)
	store.SetNow(func() time.Time { return now })
	for i := range 10 {
		must(t, put(t, store, newLetter(fmt.Sprint(i))))
	}
	if len(notifier.notifications) != 1 || len(unsent) != 10 || !errors.Is(unsent[0], notifier.err) ||
		!errors.Is(unsent[9], deadletter.ErrNotifyPaused) {
		t.Errorf("%d notifications, unsent: %v", len(notifier.notifications), unsent)
	}
	now, notifier.err = now.Add(deadletter.NotifyPause), nil
	must(t, put(t, store, newLetter("10")))
	if len(notifier.notifications) != 2 || len(unsent) != 10 {
		t.Errorf("after the pause: %d notifications, unsent: %v", len(notifier.notifications), unsent)
	}
	for i := range 11 {
		_, err := store.Read(t.Context(), nameOf(newLetter(fmt.Sprint(i))))
		must(t, err)
	}
}

// failing is an Objects whose Create fails.
type failing struct {
	deadletter.Objects
	err error
}

func (f failing) Create(context.Context, string, []byte) (bool, error) { return true, f.err }

// TestFailedPut: the record is neither stored nor notified.
func TestFailedPut(t *testing.T) {
	t.Parallel()
	notifier := &recorder{}
	store := deadletter.New(failing{err: dedupe.ErrTryAgain}, deadletter.WithNotifier(notifier, nil))
	if err := put(t, store, newLetter("1")); !errors.Is(err, dedupe.ErrTryAgain) || len(notifier.notifications) != 0 {
		t.Errorf("%v, %d notifications", err, len(notifier.notifications))
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{file, filepath.Join(dir, "none", "dead"), ""} {
		if _, err := deadletter.NewFolder(path); err == nil {
			t.Errorf("%q was accepted", path)
		}
	}
	path := filepath.Join(dir, "dead")
	folder, err := deadletter.NewFolder(path)
	must(t, err)
	_, err = deadletter.NewFolder(path)
	must(t, err)
	// A file that was left by a crash does not count.
	must(t, os.WriteFile(filepath.Join(path, ".incomplete-1"), []byte(`{"ha`), 0o600))
	created, err := folder.Create(t.Context(), "x.json", []byte("{}"))
	if !created || err != nil {
		t.Errorf("%t, %v", created, err)
	}
	entries, err := os.ReadDir(path)
	must(t, err)
	info, err := os.Stat(filepath.Join(path, "x.json"))
	must(t, err)
	if len(entries) != 2 || info.Mode().Perm() != 0o600 {
		t.Errorf("the folder holds %v, the file has mode %v", entries, info.Mode())
	}
	if _, err := folder.Read(t.Context(), "../file"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read outside of the folder: %v", err)
	}
	must(t, os.Rename(path, path+".old"))
	if created, err := folder.Create(t.Context(), "y.json", nil); created || err == nil ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("folder gone: %t, %v", created, err)
	}
}
