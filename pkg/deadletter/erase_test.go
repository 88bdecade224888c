package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// versioned returns a bucket with versioning.
func versioned(t *testing.T) *s3.Client {
	t.Helper()
	client := newClient(t, "bucket")
	_, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket:                  aws.String("bucket"),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	must(t, err)
	return client
}

var errKilled = errors.New("killed")

// mortal is a client whose process is killed after a number of requests: the last one has its effect, and no reply.
type mortal struct {
	deadletter.S3
	left int
}

func killable[In, Out any](
	m *mortal, call func(context.Context, In, ...func(*s3.Options)) (Out, error),
	ctx context.Context, in In, options []func(*s3.Options),
) (out Out, err error) {
	m.left--
	if m.left >= 0 {
		out, err = call(ctx, in, options...)
	}
	if m.left <= 0 {
		err = errKilled
	}
	return out, err
}

func (m *mortal) PutObject(
	ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options),
) (*s3.PutObjectOutput, error) {
	return killable(m, m.S3.PutObject, ctx, in, options)
}

func (m *mortal) GetObject(
	ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options),
) (*s3.GetObjectOutput, error) {
	return killable(m, m.S3.GetObject, ctx, in, options)
}

func (m *mortal) ListObjectsV2(
	ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options),
) (*s3.ListObjectsV2Output, error) {
	return killable(m, m.S3.ListObjectsV2, ctx, in, options)
}

func (m *mortal) ListObjectVersions(
	ctx context.Context, in *s3.ListObjectVersionsInput, options ...func(*s3.Options),
) (*s3.ListObjectVersionsOutput, error) {
	return killable(m, m.S3.ListObjectVersions, ctx, in, options)
}

func (m *mortal) DeleteObject(
	ctx context.Context, in *s3.DeleteObjectInput, options ...func(*s3.Options),
) (*s3.DeleteObjectOutput, error) {
	return killable(m, m.S3.DeleteObject, ctx, in, options)
}

func (m *mortal) PutObjectTagging(
	ctx context.Context, in *s3.PutObjectTaggingInput, options ...func(*s3.Options),
) (*s3.PutObjectTaggingOutput, error) {
	return killable(m, m.S3.PutObjectTagging, ctx, in, options)
}

// history is what happened to the letter dir/x before it is erased.
type history struct {
	t      *testing.T
	client *s3.Client
	a      *deadletter.Archive
}

func (h history) put(content string) {
	_, err := h.client.PutObject(h.t.Context(), &s3.PutObjectInput{
		Bucket: aws.String("bucket"), Key: aws.String("dir/x"), Body: strings.NewReader(content),
	})
	must(h.t, err)
}

func (h history) remove(key string) {
	_, err := h.client.DeleteObject(h.t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("bucket"), Key: &key})
	must(h.t, err)
}

func (h history) mark(name string) {
	_, err := h.a.MarkDone(h.t.Context(), name, deadletter.Marker{Outcome: "delivered"})
	must(h.t, err)
}

// histories are letters with everything that can be stored about them.
var histories = map[string]func(history){
	"pending": func(h history) {
		h.put("first")
		h.put("second")
		h.remove("dir/x")
		h.put("third")
		must(h.t, h.a.End(h.t.Context(), "dir/x", wantBegin(h.t, h.a, "mine", "1")))
	},
	"marked once": func(h history) {
		h.put("first")
		h.mark("dir/x")
		h.remove("dir/done/x")
	},
	"done": func(h history) {
		h.put("first")
		h.put("second")
		wantBegin(h.t, h.a, "mine", "1")
		h.mark("dir/x")
	},
	"hidden": func(h history) {
		h.put("first")
		h.remove("dir/x")
	},
}

// seen returns what readers see of the letter: its last version, which may be a delete marker. "": nothing is stored.
func (h history) seen() (version string) {
	for _, v := range h.versions() {
		if v.Name == "dir/x" {
			version = v.ID
		}
	}
	return version
}

func (h history) versions() []deadletter.Version {
	all, err := deadletter.NewBucket(h.client, "bucket", "").Versions(h.t.Context(), "")
	must(h.t, err)
	return all
}

var undelivered = deadletter.Erasure{Undelivered: true, By: "a test"}

