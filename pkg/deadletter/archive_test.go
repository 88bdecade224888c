package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// listed returns a storage of each kind that can list its names.
func listed(t *testing.T) map[string]deadletter.Listed {
	t.Helper()
	folder, err := deadletter.NewFolder(filepath.Join(t.TempDir(), "dead"))
	must(t, err)
	return map[string]deadletter.Listed{
		"folder":             folder,
		"bucket":             deadletter.NewBucket(newClient(t, "bucket"), "bucket", ""),
		"bucket with prefix": deadletter.NewBucket(newClient(t, "bucket"), "bucket", "a/b c/"),
	}
}

// write makes a file of a folder, which need not survive a crash. It fails if a folder has the name.
func write(objects deadletter.Objects, name string) error {
	path := objects.Place(name).Path
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte("{}"), 0o600)
}

func create(t testing.TB, objects deadletter.Objects, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := objects.Create(t.Context(), name, []byte("{}"))
		must(t, err)
	}
}

func entries(t testing.TB, a *deadletter.Archive) (all []deadletter.Entry) {
	t.Helper()
	for e, err := range a.All(t.Context()) {
		must(t, err)
		all = append(all, e)
	}
	return all
}

// TestArchive: letters are listed in the order of their names, each with the marker beside it. Names go from one
// folder to another and back, and the marker of one letter does not count for another.
func TestArchive(t *testing.T) {
	t.Parallel()
	for name, objects := range listed(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := deadletter.NewArchive(objects)
			if all := entries(t, a); len(all) != 0 {
				t.Errorf("an empty store has %v", all)
			}
			names := []string{
				"a", "aws/lambda/uuid/shard/2026/11/20/x", "aws/lambda/uuid/shard/2026/11/21/x", "b", "poison/orders/1",
				"poison/orders/2", "poison/orders/deep/1", "poison/orders/x", "poison/orders-2/1", "poison/undone/1", "zz",
			}
			create(t, objects, names...)
			sort.Strings(names)
			done := []string{"aws/lambda/uuid/shard/2026/11/21/x", "b", "poison/orders/1", "poison/orders/x", "zz"}
			for _, name := range append(done, done...) {
				_, err := a.MarkDone(t.Context(), name, deadletter.Marker{At: time.Unix(1, 0), Outcome: "delivered"})
				must(t, err)
			}
			var want []deadletter.Entry
			for _, name := range names {
				want = append(want, deadletter.Entry{Name: name, Done: slices.Contains(done, name)})
			}
			if got := entries(t, a); !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			for _, name := range names {
				marker, err := a.Done(t.Context(), name)
				must(t, err)
				if (marker != nil) != slices.Contains(done, name) || marker != nil && marker.Name != name {
					t.Errorf("the marker of %s is %+v", name, marker)
				}
				if content, err := objects.Read(t.Context(), name); err != nil || string(content) != "{}" {
					t.Errorf("%s has changed: %q, %v", name, content, err)
				}
			}
		})
	}
}

