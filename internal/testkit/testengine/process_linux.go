package testengine

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent makes the kernel send the signal when the test binary dies.
func dieWithParent(signal syscall.Signal) *syscall.SysProcAttr {
	// A process group of its own keeps the Ctrl-C of a terminal from the engine: stop ends it.
	return &syscall.SysProcAttr{Pdeathsig: signal, Setpgid: true}
}

// killMarked kills every process that has the mark in its environment. It finds the function
// of a Lambda emulator, which runs in a process group of its own and loses its parent when
// the emulator crashes.
func killMarked(mark string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // the error would be a bad pattern
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !contains(environ, mark) {
			continue // it has ended, or it is not ours
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// contains reports whether the NUL-separated list holds the entry.
func contains(environ []byte, entry string) bool {
	for item := range bytes.SplitSeq(environ, []byte{0}) {
		if string(item) == entry {
			return true
		}
	}
	return false
}
