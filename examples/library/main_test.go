package main

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "library-")
	check(err)
	check(os.Chdir(dir))
	code := m.Run()
	check(os.RemoveAll(dir))
	os.Exit(code)
}

func Example() {
	main()
	// Output:
	// SAVE-10 false
	// SAVE-10 true
}
