package main

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// erased is the result of redrive erase.
type erased struct {
	DryRun                    bool `json:"dry_run"`
	Done                      bool
	Letter, Attempts, Markers int
	Copies                    []string
}

// TestRedriveErase: a letter is erased for good. The command refuses what would lose a record, and can be repeated.
func TestRedriveErase(t *testing.T) {
	s := newRedriveShell(t, 2)
	name := func(n int) string {
		l := deadLetter(n, time.Time{})
		return deadletter.Name(l.Scope, l.Owner, l.Data)
	}
	s.env = append(s.env, "ONCEBOX_ID_PATH=order.id")
	s.run(exitDone, "redrive", "run", "--name", name(0))
	s.run(exitUsage, "redrive", "erase", name(0)).saying(t, "there is no terminal", "--yes")
	s.run(exitUsage, "redrive", "erase", "done/"+name(0), "--yes").saying(t, "this is not the name of a letter")
	s.run(exitDone, "redrive", "erase", name(0), "--dry-run").saying(t, "would remove the letter in 1 version, 1 attempt, 1 marker")
	s.run(exitDone, "redrive", "list").saying(t, "pending 1, done 1")
	s.run(exitDone, "redrive", "erase", name(0), "--yes").
		saying(t, "removed the letter in 1 version, 1 attempt, 1 marker", "may still have the record", "redrive export", "the destination")
	for _, none := range []string{name(0), "ordres/" + name(1)} { // erased before, and mistyped
		s.run(exitNo, "redrive", "erase", none, "--yes").saying(t, none+": nothing is stored under this name", "redrive list")
	}

	for _, more := range [][]string{{"--yes"}, {"--dry-run"}} {
		s.run(exitNo, append([]string{"redrive", "erase", name(1)}, more...)...).saying(t, "the letter is not done", "--undelivered")
	}
	folder, err := deadletter.NewFolder(s.dir + "/failed")
	if err != nil {
		t.Fatal(err)
	}
	killed := deadletter.Runner{Run: "abc", By: "a test"}
	if _, err := deadletter.NewArchive(folder).Begin(t.Context(), name(1), killed, time.Now()); err != nil {
		t.Fatal(err)
	}
	undelivered := []string{"redrive", "erase", name(1), "--undelivered", "--yes"}
	s.run(exitNo, undelivered...).saying(t, "another run has begun the letter: the run abc (a test)", "--take-over abc")
	s.run(exitDone, "redrive", "list").saying(t, "begun 1")
	s.run(exitDone, append(undelivered, "--take-over", "abc")...).saying(t, "removed the letter in 1 version, 2 attempts, 1 marker")
	s.run(exitDone, "redrive", "run").saying(t, "done 0")
	if ids := s.delivered(); len(ids) != 1 || ids["order-0"] != 1 {
		t.Errorf("delivered %v", ids)
	}
}

// TestRedriveEraseVersions: in a bucket with versions, no version of the letter is left.
func TestRedriveEraseVersions(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	endpoint := testengine.S3(t, "dead")
	s.env = append(localEngine("http://127.0.0.1:1"), "AWS_ENDPOINT_URL_S3="+endpoint)
	client := s3.New(s3.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	bucket := aws.String("dead")
	_, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := deadLetter(1, time.Now())
	content, err := deadletter.Encode(l)
	if err != nil {
		t.Fatal(err)
	}
	name := "poison/orders/" + deadletter.Name(l.Scope, l.Owner, l.Data)
	objects := deadletter.NewBucket(client, "dead", "")
	for range 2 { // a person deletes the object, and the function stores it again
		if _, err := objects.Create(t.Context(), name, content); err != nil {
			t.Fatal(err)
		}
		if _, err := client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: &name}); err != nil {
			t.Fatal(err)
		}
	}
	var got erased
	s.json(&got, "redrive", "erase", name, "s3://dead", "--undelivered", "--yes")
	if got.Letter != 4 || got.Attempts != 1 || got.Markers != 1 || got.Done || got.DryRun || len(got.Copies) < 4 {
		t.Errorf("%+v", got)
	}
	if left, err := objects.Versions(t.Context(), ""); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
