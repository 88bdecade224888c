package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/oncebox/oncebox/internal/shared/durable"
	"github.com/oncebox/oncebox/internal/shared/filelock"
)

var (
	// ErrExists says that the file for a backup exists. It was not changed.
	ErrExists = errors.New("the file exists")
	// ErrBackupRuns says that another backup into the same file is running.
	ErrBackupRuns = errors.New("another backup into this file is running")
)

// partSuffix is appended to the name of a backup to name the copy that is not complete. No other file may have such a
// name, because a backup deletes it.
const partSuffix = ".oncebox-part"

// Backup copies the file of a store, with all its parts, into a new file. Other processes may write meanwhile. The copy
// is the store at one moment after Backup was called: it has every write that was committed before. Backup returns the
// size of the copy in bytes.
//
// The copy is in TO.oncebox-part until it is complete, checked and synced to the disk. Then it gets its name. So TO is a
// whole copy, or it does not exist. A stopped process may leave TO.oncebox-part, which the next Backup into TO replaces.
// The copy has the permissions of the store. It has no free pages with deleted rows.
//
// Errors, after which TO is as it was:
//   - fs.ErrNotExist: the store or the folder of TO is missing
//   - ErrExists, ErrBackupRuns
//   - ErrNotStore, ErrLayout: the file is not a store. The parts may have any layout.
//   - ErrNoAccess, ErrDamaged, ErrDiskFull
//   - tryAgain: another program keeps the file busy
func Backup(ctx context.Context, path, to string, tryAgain error) (size int64, err error) {
	source, err := locate(path, false)
	if err != nil {
		return 0, err
	}
	target, err := locateBackup(source, to)
	if err != nil {
		return 0, err
	}
	part := target + partSuffix
	lock, err := filelock.Take(part)
	if err != nil {
		return 0, lockError(to+partSuffix, err)
	}
	defer lock.Release()
	if err := checkFree(target, to); err != nil { // another backup has ended meanwhile
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = removeCopy(part) // the next backup removes what is left
		}
	}()
	if size, err = copyTo(ctx, source, part, to+partSuffix, tryAgain); err != nil {
		return 0, err
	}
	if err := checkFree(target, to); err != nil {
		return 0, err
	}
	return size, backupFault(to, publish(part, target))
}