// killedErase erases a letter with a history, and is killed at a request. Then it is repeated. more is false if it ended
// before that request. broken breaks the storage of the erasure.
func killedErase(
	t *testing.T, name string, at int, broken func(deadletter.Listed) deadletter.Listed,
) (more bool, problem string) {
	t.Helper()
	client := versioned(t)
	h := history{t, client, deadletter.NewArchive(deadletter.NewBucket(client, "bucket", ""))}
	create(t, deadletter.NewBucket(client, "bucket", ""), "dir/x.1", "dir/y", "x")
	_, err := h.a.Begin(t.Context(), "dir/x.1", deadletter.Runner{Run: "9"}, time.Now())
	must(t, err)
	h.mark("dir/x.1")
	others := h.versions()
	histories[name](h)
	saw := h.seen()
	before, err := h.a.Stored(t.Context(), "dir/x")
	must(t, err)

	killed := &mortal{client, at}
	first := deadletter.NewArchive(broken(deadletter.NewBucket(killed, "bucket", "")))
	_, err = first.Erase(t.Context(), "dir/x", undelivered, time.Now())
	if killed.left > 0 {
		must(t, err)
	} else if !errors.Is(err, errKilled) {
		return false, fmt.Sprint("killed, but: ", err)
	}
	sees := h.seen()
	if sees != "" && sees != saw {
		return false, "readers see another version"
	}
	stored, err := h.a.Stored(t.Context(), "dir/x")
	must(t, err)
	begun, err := h.a.Look(t.Context(), "dir/x", nil)
	must(t, err)
	whole := !before.Done && stored.Letter == before.Letter
	if sees != "" && !stored.Done && begun.Other == nil && !whole {
		return false, "a run would deliver the letter"
	}
	// A person repeats it. Only a letter that is neither done nor withheld needs the same word again.
	repeat := undelivered
	repeat.Undelivered = !stored.Done
	if _, err := deadletter.NewArchive(broken(deadletter.NewBucket(client, "bucket", ""))).
		Erase(t.Context(), "dir/x", repeat, time.Now()); err != nil {
		return false, fmt.Sprint("the repeat: ", err)
	}
	if got := h.versions(); !slices.Equal(got, others) {
		return false, fmt.Sprintf("stored: %v, want %v", got, others)
	}
	if removed, err := h.a.Erase(t.Context(), "dir/x", deadletter.Erasure{}, time.Now()); err != nil || !removed.None() {
		return false, fmt.Sprintf("a third time removed %+v, %v", removed, err)
	}
	return killed.left <= 0, ""
}

func unbroken(l deadletter.Listed) deadletter.Listed { return l }

// TestKilledErase kills an erasure after each of its requests. Until the letter is gone,
// readers see the same version of it, and no run delivers a letter of which something was removed. A repeat leaves
// nothing of the letter, and everything of other letters.
func TestKilledErase(t *testing.T) {
	t.Parallel()
	for name := range histories {
		for at, more := 1, true; more; at++ {
			var problem string
			if more, problem = killedErase(t, name, at, unbroken); problem != "" {
				t.Fatalf("%s, killed after request %d: %s", name, at, problem)
			}
			if !more {
				t.Logf("%s: killed after each of %d requests", name, at-1)
			}
		}
	}
}

// newestFirst removes the version that readers see before older ones.
type newestFirst struct{ deadletter.Listed }

func (l newestFirst) Versions(ctx context.Context, prefix string) ([]deadletter.Version, error) {
	all, err := l.Listed.Versions(ctx, prefix)
	if prefix == "dir/x" {
		slices.Reverse(all)
	}
	return all, err
}

// visibleOnly removes only the version that readers see.
type visibleOnly struct{ deadletter.Listed }

func (l visibleOnly) Versions(ctx context.Context, prefix string) ([]deadletter.Version, error) {
	all, err := l.Listed.Versions(ctx, prefix)
	slices.Reverse(all)
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(v deadletter.Version) bool {
		older := seen[v.Name]
		seen[v.Name] = true
		return older
	}), err
}

// markerFirst removes the marker before the letter.
type markerFirst struct{ deadletter.Listed }

func (l markerFirst) Remove(ctx context.Context, v deadletter.Version) error {
	if v.Name == "dir/x" {
		markers, err := l.Versions(ctx, "dir/done/x")
		for _, m := range markers {
			if m.Name == "dir/done/x" {
				err = errors.Join(err, l.Listed.Remove(ctx, m))
			}
		}
		if err != nil {
			return err
		}
	}
	return l.Listed.Remove(ctx, v)
}

