package recordhandler_test

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// buckets makes the buckets lake and bad on an S3 server, and returns a loader for it.
func buckets(t *testing.T) func(context.Context) (aws.Config, error) {
	endpoint := testengine.S3(t, "lake", "bad")
	return func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "eu-central-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		}, nil
	}
}

// TestSnowplowIntoObjects: without further settings, enriched events of Snowplow are in objects of text.
func TestSnowplowIntoObjects(t *testing.T) {
	t.Parallel()
	load := buckets(t)
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_FORMAT=snowplow", "ONCEBOX_SINK=s3://lake/enriched/", "ONCEBOX_DEAD_LETTERS=s3://bad/x",
	})
	must(t, err)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	raw, err := os.ReadFile("../../events/dedupe/snowplow.json")
	must(t, err)
	for _, c := range []struct {
		format objectsink.Format
		sent   int64
	}{{o.Sink.Objects.Format, 3}, {"", 0}} { // a program may leave it empty
		o.Sink.Objects.Format = c.format
		h, err := recordhandler.Open(t.Context(), load, store, o, slog.New(slog.DiscardHandler))
		must(t, err)
		result, err := h.Deliver(t.Context(), raw)
		must(t, err)
		equal(t, "records into objects", result.Tally.Out, c.sent)
		must(t, h.Close())
	}
	client, err := objectsink.NewS3Client(t.Context(), load)
	must(t, err)
	objects := 0
	must(t, objectsink.List(t.Context(), objectsink.NewBucket(client, "lake", "enriched/"), objectsink.Filter{},
		func(_ objectsink.Entry, err error) error {
			objects++
			return err
		}))
	equal(t, "objects", objects, 1)

	o.Sink.Objects.Format = objectsink.NDJSON
	if _, err := recordhandler.Open(t.Context(), load, store, o, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a function was opened whose records would all be dead letters")
	}
}

// TestOpenBucket: the function writes objects, and finds out from them which records are done.
func TestOpenBucket(t *testing.T) {
	t.Parallel()
	load := buckets(t)
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=s3://lake/events/?compression=none", "ONCEBOX_DEAD_LETTERS=s3://bad/x",
	})
	must(t, err)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	for _, skipped := range []int64{0, 4} { // the second time in a new container
		h, err := recordhandler.Open(t.Context(), load, store, o, slog.New(slog.DiscardHandler))
		must(t, err)
		result, err := h.Deliver(t.Context(), rawOf(t, event(`{"id":"a"}`, `{"id":"a"}`, `poison`, `{"id":"b"}`)))
		must(t, err)
		equal(t, "skipped", result.Tally.Skipped, skipped)
		must(t, h.Close())
	}
	client, err := objectsink.NewS3Client(t.Context(), load)
	must(t, err)
	storage := objectsink.NewBucket(client, "lake", "events/")
	v, err := objectsink.Verify(t.Context(), storage, objectsink.Filter{}, func(p objectsink.Problem) { t.Error(p) })
	must(t, err)
	equal(t, "records", v.Records, 2)
	equal(t, "objects", v.Objects, 1)
}
