package deadletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Listed is a storage of Objects that can list and remove them; *Bucket and *Folder implement it.
type Listed interface {
	Objects
	// List returns a page of the names that begin with prefix and come after a name, in the order of their bytes. ""
	// comes before all names. An empty page means the end.
	List(ctx context.Context, prefix, after string) ([]string, error)
	// Versions returns everything that is stored under the names that begin with prefix. The version of a name that
	// readers see is the last one.
	Versions(ctx context.Context, prefix string) ([]Version, error)
	// Remove removes a version for good. It is safe to repeat.
	Remove(ctx context.Context, v Version) error
	// TagDone tags an object in a bucket, so that a lifecycle rule can expire it. Without such an object it does nothing.
	TagDone(ctx context.Context, name string) error
}

// Version is an object, one version of an object in a bucket with versioning, or a delete marker of S3.
type Version struct {
	Name string
	ID   string // "" in a Folder
}

// folderPage is the number of names in a page of a Folder. The folder is read once for each page, because a file system
// lists files in no order.
const folderPage = 10_000

// List returns a page of up to 10,000 names. It leaves out files that begin with a dot, which are incomplete.
func (f *Folder) List(ctx context.Context, prefix, after string) ([]string, error) {
	l := folderList{ctx: ctx, root: f.path, prefix: prefix, after: after, size: f.page}
	if err := l.add(""); err != nil {
		return nil, fmt.Errorf("dead-letter store %s: %w", f.path, err)
	}
	return l.page, nil
}

// Versions returns the names that begin with prefix, as List does. A file has one version.
func (f *Folder) Versions(ctx context.Context, prefix string) (all []Version, err error) {
	for after := ""; ; {
		names, err := f.List(ctx, prefix, after)
		if err != nil || len(names) == 0 {
			return all, err
		}
		for _, name := range names {
			all = append(all, Version{Name: name})
		}
		after = names[len(names)-1]
	}
}

// folderList collects a page of names.
type folderList struct {
	ctx           context.Context
	root          string
	prefix, after string
	size          int
	page          []string
}

// add adds the names in a folder until the page is full. folder is "" or ends in a slash.
func (l *folderList) add(folder string) error {
	for last := ""; len(l.page) < l.size; {
		names, err := l.first(folder, last, l.size-len(l.page))
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "/") {
				l.page = append(l.page, name)
			} else if err := l.add(name); err != nil {
				return err
			}
			if len(l.page) == l.size {
				return nil
			}
		}
		last = names[len(names)-1]
	}
	return nil
}

// first returns the first n names in a folder that come after last. Names of folders end in a slash, so that the
// order is the same as for whole paths. It keeps at most 2*n names in memory, whatever the size of the folder.
func (l *folderList) first(folder, last string, n int) (names []string, err error) {
	dir, err := os.Open(filepath.Join(l.root, filepath.FromSlash(folder)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // it was only read
	for err == nil {
		var entries []os.DirEntry
		if entries, err = dir.ReadDir(1000); l.ctx.Err() != nil {
			return nil, l.ctx.Err()
		}
		for _, e := range entries {
			name := folder + e.Name()
			if e.IsDir() {
				name += "/"
			}
			if name > last && l.wants(name) && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, name)
			}
			if len(names) == 2*n {
				slices.Sort(names)
				names = names[:n]
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	return names[:min(n, len(names))], nil
}

// wants reports whether a file belongs to the page, or whether a folder may have such files.
func (l *folderList) wants(name string) bool {
	if !strings.HasSuffix(name, "/") {
		return name > l.after && strings.HasPrefix(name, l.prefix)
	}
	return (name > l.after || strings.HasPrefix(l.after, name)) &&
		(strings.HasPrefix(name, l.prefix) || strings.HasPrefix(l.prefix, name))
}
