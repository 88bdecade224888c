package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asOtherUser runs oncebox as a user who may read the folder and may write nothing, if the tests run as root.
func (s *shell) asOtherUser(args ...string) result {
	s.Helper()
	program := filepath.Join(s.dir, "oncebox") // the test binary is in a folder that others cannot read
	c := s.command(s.Context(), nil, args...)
	c.Path, c.Args[0] = program, program
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if os.Geteuid() == 0 {
		const nobody = 65534
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := c.Run(); err != nil && c.ProcessState == nil {
		s.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	// A process that another test starts now would have the file open for writing, and so nobody could execute it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(target, source)
		err = errors.Join(err, target.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadOnlyStore checks that commands that only read a ledger, or a record of idempotency, need no permission to
// write, and make no file beside the store.
func TestReadOnlyStore(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "--store", "sqlite:seen.db", "init")
	s.file("in", `{"id":"A"}`+"\n")
	s.run(exitDone, "dedupe", "in", "--id-path", "id", "--ledger", "seen.db", "--out", "out")
	copyFile(t, os.Args[0], filepath.Join(s.dir, "oncebox"))
	for path, mode := range map[string]os.FileMode{
		"seen.db": 0o444, "seen.db.lock": 0o444, "in": 0o444, "": 0o555, "..": 0o755,
	} {
		must(t, os.Chmod(filepath.Join(s.dir, path), mode))
	}
	t.Cleanup(func() { _ = os.Chmod(s.dir, 0o755) }) // so that it can be removed
	for _, folder := range []os.FileMode{0o777, 0o555} {
		must(t, os.Chmod(s.dir, folder))
		for _, test := range []struct{ command, says string }{
			{"ledger runs", "finished"}, {"ledger explain A", "counts       yes"},
			{"dedupe in --id-path id --dry-run", "natural 1 "},
		} {
			s.want(exitDone, s.asOtherUser(append(strings.Fields(test.command), "--ledger", "seen.db")...)).saying(t, test.says)
		}
		r := s.asOtherUser("--store", "sqlite:seen.db", "idempotency", "explain", "pay", "k")
		s.want(exitNo, r).saying(t, "There is no record")
		if left, err := os.ReadDir(s.dir); err != nil || strings.Contains(fmt.Sprint(left), "-wal") {
			t.Errorf("files were left: %v, %v", left, err)
		}
	}
	s.want(exitUsage, s.asOtherUser("dedupe", "in", "--id-path", "id", "--ledger", "seen.db")).saying(t, "read-only")
}

// TestNoAccess checks that the error about a store, a folder or a file without permission is one sentence, and that
// repeating does not help.
func TestNoAccess(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	secret := s.file("secret.txt", "A-2\n")
	store := filepath.Join(s.dir, "oncebox.db")
	copyFile(t, os.Args[0], filepath.Join(s.dir, "oncebox"))
	for _, change := range []struct {
		path string
		mode os.FileMode
	}{{secret, 0}, {store, 0o444}, {store + ".lock", 0o444}, {filepath.Dir(s.dir), 0o755}, {s.dir, 0o555}} {
		if err := os.Chmod(change.path, change.mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(s.dir, 0o755) }) // so that it can be removed
	claimIsRefused := func() {
		t.Helper()
		s.want(exitUsage, s.asOtherUser("claim", "spring", "ann"), "claim").plainly(t, "oncebox: "+store+": open: the file or its folder is read-only; make it and its folder readable and writable for this user\n")
	}
	claimIsRefused()
	s.want(exitUsage, s.asOtherUser("--store", "sqlite:new.db", "init"), "init").plainly(t, "oncebox: "+s.dir+"/new.db: open: the file cannot be opened; make it and its folder readable and writable for this user\n")
	s.want(exitUsage, s.asOtherUser("load", "spring", "secret.txt"), "load").plainly(t, "oncebox: secret.txt: permission denied\n")
	must(t, os.Chmod(store+".lock", 0o666))
	must(t, os.Chmod(s.dir, 0o777))
	claimIsRefused() // at the start, also if only the file is read-only: a server would go on, and refuse every claim
	if _, err := os.Stat(store + "-wal"); err == nil {
		t.Error("a -wal file was left, to which the owner of the store cannot write")
	}
}
