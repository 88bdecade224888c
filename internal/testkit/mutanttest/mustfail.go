// Package mutanttest shows that a test case fails on a broken part.
package mutanttest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// MustFail runs a test case in this process and fails t unless the case fails. The case gets a broken part, and must
// report it through its testing.TB. A case that panics or is skipped has not reported it.
//
// The case must fail through the testing.TB that it gets. Its cleanups run when t ends.
func MustFail(t testing.TB, run func(testing.TB)) {
	t.Helper()
	r := &recorder{TB: t}
	panicked := r.run(run)
	switch {
	case panicked != nil:
		t.Errorf("the case panicked: %v\n%s", panicked, r.text())
	case !r.Failed():
		t.Errorf("the case passed, so it does not find what is broken\n%s", r.text())
	}
}

// Named returns the element with a name: the case or the scenario that must find a mutant.
func Named[E any](t testing.TB, all []E, name string, nameOf func(E) string) E {
	t.Helper()
	for _, e := range all {
		if nameOf(e) == name {
			return e
		}
	}
	t.Fatalf("there is no %T %q", *new(E), name)
	return *new(E)
}

// recorder is a testing.TB that records whether a case fails. It leaves all other calls to the TB in it.
type recorder struct {
	testing.TB
	mu      sync.Mutex
	failed  bool
	skipped bool
	lines   []string
}

// run runs the case in its own goroutine, because FailNow ends that goroutine.
func (r *recorder) run(run func(testing.TB)) (panicked any) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { panicked = recover() }()
		run(r)
	}()
	<-ended
	return panicked
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func (r *recorder) Helper() {}

func (r *recorder) Log(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

func (r *recorder) Logf(format string, args ...any) { r.Log(fmt.Sprintf(format, args...)) }

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Error(args ...any) {
	r.Log(args...)
	r.Fail()
}

func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) {
	r.Log(args...)
	r.FailNow()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func (r *recorder) SkipNow() {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Skip(args ...any) {
	r.Log(args...)
	r.SkipNow()
}

func (r *recorder) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }

func (r *recorder) Skipped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}
