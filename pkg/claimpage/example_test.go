package claimpage_test

import (
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/claimpage"
)

// A page with a title in English has no other language, also for a visitor who would rather read German.
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