// TestMutantsOfErase checks that TestKilledErase finds each broken rule.
func TestMutantsOfErase(t *testing.T) {
	t.Parallel()
	for mutant, broken := range map[string]func(deadletter.Listed) deadletter.Listed{
		"newest first":  func(l deadletter.Listed) deadletter.Listed { return newestFirst{l} },
		"visible only":  func(l deadletter.Listed) deadletter.Listed { return visibleOnly{l} },
		"marker first":  func(l deadletter.Listed) deadletter.Listed { return markerFirst{l} },
		"prefixes only": func(l deadletter.Listed) deadletter.Listed { return prefixOnly{l} },
	} {
		found := ""
		for name := range histories {
			for at, more := 1, true; more && found == ""; at++ {
				more, found = killedErase(t, name, at, broken)
			}
		}
		if found == "" {
			t.Errorf("%s: not found", mutant)
		}
		t.Logf("%s: %s", mutant, found)
	}
}

// prefixOnly takes everything with the prefix for the letter.
type prefixOnly struct{ deadletter.Listed }

func (l prefixOnly) Remove(ctx context.Context, v deadletter.Version) error {
	all, err := l.Versions(ctx, v.Name)
	for _, other := range all {
		err = errors.Join(err, l.Listed.Remove(ctx, other))
	}
	return err
}

// TestErase: what Erase refuses, on each kind of storage, and what it leaves of other letters.
func TestErase(t *testing.T) {
	t.Parallel()
	stores := listed(t)
	stores["bucket with versions"] = deadletter.NewBucket(versioned(t), "bucket", "p/")
	for kind, objects := range stores {
		a := deadletter.NewArchive(objects)
		erase := func(want error, o deadletter.Erasure, name string) deadletter.Stored {
			t.Helper()
			removed, err := a.Erase(t.Context(), name, o, time.Now())
			if !errors.Is(err, want) {
				t.Errorf("%s: erase %q: %v, want %v", kind, name, err, want)
			}
			return removed
		}
		create(t, objects, "dir/x", "dir/x.1", "dir/z")
		for _, name := range []string{"", "dir/", "dir/done/x", "done/x", "dir/done/begun/x.1"} {
			erase(deadletter.ErrNoLetterName, undelivered, name)
		}
		if got := erase(nil, undelivered, "dir/nothing"); got != (deadletter.Stored{}) {
			t.Errorf("%s: removed %+v", kind, got)
		}
		erase(deadletter.ErrNotDone, deadletter.Erasure{}, "dir/x")
		wantBegin(t, a, "mine", "1")
		erase(deadletter.ErrBegun, undelivered, "dir/x")
		if got := entries(t, a); len(got) != 3 || got[0].Done {
			t.Errorf("%s: after refusals: %v", kind, got)
		}
		if got := erase(nil, deadletter.Erasure{Undelivered: true, TakesOver: []string{"1"}}, "dir/x"); got !=
			(deadletter.Stored{Letter: 1, Attempts: 2, Markers: 1}) {
			t.Errorf("%s: removed %+v", kind, got)
		}
		_, err := a.MarkDone(t.Context(), "dir/z", deadletter.Marker{})
		must(t, err)
		if got := erase(nil, deadletter.Erasure{}, "dir/z"); got != (deadletter.Stored{Letter: 1, Markers: 1, Done: true}) {
			t.Errorf("%s: removed %+v", kind, got)
		}
		if got := entries(t, a); !slices.Equal(got, []deadletter.Entry{{Name: "dir/x.1"}}) {
			t.Errorf("%s: left: %v", kind, got)
		}
	}
}

// TestEraseIsDenied: the error says what is missing.
func TestEraseIsDenied(t *testing.T) {
	t.Parallel()
	client := newClient(t, "bucket")
	create(t, deadletter.NewBucket(client, "bucket", ""), "x", "done/x")
	a := deadletter.NewArchive(deadletter.NewBucket(&denying{client}, "bucket", ""))
	if _, err := a.Erase(t.Context(), "x", undelivered, time.Now()); err == nil || !strings.Contains(err.Error(), "s3:DeleteObjectVersion") {
		t.Errorf("got %v", err)
	}
}

type denying struct{ deadletter.S3 }

func (*denying) DeleteObject(
	context.Context, *s3.DeleteObjectInput, ...func(*s3.Options),
) (*s3.DeleteObjectOutput, error) {
	return nil, coded("AccessDenied")
}

// TestFolderIsErased: no file of the folder has the content of the letter.
func TestFolderIsErased(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "dead")
	folder, err := deadletter.NewFolder(root)
	must(t, err)
	_, err = folder.Create(t.Context(), "poison/orders/x.json", bytes.Repeat([]byte("ann@example.com"), 10))
	must(t, err)
	_, err = deadletter.NewArchive(folder).Erase(t.Context(), "poison/orders/x.json", undelivered, time.Now())
	must(t, err)
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	}))
}
