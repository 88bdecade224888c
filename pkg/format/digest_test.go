package format_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/format"
)

func TestDiffersOnlyIn(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{
		IDPath: "id", OwnerPath: "meta.owner", TimePath: "time", ContextsPath: "host.in.contexts",
		Volatile: []string{"v", "deep.v"},
	})
	for _, test := range []struct {
		a, b string // members beside the id
		want []string
	}{
		// Equal, also if they are written differently, or differ only in values that fingerprints leave out.
		{`"a":1`, `"a":1`, nil},
		{`"a":1,"b":"é"`, `"b":"\u00e9","\u0061":1.0`, nil},
		{`"v":1,"deep":{"v":1},"meta":{"owner":"x"}`, `"v":2,"deep":{"v":2},"meta":{"owner":"y"}`, nil},
		{`"host":{"in":{"contexts":[1]}}`, ``, nil},
		// One or two members.
		{`"a":1,"b":2`, `"a":1,"b":3`, []string{"b"}},
		{`"a":1,"b":2`, `"b":3,"a":"1"`, []string{"a", "b"}},
		{`"a":1`, `"a":null`, []string{"a"}},
		{`"a":1`, ``, []string{"a"}},
		{``, `"a":[1],"b":{}`, []string{"a", "b"}},
		{`"time":1`, `"time":2`, []string{"time"}},
		// More members.
		{`"a":1,"b":2,"c":3`, `"a":2,"b":3,"c":4`, nil},
		{`"o":{"a":1,"b":2},"c":3`, `"o":{"a":2,"b":3},"c":4`, nil},
		// Objects.
		{`"o":{"a":1,"b":{"c":1}}`, `"o":{"b":{"c":2.5},"a":1}`, []string{"o.b"}},
		{`"o":{"a":1,"b":2},"c":3`, `"o":{"a":1,"b":3},"c":4`, []string{"c", "o.b"}},
		{`"o":{"a":1,"b":2}`, `"o":{}`, []string{"o.a", "o.b"}},
		{`"o":{"a":1}`, `"o":[1]`, []string{"o"}},
		{`"o":{"a":1}`, ``, []string{"o"}},
		{`"o":[{"a":1}]`, `"o":[{"a":2}]`, []string{"o"}},
		// Objects into which a path leads: their own paths are not returned.
		{`"meta":{"owner":"x","a":1}`, `"meta":{"owner":"y","a":2}`, []string{"meta.a"}},
		{`"deep":{"v":1,"b":1}`, `"deep":{"b":2}`, []string{"deep.b"}},
		{`"deep":{"v":1}`, ``, nil},
		{`"host":{"in":{"contexts":[1]}},"a":1`, `"a":2`, []string{"a"}},
		{`"host":{"in":{"contexts":[1]},"a":1}`, `"host":{"a":2}`, []string{"host.a"}},
		{`"host":{"in":{"contexts":[1]},"a":1}`, ``, nil},
		// Repeated names: a path leads to the first one only.
		{`"a":1,"a":2`, `"a":3,"a":2`, []string{"a"}},
		{`"a":1,"a":2`, `"a":1,"a":3`, nil},
		{`"a":1,"a":2`, `"a":2`, nil},
		{`"id":1`, `"id":2`, nil},
		{`"v":1,"v":1`, `"v":1,"v":2`, nil},
		{`"o":{"a":1},"o":{"a":1}`, `"o":{"a":2},"o":{"a":1}`, []string{"o"}},
		{`"o":{"a":1,"a":1}`, `"o":{"a":2,"a":1}`, []string{"o.a"}},
		{`"o":{"a":1,"a":1}`, `"o":{"a":1,"a":2}`, nil},
		// Names with special characters, and names that no path can have.
		{`"a.b":1,"*":{",":1}`, `"a.b":2,"*":{",":2}`, []string{`\*.\,`, `a\.b`}},
		{`"":1`, `"":2`, nil},
		{`"\n":1`, `"\n":2`, nil},
		{`"a":{"\ud800":1}`, `"a":{"\ud800":2}`, nil},
	} {
		a, b := f.Digest(withID("x", test.a)), f.Digest(withID("y", test.b))
		if got := a.DiffersOnlyIn(b); !slices.Equal(got, test.want) {
			t.Errorf("%s and %s: want %q, got %q", test.a, test.b, test.want, got)
		}
		if got := b.DiffersOnlyIn(a); !slices.Equal(got, test.want) {
			t.Errorf("%s and %s: want %q, got %q", test.b, test.a, test.want, got)
		}
	}
}

// withID makes a record of members.
func withID(id, members string) []byte {
	return []byte("{" + strings.TrimSuffix(`"id":"`+id+`",`+members, ",") + "}")
}

