package ndjsonsink

import "github.com/oncebox/oncebox/internal/shared/address"

// Parse reads ndjson:PATH, the address of a file without a ? in its path.
func Parse(text string) (path string, err error) {
	a := address.Parse(text)
	if a.Scheme != "ndjson" || a.Name == "" {
		a.WrongPlace("does not name a file", "ndjson:PATH")
	}
	return a.Name, a.Done()
}
