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
	// In its own group, an engine is stopped by us and not by the terminal's ^C.
	return &syscall.SysProcAttr{Pdeathsig: signal, Setpgid: true}
}

// killMarked kills every process that has the mark in its environment. The
// Lambda emulator gives its function a process group of its own, so neither
// the emulator's group nor, once it crashed, its parentage leads there.
func killMarked(mark string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // only a bad pattern is an error
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !contains(environ, mark) {
			continue // gone meanwhile, or not ours
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// contains reports whether the NUL-separated list holds exactly the entry.
func contains(environ []byte, entry string) bool {
	for item := range bytes.SplitSeq(environ, []byte{0}) {
		if string(item) == entry {
			return true
		}
	}
	return false
}
