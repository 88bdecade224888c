package format_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/format"
)

// A document is the meaning of a record, independent of its spelling. It is the model for the properties, and shares
// no code with the package.
type document struct {
	kind     kind
	text     []rune // of a string; halves of surrogate pairs are runes, badByte a byte that is not UTF-8
	negative bool   // a number is its digits times ten to the exponent
	digits   string // without zeros at either end
	exponent int
	members  []member // of an object, and of an array without names
}

type member struct {
	name  []rune
	value document
}

type kind int

const (
	null kind = iota
	no
	yes
	number
	text
	array
	object
)

const badByte = -1

// meaning returns a text that is equal only for equal documents. Members of one name keep their order.
func (d document) meaning() string {
	switch d.kind {
	case number:
		return fmt.Sprintf("number %v %s %d", d.negative, d.digits, d.exponent)
	case text:
		return fmt.Sprint("text ", d.text)
	case array, object:
		members := slices.Clone(d.members)
		if d.kind == object {
			slices.SortStableFunc(members, func(a, b member) int { return slices.Compare(a.name, b.name) })
		}
		var parts []string
		for _, m := range members {
			parts = append(parts, fmt.Sprintf("%v (%s)", m.name, m.value.meaning()))
		}
		return fmt.Sprintf("%d %q", d.kind, parts)
	default:
		return fmt.Sprint(int(d.kind))
	}
}

func (d document) clone() document {
	d.members = slices.Clone(d.members)
	for i := range d.members {
		d.members[i].value = d.members[i].value.clone()
	}
	return d
}

// all returns the document and all documents in it.
func (d *document) all() []*document {
	found := []*document{d}
	for i := range d.members {
		found = append(found, d.members[i].value.all()...)
	}
	return found
}

var runes = []rune{'a', 'b', 'A', ' ', '"', '\\', '/', '\n', '\t', 0, 1, 0x1f, 0x7f, 'é', 0x2028, 0xfffd, 0xffff, '😀',
	0x10ffff, 0xd800, 0xd83d, 0xdbff, 0xdc00, 0xdfff, badByte}

func drawText(t *rapid.T, label string) []rune {
	drawn := rapid.SliceOfN(rapid.SampledFrom(runes), 0, 4).Draw(t, label)
	var out []rune
	for _, r := range drawn { // two halves that meet are one rune
		if n := len(out); n > 0 && utf16.DecodeRune(out[n-1], r) != utf8.RuneError {
			out[n-1] = utf16.DecodeRune(out[n-1], r)
			continue
		}
		out = append(out, r)
	}
	return out
}

func drawNumber(t *rapid.T) document {
	digits := strings.Trim(rapid.SampledFrom([]string{"0", "1", "2", "12", "12345678901234567890", "123456789012345678901", "5", "101", "99999999999999999999999999"}).Draw(t, "digits"), "0")
	if digits == "" {
		return document{kind: number}
	}
	exponent := rapid.OneOf(rapid.IntRange(-3, 3), rapid.IntRange(-40, 40),
		rapid.SampledFrom([]int{400, -400, 999999999, -2147483649, 123456789012345678})).Draw(t, "exponent")
	return document{kind: number, negative: rapid.Bool().Draw(t, "negative"), digits: digits, exponent: exponent}
}

func drawDocument(t *rapid.T, depth int) document {
	last := object
	if depth == 0 {
		last = text
	}
	d := document{kind: kind(rapid.IntRange(int(null), int(last)).Draw(t, "kind"))}
	switch d.kind {
	case number:
		return drawNumber(t)
	case text:
		d.text = drawText(t, "text")
	case array, object:
		d.members = drawMembers(t, d.kind, depth-1)
	}
	return d
}

func drawMembers(t *rapid.T, k kind, depth int) []member {
	var members []member
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		m := member{value: drawDocument(t, depth)}
		if k == object {
			m.name = drawName(t)
		}
		members = append(members, m)
	}
	return members
}

// drawName often draws names of the paths, and names that already occur.
func drawName(t *rapid.T) []rune {
	if rapid.Bool().Draw(t, "plain name") {
		return []rune(rapid.SampledFrom([]string{"a", "b", "id", "owner", "meta", "contexts", "v", "0", ""}).Draw(t, "name"))
	}
	return drawText(t, "odd name")
}

// spelling writes documents in a different way each time.
type spelling struct {
	t       *rapid.T
	shuffle bool
}

func (s spelling) draw(n int, label string) int { return rapid.IntRange(0, n-1).Draw(s.t, label) }

func (s spelling) space() string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\r\n\t "}).Draw(s.t, "space")
}

