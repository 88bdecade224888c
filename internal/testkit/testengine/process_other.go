//go:build !linux

package testengine

import "syscall"

// dieWithParent does nothing: only Linux can tell a child that its parent died.
func dieWithParent(syscall.Signal) *syscall.SysProcAttr { return nil }

// killMarked does nothing: the only engine with children runs on Linux only.
func killMarked(string) {}
