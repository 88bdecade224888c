package objectfault

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/oncebox/oncebox/internal/memobjects"
	"github.com/oncebox/oncebox/internal/mutanttest"
	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

var (
	oneSeed = flag.Int("seed", -1, "TestHistories plays the history of this seed alone")
	seeds   = flag.Int("seeds", 0, "how many histories TestHistories plays; by default 3,000, or 150 with -short")
)

// inMemory returns a storage whose listings have pages of several sizes.
func inMemory(seed uint64) objectsink.Storage {
	s := memobjects.New()
	s.Page = []int{1, 3, 1000}[seed%3]
	return s
}

// TestHistoriesOnS3 plays some of the histories on an S3 server.
func TestHistoriesOnS3(t *testing.T) {
	t.Parallel()
	plays := uint64(100)
	if testing.Short() {
		plays = 10
	}
	endpoint := testengine.S3(t, "bucket")
	client, err := objectsink.NewS3Client(t.Context(), func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range plays {
		if err := play(seed, nil, objectsink.NewBucket(client, "bucket", fmt.Sprint("seed-", seed, "/"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHistories plays random histories. A seed always plays the same history.
func TestHistories(t *testing.T) {
	t.Parallel()
	first, plays := 0, cmp.Or(*seeds, 3000)
	switch {
	case *oneSeed >= 0:
		first, plays = *oneSeed, 1
	case *seeds == 0 && testing.Short():
		plays = 150
	}
	for seed := uint64(first); seed < uint64(first+plays); seed++ {
		if err := play(seed, nil, inMemory(seed)); err != nil {
			t.Fatal(err)
		}
	}
}

// mostPlays is the number of histories after which a mutant counts as not found.
const mostPlays = 3000

// TestMutants checks that the histories find each broken rule, and that the named case of the conformance suite finds
// it, too.
func TestMutants(t *testing.T) {
	for _, m := range Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if m.Case != "" {
				caseMustFail(t, m)
			}
			for seed := range uint64(mostPlays) {
				if err := play(seed, &m, inMemory(seed)); err != nil {
					violation, _, _ := strings.Cut(err.Error(), "\n")
					t.Logf("found by history %d: %s", seed+1, violation)
					return
				}
			}
			t.Errorf("%d histories do not find it", mostPlays)
		})
	}
}

func caseMustFail(t *testing.T, m Mutant) {
	cases := sinktest.ObjectCases()
	i := slices.IndexFunc(cases, func(c sinktest.ObjectCase) bool { return c.Name == m.Case })
	if i < 0 {
		t.Fatalf("there is no case %q", m.Case)
	}
	storage := inMemory(0)
	open := func() dedupe.ObjectSink {
		used := storage
		if m.Hook != nil {
			used = memobjects.Hooked(storage, m.Hook)
		}
		sink, err := objectsink.New(used, objectsink.Options{
			Encoding: objectsink.Encoding{Compression: objectsink.Uncompressed},
		})
		if err != nil {
			t.Fatal(err)
		}
		if m.Sink != nil {
			return m.Sink(sink, used)
		}
		return sink
	}
	mutanttest.MustFail(t, func(tb testing.TB) {
		cases[i].Run(tb, sinktest.ObjectStore{Open: open, Read: func() []string { return linesOf(tb, storage) }})
	})
}

// linesOf returns the lines of all objects.
func linesOf(tb testing.TB, storage objectsink.Storage) (lines []string) {
	tb.Helper()
	keys, err := (&world{objects: storage}).allKeys(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	for _, key := range keys {
		if strings.Contains(key, "/_") {
			continue
		}
		o, err := storage.Get(context.Background(), key)
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(string(o.Body), "\n"), "\n")...)
	}
	return lines
}
