package claimpage_test

import (
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/claimpage"
)

// A page with only an English title has no other language, even for a visitor who prefers German.
func Example() {
	page := claimpage.Page{Languages: map[string]claimpage.Texts{"en": {"title": "Spring sale"}}}
	if err := page.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	file, _ := page.Asset("", claimpage.Site{Campaign: "spring", Languages: "de, en;q=0.5"})
	fmt.Println(file.Headers["Content-Type"])
	fmt.Println(strings.Contains(string(file.Body), "<title>Spring sale</title>"))

	// Output:
	// text/html; charset=utf-8
	// true
}
