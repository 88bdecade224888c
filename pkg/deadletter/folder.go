package deadletter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/internal/shared/durable"
)

// tempPattern names incomplete files. A file that is left after a crash can be deleted.
const tempPattern = ".incomplete-*"

// Folder stores objects as files of one folder, which several processes may share. Its file system must have hard
// links. A name with slashes belongs to a file in a subfolder.
type Folder struct {
	path string
	page int // names of a listing
}

var _ Listed = (*Folder)(nil)

// NewFolder opens a folder. It makes the folder if it does not exist. The parent folder must exist.
func NewFolder(path string) (*Folder, error) {
	if err := openFolder(path); err != nil {
		return nil, fmt.Errorf("dead-letter store %s: %w", path, err)
	}
	return &Folder{path, folderPage}, nil
}

func openFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		return durable.SyncFolder(filepath.Dir(path))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkFolder(path)
}

func checkFolder(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("this is not a folder")
	}
	return err
}

// Place returns the path of the file.
func (f *Folder) Place(name string) Place {
	return Place{Path: filepath.Join(f.path, filepath.FromSlash(name))}
}

// Create writes the file under a temporary name, syncs it to the disk, and then links it to its name, if that is
// free. Errors are faults of the folder or the disk, or an error of the context.
func (f *Folder) Create(ctx context.Context, name string, content []byte) (created bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	path := f.Place(name).Path
	if folder := filepath.Dir(path); folder != filepath.Clean(f.path) {
		err = openFolders(f.path, folder)
	}
	if err == nil {
		created, err = f.create(path, content)
	}
	if err == nil {
		// Also for an existing file, because its writer may have died before this step.
		err = durable.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return false, fmt.Errorf("dead-letter store %s: %w", f.path, err)
	}
	return created, nil
}

// openFolders makes the folders from root down to path.
func openFolders(root, path string) error {
	if parent := filepath.Dir(path); parent != filepath.Clean(root) && parent != path {
		if err := openFolders(root, parent); err != nil {
			return err
		}
	}
	return openFolder(path)
}

func (f *Folder) create(path string, content []byte) (created bool, err error) {
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	}
	temp, err := f.writeTemp(content)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.Remove(temp)) }()
	err = os.Link(temp, path)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (f *Folder) writeTemp(content []byte) (path string, err error) {
	temp, err := os.CreateTemp(f.path, tempPattern)
	if err != nil {
		return "", err
	}
	_, err = temp.Write(content)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}

// TagDone does nothing: no file expires.
func (f *Folder) TagDone(context.Context, string) error { return nil }

// Remove deletes a file, and syncs its folder to the disk.
func (f *Folder) Remove(ctx context.Context, v Version) error {
	if err := f.check(ctx, v.Name); err != nil {
		return err
	}
	path := f.Place(v.Name).Path
	err := os.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) { // a process that deleted it may have died before the sync
		err = durable.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("dead-letter store %s: %w", f.path, err)
	}
	return nil
}

func (f *Folder) check(ctx context.Context, name string) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("dead-letter store %s: %q is not the name of an object", f.path, name)
	}
	return ctx.Err()
}

// Read returns the content of a file.
func (f *Folder) Read(ctx context.Context, name string) ([]byte, error) {
	if err := f.check(ctx, name); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(f.Place(name).Path)
	if err != nil {
		return nil, fmt.Errorf("dead-letter store %s: %w", f.path, err)
	}
	return content, nil
}