// TestFirstMarkerStays: two redrives at the same time leave one marker.
func TestFirstMarkerStays(t *testing.T) {
	t.Parallel()
	for name, objects := range listed(t) {
		a := deadletter.NewArchive(objects)
		for i, outcome := range []string{"delivered", "dropped"} {
			created, err := a.MarkDone(t.Context(), "poison/x/1", deadletter.Marker{Outcome: outcome})
			if created != (i == 0) || err != nil {
				t.Errorf("%s: %t, %v", name, created, err)
			}
		}
		if m, err := a.Done(t.Context(), "poison/x/1"); err != nil || m.Outcome != "delivered" {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// TestAPrefixNarrows: a marker belongs to its letter for every prefix with which the store is opened.
func TestAPrefixNarrows(t *testing.T) {
	t.Parallel()
	client := newClient(t, "bucket")
	whole := deadletter.NewArchive(deadletter.NewBucket(client, "bucket", ""))
	create(t, deadletter.NewBucket(client, "bucket", ""), "poison/orders/1", "poison/orders/2", "aws/lambda/3")
	narrow := deadletter.NewArchive(deadletter.NewBucket(client, "bucket", "poison/orders/"))
	_, err := narrow.MarkDone(t.Context(), "1", deadletter.Marker{})
	must(t, err)
	_, err = whole.MarkDone(t.Context(), "poison/orders/2", deadletter.Marker{})
	must(t, err)
	if got := entries(t, whole); !slices.Equal(got, []deadletter.Entry{
		{Name: "aws/lambda/3"}, {Name: "poison/orders/1", Done: true}, {Name: "poison/orders/2", Done: true},
	}) {
		t.Errorf("whole: %v", got)
	}
	if got := entries(t, narrow); !slices.Equal(got, []deadletter.Entry{{Name: "1", Done: true}, {Name: "2", Done: true}}) {
		t.Errorf("narrow: %v", got)
	}
}

// paged counts the names of its listings.
type paged struct {
	deadletter.Listed
	calls, largest int
}

func (p *paged) List(ctx context.Context, prefix, after string) ([]string, error) {
	page, err := p.Listed.List(ctx, prefix, after)
	p.calls++
	p.largest = max(p.largest, len(page))
	return page, err
}

// TestListsInPages: a listing is never completely in memory.
func TestListsInPages(t *testing.T) {
	t.Parallel()
	const letters = 2500
	for name, most := range map[string]int{"folder": 400, "bucket": 1000} {
		p := &paged{Listed: listed(t)[name]}
		add := func(name string) { create(t, p.Listed, name) }
		if name == "folder" {
			deadletter.SetFolderPage(p.Listed, most)
			add = func(name string) { must(t, write(p.Listed, name)) }
		}
		for i := range letters {
			add(fmt.Sprintf("d%d/%05d", i%3, i))
			if i%2 == 0 {
				add(fmt.Sprintf("d%d/done/%05d", i%3, i))
			}
		}
		all, done := entries(t, deadletter.NewArchive(p)), 0
		for _, e := range all {
			if e.Done {
				done++
			}
		}
		if len(all) != letters || done != letters/2 || p.largest > most || p.calls < 2*letters/most/2 {
			t.Errorf("%s: %d letters, %d done, in %d pages of up to %d", name, len(all), done, p.calls, p.largest)
		}
	}
}

// TestFolderListsLikeABucket: the order is the same as in S3, for any names, prefix and begin.
func TestFolderListsLikeABucket(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		folder, err := deadletter.NewFolder(filepath.Join(root, fmt.Sprint(number)))
		must(t, err)
		deadletter.SetFolderPage(folder, rapid.IntRange(1, 5).Draw(rt, "page"))
		part := rapid.StringMatching(`[a-c+.0]?[a-c+0-]`)
		var want []string
		prefix, after := part.Draw(rt, "prefix")[:1], part.Draw(rt, "after")+"/"
		for range rapid.IntRange(0, 20).Draw(rt, "names") {
			name := part.Draw(rt, "name")
			for range rapid.IntRange(0, 2).Draw(rt, "depth") {
				name = part.Draw(rt, "folder") + "/" + name
			}
			if slices.Contains(want, name) || write(folder, name) != nil {
				continue // a file has the name of a folder
			}
			if hidden := slices.ContainsFunc(splitPath(name), func(p string) bool { return p[0] == '.' }); !hidden &&
				name > after && len(name) >= len(prefix) && name[:len(prefix)] == prefix {
				want = append(want, name)
			}
		}
		sort.Strings(want)
		var got []string
		for last := after; ; {
			page, err := folder.List(t.Context(), prefix, last)
			must(t, err)
			if len(page) == 0 {
				break
			}
			got, last = append(got, page...), page[len(page)-1]
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("prefix %q, after %q:\ngot  %q\nwant %q", prefix, after, got, want)
		}
	})
}

func splitPath(name string) []string {
	var parts []string
	for dir := filepath.ToSlash(name); ; {
		head, base := filepath.Split(dir)
		parts = append(parts, base)
		if head == "" {
			return parts
		}
		dir = head[:len(head)-1]
	}
}

// TestListingFails: a listing that fails returns an error, never a short list.
func TestListingFails(t *testing.T) {
	t.Parallel()
	objects := listed(t)["folder"]
	create(t, objects, "1", "2", "done/1")
	for failing := range 3 {
		f := &failingList{Listed: objects, at: failing}
		var err error
		for _, e := range deadletter.NewArchive(f).All(t.Context()) {
			err = e
		}
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("list %d failed: %v", failing, err)
		}
	}
}

type failingList struct {
	deadletter.Listed
	at int
}

func (f *failingList) List(ctx context.Context, prefix, after string) ([]string, error) {
	if f.at--; f.at < 0 {
		return nil, fs.ErrInvalid
	}
	return f.Listed.List(ctx, prefix, after)
}

func TestOpenArchive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dead")
	for _, setting := range []string{"dir:" + dir, "nowhere", "dir:"} {
		if _, err := deadletter.OpenArchive(t.Context(), nil, setting); err == nil {
			t.Errorf("%s was opened", setting)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a folder that is only read was made")
	}
	must(t, os.Mkdir(dir, 0o700))
	a, err := deadletter.OpenArchive(t.Context(), nil, "dir:"+dir)
	must(t, err)
	if _, err := a.Read(t.Context(), "../x"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read outside of the folder: %v", err)
	}
}
