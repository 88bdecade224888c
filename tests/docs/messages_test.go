package docs

import (
	"regexp"
	"strings"
	"testing"
)

// message matches a message in the prose of a document: words alone, as no command with a flag, setting or path has them.
var message = regexp.MustCompile("`([a-z]+(?:,? [a-z-]+){2,})`")

// TestMessagesOfRunbooks checks that the program has the messages by which docs/operations.md finds advice.
func TestMessagesOfRunbooks(t *testing.T) {
	t.Parallel()
	ofAWS := map[string]bool{"does not have the specified index": true}
	source, found := goSource(t), 0
	for _, line := range readDocument(t, "docs/operations.md").prose() {
		for _, m := range message.FindAllStringSubmatch(line, -1) {
			command, _, _ := strings.Cut(m[1], " ")
			if command == "aws" || command == "oncebox" || strings.Contains(m[1], " --") || ofAWS[m[1]] {
				continue
			}
			found++
			if !strings.Contains(source, m[1]) {
				t.Errorf("docs/operations.md has the message %q, which no code has", m[1])
			}
		}
	}
	if found < 12 {
		t.Errorf("the test finds %d messages", found)
	}
}
