package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// terminal is a command on a pseudo terminal, as a person uses it.
type terminal struct {
	*shell
	keyboard *os.File
	command  *exec.Cmd
	mu       sync.Mutex // guards screen
	screen   bytes.Buffer
	changed  chan struct{}
	done     chan struct{}
}

// at starts a command of oncebox on a terminal.
func (s *shell) at(args ...string) *terminal {
	s.Helper()
	return s.onTerminal(s.command(context.Background(), nil, args...))
}

// onTerminal starts a command on a terminal.
func (s *shell) onTerminal(c *exec.Cmd) *terminal {
	s.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120})
	}
	if err != nil {
		s.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		s.Fatal(err)
	}
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(c.Start(), slave.Close()); err != nil {
		s.Fatal(err)
	}
	t := &terminal{shell: s, keyboard: master, command: c, changed: make(chan struct{}, 1), done: make(chan struct{})}
	go t.show(master)
	return t
}

// show collects the output of the command, until the command ends.
func (t *terminal) show(from io.Reader) {
	defer close(t.done)
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		t.mu.Lock()
		t.screen.Write(buffer[:n])
		t.mu.Unlock()
		select {
		case t.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return // Linux returns EIO when the last process closes a terminal
		}
	}
}

func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.String()
}

// until waits for a text on the screen.
func (t *terminal) until(words string) {
	t.Helper()
	for !strings.Contains(t.text(), words) {
		select {
		case <-t.changed:
		case <-t.done:
			t.Fatalf("want %q, got\n%s", words, t.text())
		}
	}
}

func (t *terminal) press(keys string) {
	t.Helper()
	if _, err := t.keyboard.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the end of the command and returns the text on the screen.
func (t *terminal) ends(code int) string {
	t.Helper()
	_ = t.command.Wait() // the exit code is checked next
	<-t.done
	if got := t.command.ProcessState.ExitCode(); got != code {
		t.Fatalf("want exit %d, got %d\n%s", code, got, t.text())
	}
	return t.text()
}

const ctrlC, ctrlD = "\x03", "\x04"

// TestReleaseAsks: only a yes releases the claim that was shown.
func TestReleaseAsks(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--on-end", "return")
		s.run(exitDone, "campaign", "create", "codes")
		for _, campaign := range []string{"spring", "codes"} {
			s.run(exitDone, "load", campaign, s.file("codes.txt", "A-1\n"))
			s.run(exitDone, "claim", campaign, "ann")
		}
		for _, test := range []struct {
			keys string
			code int
			says string
		}{
			{"n\n", exitNo, "nothing was changed"},
			{"\n", exitNo, "nothing was changed"},
			{"yeah\n", exitNo, "nothing was changed"},
			{ctrlD, exitNo, "nothing was changed"},
			{ctrlC, exitInterrupted, "[y/N]"}, // a terminal drops output while it handles the key
		} {
			c := s.at("release", "spring", "ann")
			c.until("[y/N] ")
			c.press(test.keys)
			if screen := c.ends(test.code); !strings.Contains(screen, test.says) {
				t.Errorf("%q: want %q, got\n%s", test.keys, test.says, screen)
			}
		}
		s.counts(itembank.Counts{Loaded: 1, Claimed: 1})

		c := s.at("release", "spring", "ann")
		c.until("Release the claim and return the item to the bank? [y/N] ")
		c.press("y\n")
		if screen := c.ends(exitDone); !strings.Contains(screen, "item      A-1") || !strings.Contains(screen, "in the bank again") {
			t.Errorf("unexpected screen\n%s", screen)
		}
		s.counts(itembank.Counts{Loaded: 1, Free: 1})

		c = s.at("release", "codes", "ann")
		c.until("Release the claim and burn the item? [y/N] ")
		c.press("YES\n")
		if screen := c.ends(exitDone); !strings.Contains(screen, "the item is burned") {
			t.Errorf("unexpected screen\n%s", screen)
		}
	})
}

// TestReplaceAsks: only a yes replaces the claim that was shown, and no claim that was made meanwhile.
func TestReplaceAsks(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\nA-3\n"))
	s.run(exitDone, "claim", "spring", "ann")
	for _, test := range []struct {
		keys, says string
		code       int
		counts     itembank.Counts
		meanwhile  bool
	}{
		{"\n", "nothing was changed", exitNo, itembank.Counts{Loaded: 3, Free: 2, Claimed: 1}, false},
		{"y\n", "A-", exitDone, itembank.Counts{Loaded: 3, Free: 1, Claimed: 1, Ended: 1}, false},
		{"y\n", "the claim has ended", exitNo, itembank.Counts{Loaded: 3, Claimed: 1, Ended: 2}, true},
	} {
		c := s.at("replace", "spring", "ann")
		c.until("End the item, and give ann another one? [y/N] ")
		if test.meanwhile {
			s.run(exitDone, "release", "spring", "ann", "--yes")
			s.run(exitDone, "claim", "spring", "ann")
		}
		c.press(test.keys)
		if screen := c.ends(test.code); !strings.Contains(screen, test.says) {
			t.Errorf("%q: want %q, got\n%s", test.keys, test.says, screen)
		}
		s.counts(test.counts)
	}
}

// TestReleaseShowsAndSendsOneClaim: while the question is on the screen, the claim is released and another one is made.
// The other claim stays.
func TestReleaseShowsAndSendsOneClaim(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--on-end", "return")
		s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
		s.run(exitDone, "claim", "spring", "ann")
		c := s.at("release", "spring", "ann")
		c.until("[y/N] ")
		s.run(exitDone, "release", "spring", "ann", "--yes")
		s.run(exitDone, "claim", "spring", "ann")
		c.press("y\n")
		if screen := c.ends(exitDone); !strings.Contains(screen, "it may have been released before") {
			t.Errorf("unexpected screen\n%s", screen)
		}
		s.counts(itembank.Counts{Loaded: 1, Claimed: 1})
	})
}

// TestProgress: on a terminal a load and a withdrawal show their progress, rate and remaining time. The result stays on
// the screen.
func TestProgress(t *testing.T) {
	bar := regexp.MustCompile(`(loading|withdrawing from) spring +\d+% .*\(\d+/1500, \d+ lines/s\) \[\d+s:\d+s\]`)
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.file("codes.txt", lines(1500))
	for _, run := range [][2]string{{"load", "added 1500"}, {"withdraw", "withdrawn 1500"}} {
		command, result := run[0], run[1]
		if screen := s.at(command, "spring", "codes.txt").ends(exitDone); !bar.MatchString(screen) || !strings.Contains(screen, result) {
			t.Errorf("%s: want progress and %q, got %q", command, result, screen)
		}
	}
	if screen := s.at("--quiet", "load", "spring", "codes.txt").ends(exitDone); strings.TrimSpace(screen) != "added 0, known 1500, repeated 0 of 1500 lines" {
		t.Errorf("--quiet: %q", screen)
	}
}

// TestWatchOnTerminal: one line, which is replaced, until Ctrl-C.
func TestWatchOnTerminal(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", lines(3)))
	c := s.at("status", "spring", "--watch", "--every", "1s")
	c.until("free 3  claimed 0  claims/s 0.0")
	s.run(exitDone, "claim", "spring", "ann")
	c.until("free 2  claimed 1")
	if screen := c.text(); strings.Contains(screen, "\n") || strings.Count(screen, "\r\x1b[K") < 3 {
		t.Errorf("want one line, got %q", screen)
	}
	c.press(ctrlC)
	c.ends(exitInterrupted)
}
