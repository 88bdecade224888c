package claims

import (
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// itemLine writes an item as a line of its own. Its columns follow, each after a tab.
func itemLine(item string, columns itembank.Columns) string {
	return strings.Join(append([]string{item}, columnTexts(columns)...), "\t")
}

// itemText writes an item in a table or a sentence: 12A (price=40, row=1)
func itemText(item string, columns itembank.Columns) string {
	if columns == "" {
		return item
	}
	return item + " (" + strings.Join(columnTexts(columns), ", ") + ")"
}

func columnTexts(columns itembank.Columns) (texts []string) {
	for _, c := range columns.All() {
		texts = append(texts, c.Name+"="+c.Value)
	}
	return texts
}

// itemsOf returns the text of each item of a claim.
func itemsOf(c itembank.Claim, write func(string, itembank.Columns) string) (texts []string) {
	for i, item := range c.Items {
		texts = append(texts, write(item, c.ColumnsOf(i)))
	}
	return texts
}
