package itembank_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestColumnsInJSON: the object has the columns in order, and keeps any text.
func TestColumnsInJSON(t *testing.T) {
	t.Parallel()
	all := []itembank.Column{{Name: "row", Value: `<"1" & \>`}, {Name: "", Value: ""}, {Name: "größe", Value: "\u2028"}}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(itembank.NewColumns(all...)); err != nil {
		t.Fatal(err)
	}
	if want := `{"row":"<\"1\" & \\>","":"","größe":"\u2028"}` + "\n"; text.String() != want {
		t.Errorf("want %s, got %s", want, text.String())
	}
	var back itembank.Columns
	sorted := itembank.NewColumns(all[1], all[2], all[0])
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back != sorted {
		t.Errorf("want %q, got %q, %v", sorted, back, err)
	}
	if empty, err := json.Marshal(itembank.Columns("")); string(empty) != "{}" || err != nil {
		t.Errorf("got %s, %v", empty, err)
	}
	if err := json.Unmarshal([]byte(`{"price":12}`), &back); err == nil {
		t.Error("a number is read as a text")
	}
}