// locateBackup returns the absolute name of a backup, which must not exist. The names beside the store belong to it.
func locateBackup(source, to string) (string, error) {
	target, err := filepath.Abs(to)
	if err != nil {
		return "", err
	}
	if err := checkFree(target, to); err != nil {
		return "", err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil {
		return "", &plainError{text: to + ": its folder does not exist", err: err}
	}
	target = filepath.Join(folder, filepath.Base(target))
	for _, suffix := range besideStore {
		if target == source+suffix {
			return "", &plainError{text: to + ": the store needs this name", err: ErrExists}
		}
	}
	if target+partSuffix == source {
		return "", &plainError{text: to + ": the copy would be made in the file of the store", err: ErrExists}
	}
	if strings.HasSuffix(target, partSuffix) {
		return "", &plainError{text: to + ": the name of a copy that is not complete", err: ErrExists}
	}
	return target, nil
}

// besideStore are the suffixes of the files beside a store.
var besideStore = []string{lockSuffix, "-wal", "-shm", "-journal"}

// checkFree checks that no file has the name of a backup, or that of a journal beside it: SQLite would write what an
// older store left there into the backup. The caller has named it so.
func checkFree(target, name string) error {
	for _, suffix := range []string{"", "-wal", "-journal"} {
		switch _, err := os.Lstat(target + suffix); {
		case err == nil:
			return &plainError{text: name + suffix + ": the file exists", err: ErrExists}
		case !errors.Is(err, fs.ErrNotExist):
			return backupFault(name+suffix, err)
		}
	}
	return nil
}

func lockError(name string, err error) error {
	switch {
	case errors.Is(err, filelock.ErrLocked):
		return fmt.Errorf("%s: %w", name, ErrBackupRuns)
	case errors.Is(err, filelock.ErrNotALock):
		return fmt.Errorf("%s is needed for the backup: %w; choose another file", filelock.Name(name), err)
	}
	return backupFault(filelock.Name(name), err)
}

// copyTo copies a store into a new file, and checks and syncs the copy. Errors have the name of the new file.
func copyTo(ctx context.Context, source, part, name string, tryAgain error) (size int64, err error) {
	info, err := os.Stat(source)
	if err != nil {
		return 0, backupFault(source, err)
	}
	if err := removeCopy(part); err != nil {
		return 0, backupFault(name, err)
	}
	if err := makeEmpty(part); err != nil {
		return 0, backupFault(name, err)
	}
	from := &DB{path: source, part: Part{TryAgain: tryAgain}, busyTimeout: DefaultBusyTimeout}
	layouts, err := from.vacuumInto(ctx, part)
	if err != nil {
		return 0, from.wrap("copy to "+name, err)
	}
	copied := &DB{path: part, part: from.part, busyTimeout: from.busyTimeout}
	if err := copied.check(ctx, layouts); err != nil {
		return 0, copied.wrap("check the copy", err)
	}
	size, err = finish(part, info.Mode().Perm())
	return size, backupFault(name, err)
}

// makeEmpty makes an empty file that only this user can read.
func makeEmpty(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// vacuumInto writes what one transaction reads into an empty file, and returns the layouts of the parts that the store
// had just before. The copy has no journal and is not synced.
func (db *DB) vacuumInto(ctx context.Context, file string) (layouts map[string]int, err error) {
	waiting, cancel := db.waitLimit(ctx)
	defer cancel()
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.openWriter(waiting, dsn(db.path, "mode=rw", 0)); err != nil {
		return nil, err
	}
	err = pollFree(waiting, func() (err error) {
		layouts, err = readLayouts(context.WithoutCancel(ctx), db.writer)
		return err
	})
	if err != nil {
		return nil, err
	}
	return layouts, pollFree(waiting, func() error {
		_, err := db.writerConn.ExecContext(ctx, `VACUUM INTO ?`, file)
		return err
	})
}

// check checks the whole content of a copy. The copy is opened as a file that cannot change, so that SQLite makes no
// files beside it. Another process may have added a part to the store before it was copied.
func (db *DB) check(ctx context.Context, want map[string]int) (err error) {
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.openWriter(ctx, dsn(db.path, "mode=ro&immutable=1", 0)); err != nil {
		return err
	}
	layouts, err := readLayouts(ctx, db.writer)
	if err != nil {
		return err
	}
	var found string
	if _, err := db.writer.One(ctx, `PRAGMA integrity_check(1)`, nil, &found); err != nil {
		return err
	}
	for name, layout := range want {
		if layouts[name] != layout {
			found = "it has not the layout of the store"
		}
	}
	if found != "ok" {
		return &plainError{text: "the copy is damaged; check the disk, and repeat the command", kind: ErrDamaged, err: errors.New(found)}
	}
	return nil
}

// readLayouts returns the layouts of the parts in a file of ours.
func readLayouts(ctx context.Context, on *Statements) (layouts map[string]int, err error) {
	ours, err := identifyFile(ctx, on)
	if err == nil && !ours {
		err = fmt.Errorf("%w: it is empty; run `oncebox init` to make a store", ErrNotStore)
	}
	if err != nil {
		return nil, err
	}
	layouts = map[string]int{}
	return layouts, on.Each(ctx, `SELECT name, version FROM part`, nil, func(scan func(...any) error) error {
		var name string
		var layout int
		err := scan(&name, &layout)
		layouts[name] = layout
		return err
	})
}

// finish gives a file its permissions, whatever the umask of the process is, and waits until it is on the disk.
func finish(path string, mode fs.FileMode) (size int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err == nil {
		size, err = info.Size(), errors.Join(file.Chmod(mode), file.Sync())
	}
	return size, errors.Join(err, file.Close())
}

// publish gives a complete copy its name. A name that is not surely on the disk is taken away again.
func publish(part, target string) error {
	err := os.Rename(part, target)
	if err != nil {
		return err
	}
	if err = durable.SyncFolder(filepath.Dir(target)); err != nil {
		err = errors.Join(err, os.Remove(target))
	}
	return err
}

// removeCopy removes a copy that is not complete, with the files that SQLite may have made beside it.
func removeCopy(part string) (err error) {
	for _, suffix := range []string{"-journal", "-wal", "-shm", ""} {
		if e := os.Remove(part + suffix); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// backupFault puts an error of the system about the file of a backup into plain words.
func backupFault(path string, err error) error {
	if err == nil {
		return nil
	}
	fault := &plainError{err: err}
	cause := err
	for inner := cause; inner != nil; inner = errors.Unwrap(inner) {
		cause = inner // the text of the innermost error has no calls of the system
	}
	fault.text = fmt.Sprintf("%s: %v", path, cause)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		fault.kind = ErrNoAccess
	case errors.Is(err, syscall.ENOSPC):
		fault.kind = ErrDiskFull
	}
	return fault
}
