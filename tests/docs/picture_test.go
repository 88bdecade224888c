package docs

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	drawnLabel = regexp.MustCompile(`(?m)^\s*[a-z.]+(?: -> [a-z.]+)?: ([^{\n]+) \{`)
	drawnText  = regexp.MustCompile(`>([^<>]+)</(?:text|tspan)>`)
)

// TestPictureIsOfItsSource checks that docs/picture/jobs.svg shows the texts of jobs.d2. `make picture` draws it
// again.
func TestPictureIsOfItsSource(t *testing.T) {
	t.Parallel()
	var labels, texts []string
	for _, label := range drawnLabel.FindAllStringSubmatch(read(t, "docs/picture/jobs.d2"), -1) {
		labels = append(labels, strings.Split(label[1], `\n`)...)
	}
	for _, text := range drawnText.FindAllStringSubmatch(read(t, "docs/picture/jobs.svg"), -1) {
		texts = append(texts, html.UnescapeString(text[1]))
	}
	slices.Sort(labels)
	slices.Sort(texts)
	if !slices.Equal(labels, texts) || len(labels) < 15 {
		t.Errorf("jobs.d2 has the labels\n%q\nand jobs.svg shows\n%q", labels, texts)
	}
}
