package records

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/oncebox/oncebox/internal/aws/s3files"
	"github.com/oncebox/oncebox/internal/cli"
)

// source is one input: a file, an object of S3, or stdin.
type source struct {
	name   string
	object *s3files.Object // nil unless it is an object
}

// isFile reports whether the input has a path.
func (s source) isFile() bool { return s.object == nil && s.name != "-" }

// sources finds inputs by the names that the user gave.
type sources struct {
	s3 *s3files.Store // nil until an object is named
}

// store is the client of S3, which is made once.
func (s *sources) store(ctx context.Context) (_ *s3files.Store, err error) {
	if s.s3 == nil {
		s.s3, err = cli.S3Store(ctx)
	}
	return s.s3, err
}

// expand returns the inputs for names. The names keep the order in which they were given. The files of a directory,
// of a pattern or of a prefix are in the order of the bytes of their names. So the order is the same on every system,
// in every locale, and on S3.
func (s *sources) expand(ctx context.Context, names []string) (all []source, err error) {
	for _, name := range names {
		var found []source
		switch {
		case name == "-":
			found = []source{{name: name}}
		case strings.HasPrefix(name, s3files.Scheme):
			found, err = s.objects(ctx, name)
		default:
			found, err = files(name)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// files returns the file with a name, the files of a directory, or the files that match a pattern.
func files(name string) ([]source, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return filesBelow(name)
	case errors.Is(err, fs.ErrNotExist) && isPattern(name):
		return filesLike(name)
	case err != nil:
		return nil, cli.BadUsage(cli.FileError(name, err), "")
	}
	return []source{{name: name}}, nil
}

func isPattern(name string) bool { return strings.ContainsAny(name, "*?[{") }

// filesBelow returns the files of a directory and of the directories below. It follows links to files, but no links
// to directories.
func filesBelow(directory string) ([]source, error) {
	var names []string
	root := filepath.Clean(directory) + string(filepath.Separator) // so that a link to it is followed
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return cli.FileError(path, err)
		case path == root:
			return nil
		case isLeftOut(entry.Name()):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		regular, err := isRegularFile(path)
		if regular {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, cli.BadUsage(err, "")
	}
	return inOrder(directory, names)
}

func isRegularFile(path string) (bool, error) {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular(), err
}

// filesLike returns the files that match a pattern, for a shell that left it as it is.
func filesLike(pattern string) ([]source, error) {
	matches, err := doublestar.FilepathGlob(pattern,
		doublestar.WithFilesOnly(), doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	if err != nil {
		return nil, badPattern(pattern, err)
	}
	base, _ := doublestar.SplitPattern(filepath.ToSlash(pattern))
	var names []string
	for _, path := range matches {
		if below, err := filepath.Rel(filepath.FromSlash(base), path); err != nil || hasLeftOut(below) {
			continue
		}
		regular, err := isRegularFile(path) // false for a link to a directory
		if err != nil {
			return nil, cli.BadUsage(cli.FileError(path, err), "")
		}
		if regular {
			names = append(names, path)
		}
	}
	return inOrder(pattern, names)
}

func badPattern(pattern string, err error) error {
	if errors.Is(err, doublestar.ErrBadPattern) {
		err = fmt.Errorf("%s: there is no such file, and it is not a pattern either: a bracket or brace does not end", pattern)
	}
	return cli.BadUsage(err, "")
}

// inOrder sorts names by their bytes, with slashes.
func inOrder(of string, names []string) ([]source, error) {
	if len(names) == 0 {
		return nil, nothingFound(of)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(filepath.ToSlash(a), filepath.ToSlash(b)) })
	all := make([]source, len(names))
	for i, name := range names {
		all[i].name = name
	}
	return all, nil
}

func nothingFound(of string) error {
	return cli.BadUsage(
		fmt.Errorf("%s: there are no files to read", of),
		"Hidden and temporary files are left out: see `oncebox help dedupe`. Name such a file itself to read it.",
	)
}

// objects returns the object of a name, the objects below a prefix, or those that match a pattern.
func (s *sources) objects(ctx context.Context, name string) ([]source, error) {
	at, err := s3files.ParsePlace(name)
	if err != nil {
		return nil, cli.BadUsage(err, "")
	}
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	if isPattern(at.Key) {
		base, _ := doublestar.SplitPattern(at.Key)
		if !doublestar.ValidatePattern(at.Key) {
			return nil, badPattern(name, doublestar.ErrBadPattern)
		}
		prefix := strings.TrimPrefix(base+"/", "./")
		return listed(ctx, store, name, s3files.Place{Bucket: at.Bucket, Key: prefix}, func(key string) bool {
			return doublestar.MatchUnvalidated(at.Key, key)
		})
	}
	if at.IsPrefix() {
		return listed(ctx, store, name, at, func(string) bool { return true })
	}
	object, err := store.Find(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.BadUsage(err, fmt.Sprintf("For all objects below it, say %s/.", name))
	}
	return []source{{name: name, object: &object}}, err
}

// listed returns the objects below a prefix that match, without objects that represent a folder.
func listed(
	ctx context.Context, store *s3files.Store, name string, prefix s3files.Place, matches func(key string) bool,
) (all []source, err error) {
	for o, err := range store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if !o.IsPrefix() && matches(o.Key) && !hasLeftOut(strings.TrimPrefix(o.Key, prefix.Key)) {
			all = append(all, source{o.String(), &o})
		}
	}
	if len(all) == 0 {
		return nil, nothingFound(name)
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.name, b.name) }) // directory buckets have no order
	return all, nil
}

// hasLeftOut reports whether an element of a path is left out.
func hasLeftOut(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(path), "/"), isLeftOut)
}

// isLeftOut reports whether a file or a directory is hidden or temporary. Directories and patterns leave such names
// out. Names that begin with _ are Hadoop's and Spark's names for files that are not data, such as _SUCCESS and
// _temporary.
func isLeftOut(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	for _, end := range []string{"~", ".tmp", ".part", ".swp", ".crdownload"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// includes reports whether a directory, prefix or pattern includes a file that is written. A later run would read
// that file.
func includes(name, written string) bool {
	if strings.HasPrefix(name, s3files.Scheme) != strings.HasPrefix(written, s3files.Scheme) {
		return false
	}
	if at, err := s3files.ParsePlace(name); err == nil {
		below, inside := strings.CutPrefix(written, at.String())
		return inside && at.IsPrefix() && !hasLeftOut(below) ||
			isPattern(at.Key) && doublestar.MatchUnvalidated(name, written)
	}
	from, errFrom := filepath.Abs(name)
	to, errTo := filepath.Abs(written)
	if errFrom != nil || errTo != nil {
		return false
	}
	if info, err := os.Stat(name); err == nil {
		below, err := filepath.Rel(from, to)
		return info.IsDir() && err == nil && filepath.IsLocal(below) && !hasLeftOut(below)
	}
	return isPattern(name) && doublestar.PathMatchUnvalidated(from, to)
}