func (s spelling) value(d document) string {
	switch d.kind {
	case no:
		return "false"
	case yes:
		return "true"
	case number:
		return s.number(d)
	case text:
		return s.text(d.text)
	case array, object:
		var parts []string
		for _, m := range s.order(d) {
			name := ""
			if d.kind == object {
				name = s.text(m.name) + s.space() + ":" + s.space()
			}
			parts = append(parts, s.space()+name+s.value(m.value)+s.space())
		}
		if d.kind == array {
			return "[" + s.space() + strings.Join(parts, ",") + "]"
		}
		return "{" + s.space() + strings.Join(parts, ",") + "}"
	default:
		return "null"
	}
}

// order returns the members in another order, except those of one name.
func (s spelling) order(d document) []member {
	if d.kind != object || !s.shuffle {
		return d.members
	}
	places := map[string][]member{}
	for _, m := range d.members {
		places[string16(m.name)] = append(places[string16(m.name)], m)
	}
	var out []member
	for _, m := range rapid.Permutation(d.members).Draw(s.t, "order") {
		same := places[string16(m.name)]
		out, places[string16(m.name)] = append(out, same[0]), same[1:]
	}
	return out
}

func string16(name []rune) string { return fmt.Sprint(name) }

func (s spelling) number(d document) string {
	sign := ""
	if d.negative || d.digits == "" && s.draw(2, "minus zero") == 1 {
		sign = "-"
	}
	digits, exponent := d.digits, d.exponent
	if digits == "" {
		exponent = s.draw(5, "zero's exponent")
	}
	zeros := s.draw(4, "zeros")
	digits, exponent = digits+strings.Repeat("0", zeros), exponent-zeros
	point := s.draw(len(digits)+3, "point") // digits behind the point
	exponent += point
	digits = strings.Repeat("0", max(0, point+1-len(digits))) + digits
	whole := digits[:len(digits)-point]
	if d.digits == "" {
		whole = "0"
	}
	out := sign + whole
	if point > 0 {
		out += "." + digits[len(digits)-point:]
	}
	if exponent == 0 && s.draw(2, "exponent") == 0 {
		return out
	}
	plus := ""
	if exponent >= 0 {
		plus = rapid.SampledFrom([]string{"", "+"}).Draw(s.t, "plus")
	} else {
		plus, exponent = "-", -exponent
	}
	return out + rapid.SampledFrom([]string{"e", "E"}).Draw(s.t, "e") + plus +
		strings.Repeat("0", s.draw(3, "leading zeros")) + strconv.Itoa(exponent)
}

func (s spelling) text(runes []rune) string {
	out := `"`
	for _, r := range runes {
		out += s.rune(r)
	}
	return out + `"`
}

func (s spelling) rune(r rune) string {
	short := strings.IndexRune("\"\\/\b\f\n\r\t", r)
	switch way := s.draw(3, "escape"); {
	case r == badByte:
		return "\xff"
	case short >= 0 && way == 0:
		return `\` + `"\/bfnrt`[short:short+1]
	case way == 1 || r < ' ' || r == '"' || r == '\\' || utf16.IsSurrogate(r):
		units := []rune{r}
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			units = []rune{high, low}
		}
		out := ""
		for _, unit := range units {
			out += rapid.SampledFrom([]string{fmt.Sprintf(`\u%04x`, unit), fmt.Sprintf(`\u%04X`, unit)}).Draw(s.t, "digits")
		}
		return out
	default:
		return string(r)
	}
}

// properties are the settings for the properties; deep adds parents.
var properties = map[string]format.Options{
	"top":  {IDPath: "id", Volatile: []string{"v"}},
	"deep": {IDPath: "meta.id", OwnerPath: "owner", ContextsPath: "meta.a.contexts", Volatile: []string{"v", "b.0", "a.meta.v"}},
}

// drawRecord draws a record with an id and an owner, and returns their places.
func drawRecord(t *rapid.T, deep bool) document {
	d := document{kind: object, members: drawMembers(t, object, 3)}
	id := member{[]rune("id"), document{kind: text, text: []rune("old")}}
	owner := member{[]rune("owner"), document{kind: text, text: []rune("me")}}
	if deep {
		meta := document{kind: object, members: append([]member{id}, without(drawMembers(t, object, 2), "id")...)}
		if rapid.Bool().Draw(t, "with a") {
			a := document{kind: object, members: drawMembers(t, object, 1)}
			meta.members = append(meta.members, member{[]rune("a"), a})
		}
		id = member{[]rune("meta"), meta}
	}
	d.members = append([]member{id, owner}, without(d.members, string(id.name))...)
	return d
}

// without leaves out the members of a name that is on the path of the id, and must be there once.
func without(members []member, name string) []member {
	return slices.DeleteFunc(members, func(m member) bool { return string(m.name) == name })
}

