package main

import (
	"os"
	"path/filepath"
	"testing"

	oncesqlite "github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

// TestBackup: a server has the store open, so that its latest claims are only in the -wal file.
func TestBackup(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\n"))
	base := s.serve()
	if made := s.post(base+"/campaigns/spring/claims", `{"claimant":"ann"}`); made.status != 201 {
		t.Fatalf("no claim: %+v", made)
	}
	s.run(exitDone, "backup", "monday.db").saying(t, "copied sqlite:oncebox.db to monday.db: ", " bytes\n")
	var made backupJSON
	s.json(&made, "backup", "tuesday.db")
	info, err := os.Stat(filepath.Join(s.dir, "tuesday.db"))
	if err != nil || made != (backupJSON{"sqlite:oncebox.db", "tuesday.db", info.Size()}) {
		t.Errorf("%+v, %+v, %v", made, info, err)
	}
	copied := []string{"--store", "sqlite:monday.db"}
	s.run(exitDone, append(copied, "reconcile", "spring")...).saying(t, "loaded 2, free 1, claimed 1, ended 0", "no inconsistencies")
	s.run(exitDone, append(copied, "ledger", "runs", "--scope", "default")...)
	s.run(exitDone, append(copied, "claim", "spring", "bob")...)
	once, err := oncesqlite.Open(t.Context(), filepath.Join(s.dir, "monday.db")) // init has made the tables of all jobs
	if err == nil {
		err = once.Close()
	}
	if err != nil {
		t.Error(err)
	}
	s.run(exitDone, "status", "spring").saying(t, "free     1") // a copy is a store of its own
	s.absent("monday.db.oncebox-part", "monday.db.oncebox-part.lock", "tuesday.db.oncebox-part")
}

// TestBackupOfALedger: a file with record entries alone is a store, too.
func TestBackupOfALedger(t *testing.T) {
	s := newShell(t)
	s.file("in", `{"id":"a"}`+"\n")
	s.run(exitDone, "dedupe", "in", "--id-path", "id", "--ledger", "seen.db", "--out", "out")
	s.run(exitDone, "--store", "sqlite:seen.db", "backup", "before.db")
	s.run(exitDone, "ledger", "runs", "--ledger", "before.db").saying(t, "finished")
}

func TestBackupRefused(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.file("there.db", "of somebody")
	s.file("text.db", "this is no database")
	const other = "\nChoose another file.\n"
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"backup", "there.db"}, "oncebox: there.db: the file exists" + other},
		{[]string{"backup", "oncebox.db"}, "oncebox: oncebox.db: the file exists" + other},
		{[]string{"backup", "oncebox.db-wal"}, "oncebox: oncebox.db-wal: the store needs this name" + other},
		{[]string{"backup", "none/x.db"}, "oncebox: none/x.db: its folder does not exist\n"},
		{[]string{"--store", "sqlite:none.db", "backup", "x.db"}, "oncebox: --store sqlite:none.db: there is no such file\n`oncebox --store sqlite:none.db init` makes the store.\n"},
		{[]string{"--store", "sqlite:text.db", "backup", "x.db"}, "oncebox: " + s.dir + "/text.db: copy to x.db.oncebox-part: not a oncebox store: it is not a SQLite database\n"},
		{[]string{"--store", "dynamodb:", "backup", "x.db"}, "oncebox: backup copies SQLite files, and --store is dynamodb:\nUse point-in-time recovery, which restores both tables to one moment.\n"},
	} {
		s.run(exitUsage, test.args...).plainly(t, test.says)
	}
	s.absent("x.db", "x.db.oncebox-part", "x.db.oncebox-part.lock")
	if s.read("there.db") != "of somebody" {
		t.Error("a file that existed was changed")
	}
}
