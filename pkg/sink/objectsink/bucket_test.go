package objectsink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// TestFaultsAtTheWire breaks each request in every way, once and for all attempts. The batch is repeated until it is
// done, each time in a new container. Each record is then in one object.
func TestFaultsAtTheWire(t *testing.T) {
	t.Parallel()
	for _, fault := range faultproxy.OfS3() {
		for at := range 9 {
			for _, times := range []int{1, 5} {
				t.Run(fmt.Sprintf("%s/%d/%d", fault, at, times), func(t *testing.T) {
					t.Parallel()
					faultAtTheWire(t, func(n int, _ string) faultproxy.Fault {
						if n >= at && n < at+times {
							return fault
						}
						return ""
					})
				})
			}
		}
	}
}

func faultAtTheWire(t *testing.T, plan func(int, string) faultproxy.Fault) {
	endpoint := testengine.S3(t, "bucket")
	proxy, stop := faultproxy.StartS3(endpoint, plan)
	defer stop()
	client := newClient(t, proxy.URL)
	for attempt := 0; ; attempt++ {
		bucket := objectsink.NewBucket(client, "bucket", "p/")
		bucket.SetWait(func(context.Context, int) error { return nil })
		err := commitBatch(t, newSink(t, bucket, objectsink.Options{ObjectSize: 16, HintEvery: 1}))
		if err == nil {
			break
		}
		if !errors.Is(err, dedupe.ErrTryAgain) || attempt == 3 {
			t.Fatal(err)
		}
	}
	lines := readAll(t, objectsink.NewBucket(newClient(t, endpoint), "bucket", "p/"))
	slices.Sort(lines)
	equal(t, "records", strings.Join(lines, " "), `{"n":1} {"n":2} {"n":3} {"n":4} {"n":5}`)
}

func commitBatch(t *testing.T, s *objectsink.Sink) error {
	all := records(1, 2, 3, 4, 5)
	chain, err := s.Open(t.Context(), key, "1", "5")
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(all, func(r dedupe.ChainRecord) bool { return chain.Done(r.Sequence) })
	_, err = chain.Commit(t.Context(), rest)
	return err
}

// TestWrongSettings: a missing bucket is not dedupe.ErrTryAgain.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	bucket := objectsink.NewBucket(newClient(t, testengine.S3(t)), "nowhere", "p/")
	_, err := newSink(t, bucket, objectsink.Options{}).Open(t.Context(), key, "1", "1")
	if err == nil || errors.Is(err, dedupe.ErrTryAgain) ||
		!strings.Contains(err.Error(), "object sink s3://nowhere/p: get object: the bucket does not exist") {
		t.Errorf("got %v", err)
	}
}