// TestDigestSaysNothing: DiffersOnlyIn returns nothing for records with the zero Digest.
func TestDigestSaysNothing(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id", FingerprintPath: "fp"})
	numbered := func(n int) string {
		var members strings.Builder
		for i := range n {
			fmt.Fprintf(&members, `"m%d":0,`, i)
		}
		return members.String()
	}
	digest := func(members string) format.Digest { return f.Digest(withID("x", members)) }
	other := digest(``)
	for _, test := range []struct {
		what string
		a, b format.Digest
		want []string
	}{
		{"a record", digest(`"a":1`), other, []string{"a"}},
		{"a fingerprint that is null", digest(`"a":1,"fp":null`), digest(`"fp":null`), []string{"a"}},
		{"a fingerprint", digest(`"fp":"1"`), other, nil},
		{"a bad fingerprint", digest(`"fp":[]`), other, nil},
		{"not JSON", f.Digest([]byte(`{"id":"x"`)), other, nil},
		{"not an object", f.Digest([]byte(`[1]`)), other, nil},
		{"the zero Digest", format.Digest{}, other, nil},
		{"200 members", digest(numbered(199) + `"a":1`), digest(numbered(199)), []string{"a"}},
		{"201 members", digest(numbered(200) + `"a":1`), digest(numbered(200)), nil},
		{"200 members in two levels", digest(`"o":{` + numbered(198) + `"a":1}`), digest(`"o":{` + numbered(198) + `"a":2}`),
			[]string{"o.a"}},
		{"201 members in two levels", digest(`"o":{` + numbered(199) + `"a":1}`), digest(`"o":{` + numbered(199) + `"a":2}`),
			nil},
		{"a long value", digest(`"a":[` + strings.Repeat("1,", 1000) + `1]`), other, []string{"a"}},
		{"a long name", digest(`"` + strings.Repeat("a", 128) + `":1`), other, []string{strings.Repeat("a", 128)}},
		{"a longer name", digest(`"` + strings.Repeat("a", 129) + `":1`), other, nil},
	} {
		if got := test.a.DiffersOnlyIn(test.b); !slices.Equal(got, test.want) {
			t.Errorf("%s: want %q, got %q", test.what, test.want, got)
		}
		if got := test.b.DiffersOnlyIn(test.a); !slices.Equal(got, test.want) {
			t.Errorf("%s, the other way round: want %q, got %q", test.what, test.want, got)
		}
	}
}

// TestDifferencesAreVolatile: records that differ only in some members have the same fingerprint if these members are
// volatile, and not if only some of them are. Records with the same fingerprint differ in no member.
func TestDifferencesAreVolatile(t *testing.T) {
	t.Parallel()
	for name, o := range properties {
		f := newJSON(t, o)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				first, second := drawPair(r, name == "deep")
				onlyX := rapid.Bool().Draw(r, "differ only in x")
				if onlyX {
					second = first.clone()
					first.members = append(first.members, member{[]rune("x"), document{kind: yes}})
					second.members = append(second.members, member{[]rune("x"), document{kind: no}})
				}
				a, b := spelling{r, true}.value(first), spelling{r, true}.value(second)
				names := f.Digest([]byte(a)).DiffersOnlyIn(f.Digest([]byte(b)))
				switch {
				case onlyX && !slices.Equal(names, []string{"x"}):
					r.Fatalf("differ only in x, and not in %q\n%s\n%s", names, a, b)
				case names != nil && sameWith(t, o, a, b):
					r.Fatalf("the same, and differ in %q\n%s\n%s", names, a, b)
				case names != nil:
					checkVolatile(t, r, o, names, a, b)
				}
			})
		})
	}
}

func checkVolatile(t *testing.T, r *rapid.T, o format.Options, names []string, a, b string) {
	if !sameWith(t, o, a, b, names...) {
		r.Fatalf("differ in more than %q\n%s\n%s", names, a, b)
	}
	for i := range names {
		if sameWith(t, o, a, b, slices.Delete(slices.Clone(names), i, i+1)...) {
			r.Fatalf("differ in less than %q\n%s\n%s", names, a, b)
		}
	}
}

// sameWith reports whether two records have the same fingerprint with more volatile paths.
func sameWith(t *testing.T, o format.Options, a, b string, volatile ...string) bool {
	o.Volatile = slices.Concat(o.Volatile, volatile)
	f := newJSON(t, o)
	return mustRead(t, f, a).Fingerprint == mustRead(t, f, b).Fingerprint
}

// drawPair draws two records of one id, which are the same or differ in a few places.
func drawPair(t *rapid.T, deep bool) (first, second document) {
	first = document{kind: object, members: drawMembers(t, object, 3)}
	second = drawTwin(t, drawTwin(t, first))
	id := member{[]rune("id"), document{kind: text, text: []rune("old")}}
	owner := member{[]rune("owner"), document{kind: text, text: []rune("me")}}
	before := [2][]member{{id, owner}, {id, owner}}
	if deep {
		meta := document{kind: object, members: drawMembers(t, object, 2)}
		for i, members := range [2][]member{meta.members, drawTwin(t, meta).members} {
			before[i][0] = member{[]rune("meta"), document{kind: object, members: slices.Concat([]member{id}, without(members, "id"))}}
		}
	}
	for i, d := range []*document{&first, &second} {
		d.members = slices.Concat(before[i], without(d.members, string(before[i][0].name)))
	}
	return first, second
}
