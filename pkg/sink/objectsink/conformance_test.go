package objectsink_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

func newClient(t testing.TB, endpoint string) *s3.Client {
	t.Helper()
	client, err := objectsink.NewS3Client(t.Context(), func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newSink(t testing.TB, storage objectsink.Storage, o objectsink.Options) *objectsink.Sink {
	t.Helper()
	sink, err := objectsink.New(storage, o)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// readAll returns the lines of all objects that a reader finds.
func readAll(t testing.TB, storage objectsink.Storage) (lines []string) {
	t.Helper()
	err := objectsink.List(context.Background(), storage, objectsink.Filter{}, func(e objectsink.Entry, err error) error {
		if err != nil {
			t.Errorf("%s: %v", e.Key, err)
			return nil
		}
		o, err := storage.Get(context.Background(), e.Key)
		if err != nil {
			return err
		}
		lines = append(lines, linesOf(t, o)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func linesOf(t testing.TB, o objectsink.Content) (lines []string) {
	t.Helper()
	var r io.Reader = bytes.NewReader(o.Body)
	var err error
	switch o.Type {
	case "application/gzip":
		r, err = gzip.NewReader(r)
	case "application/zstd":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		lines = append(lines, scan.Text())
	}
	if scan.Err() != nil {
		t.Fatal(scan.Err())
	}
	return lines
}

// inMoto is a bucket of moto, an independent S3 server.
func inMoto(t testing.TB) objectsink.Storage {
	t.Helper()
	client := newClient(t, testengine.CloudFormation(t)) // all services of moto
	bucket := "b-" + strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	return objectsink.NewBucket(client, bucket, "")
}

// TestConformance runs the suite in memory and on two S3 servers, with all encodings and small pages, objects and hints.
func TestConformance(t *testing.T) {
	t.Parallel()
	storages := map[string]func(testing.TB) objectsink.Storage{
		"memory": func(testing.TB) objectsink.Storage {
			s := memobjects.New()
			s.Page = 2
			return s
		},
		"s3": func(t testing.TB) objectsink.Storage {
			return objectsink.NewBucket(newClient(t, testengine.S3(t, "bucket")), "bucket", "some/prefix/")
		},
	}
	options := []objectsink.Options{
		{},
		{Encoding: objectsink.Encoding{Format: objectsink.Raw, Compression: objectsink.Zstd}, ObjectSize: 1, HintEvery: 1},
		{Encoding: objectsink.Encoding{Compression: objectsink.Uncompressed}, ObjectSize: 20, HintEvery: 2},
	}
	if !testing.Short() {
		storages["moto"] = inMoto
	}
	for name, open := range storages {
		for i, o := range options {
			t.Run(fmt.Sprint(name, "/", i), func(t *testing.T) {
				t.Parallel()
				sinktest.Objects(t, func(t testing.TB) sinktest.ObjectStore {
					storage := open(t)
					return sinktest.ObjectStore{
						Open: func() dedupe.ObjectSink { return newSink(t, storage, o) },
						Read: func() []string { return readAll(t, storage) },
					}
				})
			})
		}
	}
}