// drawTwin draws a document that is the same, or differs in one place.
func drawTwin(t *rapid.T, original document) document {
	d := original.clone()
	if rapid.Bool().Draw(t, "the same") {
		return d
	}
	all := d.all()
	at := all[rapid.IntRange(0, len(all)-1).Draw(t, "place")]
	if n := len(at.members); n > 0 {
		i, j := rapid.IntRange(0, n-1).Draw(t, "member"), rapid.IntRange(0, n-1).Draw(t, "other member")
		switch rapid.IntRange(0, 5).Draw(t, "change") {
		case 0:
			at.members = slices.Delete(at.members, i, i+1)
			return d
		case 1:
			at.members[i], at.members[j] = at.members[j], at.members[i]
			return d
		case 2:
			at.members[i].value, at.members[j].value = at.members[j].value, at.members[i].value
			return d
		case 3:
			at.members = slices.Insert(at.members, i, at.members[j])
			return d
		case 4:
			if at.kind == object {
				at.members[i].name = drawName(t)
				return d
			}
		}
	}
	if at == all[0] {
		return d
	}
	switch k := at.kind; {
	case k == text && rapid.Bool().Draw(t, "another text"):
		at.text = drawText(t, "new text")
	case k == number && rapid.Bool().Draw(t, "another number"):
		*at = drawNumber(t)
	case rapid.Bool().Draw(t, "into an array"):
		*at = document{kind: array, members: []member{{value: at.clone()}}}
	default:
		*at = drawDocument(t, 1)
	}
	return d
}

// TestFingerprintIsMeaning: two records have the same fingerprint if and only if they have the same meaning.
func TestFingerprintIsMeaning(t *testing.T) {
	t.Parallel()
	f := newJSON(t, properties["top"])
	rapid.Check(t, func(t *rapid.T) {
		a := drawRecord(t, false)
		b := drawTwin(t, a)
		x, y := spelling{t, true}.value(a), spelling{t, true}.value(b)
		first, err := f.Read(context.Background(), []byte(x))
		if err != nil {
			t.Fatalf("%s: %v", x, err)
		}
		second, err := f.Read(context.Background(), []byte(y))
		if err != nil {
			return // the change took the id away
		}
		if same := meaningWithout(a) == meaningWithout(b); same != (first.Fingerprint == second.Fingerprint) {
			t.Fatalf("same meaning: %v, same fingerprint: %v\n%s\n%s", same, !same, x, y)
		}
	})
}

// meaningWithout returns the meaning without the first id, v and contexts.
func meaningWithout(d document) string {
	for _, name := range []string{"id", "v", "contexts"} {
		i := slices.IndexFunc(d.members, func(m member) bool { return string(m.name) == name })
		if i >= 0 {
			d.members = slices.Delete(slices.Clone(d.members), i, i+1)
		}
	}
	return d.meaning()
}

// TestRenameChangesNothingElse: the copy without the additions of Rename equals the record, byte for byte. Read finds
// another id and no other difference.
func TestRenameChangesNothingElse(t *testing.T) {
	t.Parallel()
	for name, o := range properties {
		f := newJSON(t, o)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renamed := 0
			rapid.Check(t, func(t *rapid.T) {
				record := []byte(spelling{t, rapid.Bool().Draw(t, "shuffled")}.value(drawRecord(t, name == "deep")))
				before, err := f.Read(context.Background(), record)
				if err != nil || before.ID != "old" {
					return // shuffling put another member of that name in front
				}
				after, err := f.Rename(context.Background(), record, before.ID, "\x01new")
				if err != nil {
					return // no place for the contexts
				}
				renamed++
				checkRenamed(t, f, record, after, before)
			})
			if renamed == 0 {
				t.Error("no record could be renamed: the test shows nothing")
			}
		})
	}
}

func checkRenamed(t *rapid.T, f *format.JSON, record, renamed []byte, before format.Fields) {
	want := before
	want.ID = "\x01new"
	got, err := f.Read(context.Background(), renamed)
	if err != nil || got != want {
		t.Fatalf("want %+v, got %+v, %v\n%s\n%s", want, got, err, record, renamed)
	}
	for _, undone := range withoutContext(string(renamed)) {
		front, back, found := strings.Cut(undone, `"\u0001new"`)
		id, cut := strings.CutPrefix(string(record), front)
		id, cutToo := strings.CutSuffix(id, back)
		if found && cut && cutToo && json.Unmarshal([]byte(id), new(string)) == nil {
			return
		}
	}
	t.Fatalf("more has changed than was added:\n%s\n%s", record, renamed)
}

// withoutContext returns the texts to which Rename may have added the context.
func withoutContext(renamed string) []string {
	var out []string
	for _, added := range []struct{ text, instead string }{
		{duplicate + ",", ""}, {duplicate, ""}, {"[" + duplicate + "]", "null"},
		{`"contexts":[` + duplicate + `]`, ""}, {`"a":{"contexts":[` + duplicate + `]}`, ""},
		{`,"contexts":[` + duplicate + `]`, ""}, {`,"a":{"contexts":[` + duplicate + `]}`, ""},
	} {
		if strings.Contains(renamed, added.text) {
			out = append(out, strings.Replace(renamed, added.text, added.instead, 1))
		}
	}
	return out
}
