package deadletter_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// isTagged reports whether a lifecycle rule of the stack would expire an object.
func isTagged(t *testing.T, client *s3.Client, key string) bool {
	t.Helper()
	got, err := client.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: aws.String("bucket"), Key: &key})
	must(t, err)
	for _, tag := range got.TagSet {
		if *tag.Key == deadletter.DoneTag && *tag.Value == deadletter.DoneValue {
			return true
		}
	}
	return false
}

// TestDoneLettersAreTagged kills MarkDone after each of its requests: a letter with a marker has the tag, so it expires.
// Markers and letters that are not done have none.
func TestDoneLettersAreTagged(t *testing.T) {
	t.Parallel()
	for requests := range 3 {
		client := versioned(t)
		create(t, deadletter.NewBucket(client, "bucket", "p/"), "dir/x", "dir/y")
		killed := deadletter.NewArchive(deadletter.NewBucket(&mortal{client, requests}, "bucket", "p/"))
		if _, err := killed.MarkDone(t.Context(), "dir/x", deadletter.Marker{}); err == nil {
			t.Error("it was not killed")
		}
		a := deadletter.NewArchive(deadletter.NewBucket(client, "bucket", "p/"))
		marker, err := a.Done(t.Context(), "dir/x")
		must(t, err)
		if tagged := isTagged(t, client, "p/dir/x"); tagged != (requests > 0) || (marker != nil) != (requests > 1) {
			t.Errorf("after %d requests: tagged %v, marker %v", requests, tagged, marker)
		}
		_, err = a.MarkDone(t.Context(), "dir/x", deadletter.Marker{})
		must(t, err)
		if !isTagged(t, client, "p/dir/x") || isTagged(t, client, "p/dir/y") || isTagged(t, client, "p/dir/done/x") {
			t.Error("other objects are tagged")
		}
		_, err = a.MarkDone(t.Context(), "of a file", deadletter.Marker{}) // it has no object
		must(t, err)
	}
}

type untagging struct{ deadletter.S3 }

func (*untagging) PutObjectTagging(
	context.Context, *s3.PutObjectTaggingInput, ...func(*s3.Options),
) (*s3.PutObjectTaggingOutput, error) {
	return nil, coded("AccessDenied")
}

// TestUntaggedLetter: a letter that could not be tagged is done all the same, and the error says what is missing.
func TestUntaggedLetter(t *testing.T) {
	t.Parallel()
	client := newClient(t, "bucket")
	create(t, deadletter.NewBucket(client, "bucket", ""), "x")
	a := deadletter.NewArchive(deadletter.NewBucket(&untagging{client}, "bucket", ""))
	_, err := a.MarkDone(t.Context(), "x", deadletter.Marker{})
	if !errors.Is(err, deadletter.ErrUntagged) || !strings.Contains(err.Error(), "s3:PutObjectTagging") {
		t.Errorf("got %v", err)
	}
	if marker, err := a.Done(t.Context(), "x"); err != nil || marker == nil {
		t.Errorf("marker %v, %v", marker, err)
	}
}
