package main

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// TestObjects checks that list shows the objects of each shard, and that verify finds missing, repeated and damaged
// records.
func TestObjects(t *testing.T) {
	s := newShell(t)
	endpoint := testengine.S3(t, "lake")
	s.env = []string{
		"AWS_ENDPOINT_URL_S3=" + endpoint, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s",
	}
	ctx := t.Context()
	client, err := objectsink.NewS3Client(ctx, func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		}, nil
	})
	noError(t, err)
	sink, err := objectsink.New(objectsink.NewBucket(client, "lake", "events/"), objectsink.Options{})
	noError(t, err)
	key := dedupe.ChainKey{
		Scope: "orders", Stream: dedupe.Stream{Account: "123456789012", Region: "us-east-1", Name: "orders"}, Shard: "shard-1",
	}
	for _, sequence := range []string{"1", "5", "3", "12"} {
		chain, err := sink.Open(ctx, key, sequence, sequence)
		noError(t, err)
		outputs := []dedupe.Output{{Data: []byte(`{"n":` + sequence + `}`)}}
		_, err = chain.Commit(ctx, []dedupe.ChainRecord{{Sequence: sequence, Outputs: outputs}})
		noError(t, err)
	}
	_, err = sink.CommitLetter(ctx, key, "x.json", []dedupe.Output{{Data: []byte(`{"n":2}`)}})
	noError(t, err)

	lines := strings.Split(strings.TrimSpace(s.run(exitDone, "objects", "list", "s3://lake/events").stdout), "\n")
	const folder = "scope=orders/stream=123456789012.us-east-1.orders/shard=shard-1/"
	for i, want := range []string{
		"001-0-00000000.ndjson.gz\t1\t1\t1\t8\t", "001-1-00000000.ndjson.gz\t5\t5\t", "001-5-00000000.ndjson.gz\t3\t3\t",
		"001-5-00000001.ndjson.gz\t12\t12\t", "letter-x.ndjson.gz\t-\t-\t1\t8\t",
	} {
		if len(lines) != 5 || !strings.HasPrefix(lines[i], folder+want) {
			t.Errorf("want line %d to begin with %q, got %q", i+1, folder+want, lines)
		}
	}
	s.run(exitDone, "objects", "verify", "s3://lake/events/").saying(t,
		"shards 1, objects 5, records 5, bytes 41, late 1, dead letters 1, chains with moved objects 0")
	s.run(exitDone, "objects", "verify", "s3://lake/events", "--shard", "shard-2").saying(t, "objects 0")
	s.run(exitUsage, "objects", "verify", "dir:x").saying(t, "s3://BUCKET/PREFIX")

	for _, damage := range []struct {
		says string
		do   func()
	}{
		{"objects are missing before it", func() { remove(t, client, "events/"+folder+"001-1-00000000.ndjson.gz") }},
		{"there is another object of this position", func() {
			copyObject(t, client, "events/"+folder+"001-5-00000001.ndjson.gz", "events/"+folder+"001-5-00000001.txt.gz")
		}},
		{"foreign.ndjson", func() {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String("lake"), Key: aws.String("events/" + folder + "foreign.ndjson"), Body: strings.NewReader("{}\n"),
			})
			noError(t, err)
		}},
	} {
		damage.do()
		s.run(exitLook, "objects", "verify", "s3://lake/events").saying(t, damage.says)
	}
	s.run(exitLook, "objects", "list", "s3://lake/events").saying(t, "not of a sink: 1")
}

func remove(t *testing.T, client *s3.Client, key string) {
	t.Helper()
	_, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("lake"), Key: &key})
	noError(t, err)
}

func copyObject(t *testing.T, client *s3.Client, from, to string) {
	t.Helper()
	_, err := client.CopyObject(t.Context(), &s3.CopyObjectInput{
		Bucket: aws.String("lake"), CopySource: aws.String("lake/" + from), Key: &to,
	})
	noError(t, err)
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
