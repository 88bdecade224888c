package sinktest

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// payload is a record that has its id and its fingerprint where the suite's format looks for them.
func payload(id, fp string) []byte { return fmt.Appendf(nil, `{"id":%q,"fp":%q}`, id, fp) }

func newName() string { return "t-" + strings.ToLower(rand.Text()[:16]) }
