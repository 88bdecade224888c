package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
)

// backUpInLittleRoom is the role of a process that may write no file of more than 1 MB.
func backUpInLittleRoom(ctx context.Context, path, to string) (any, error) {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		return nil, err
	}
	sqlitetest.Ready()
	_, err := Backup(ctx, path, to, errTryAgain)
	return err.Error(), nil
}

func init() { roles["back up in little room"] = backUpInLittleRoom }

// TestBackupWithoutRoom: a copy that cannot be written leaves nothing.
func TestBackupWithoutRoom(t *testing.T) {
	db := newDB(t, 1)
	fill(t, db)
	to := filepath.Join(filepath.Dir(db.path), "copy.db")
	p := sqlitetest.Start(t, "back up in little room", db.path, to)
	p.Proceed(t)
	var failed string
	if p.Result(t, &failed); !strings.Contains(failed, "copy.db"+partSuffix+": the disk failed to read or write the file") {
		t.Errorf("the error is %q", failed)
	}
	checkNoCopy(t, to)
	checkTakes(t, db)
}
