package exchange

import (
	"strings"
	"testing"
)

// TestParseKey: a key is a string of a structured field, or the same text without quotes. Nothing else is a key.
func TestParseKey(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"8e03978e-40d5-43e8-bc93-6894a57f9324"`: "8e03978e-40d5-43e8-bc93-6894a57f9324",
		`8e03978e-40d5-43e8-bc93-6894a57f9324`:   "8e03978e-40d5-43e8-bc93-6894a57f9324",
		" \t\"a\" ":                              "a",
		" a ":                                    "a",
		`"a, b; c"`:                              "a, b; c",
		`"\"\\"`:                                 `"\`,
		`" "`:                                    " ",
		"aA09+/=_.:~!":                           "aA09+/=_.:~!",
		strings.Repeat("k", 255):                 strings.Repeat("k", 255),
		`"` + strings.Repeat(`\"`, 255) + `"`:    strings.Repeat(`"`, 255),
	} {
		if key, err := parseKey([]string{value}); err != nil || key != want {
			t.Errorf("%q: want %q, got %q, %v", value, want, key, err)
		}
	}
	for value, want := range map[string]string{
		"":                                    "is empty",
		" ":                                   "is empty",
		`""`:                                  "is empty",
		`"`:                                   "no closing quote",
		`"a`:                                  "no closing quote",
		`"a\"`:                                "no closing quote",
		`"a\`:                                 `has a \ before`,
		`"\a"`:                                `has a \ before`,
		`"a"b`:                                "behind the closing quote",
		`"a", "b"`:                            "behind the closing quote",
		`"a";p=1`:                             "behind the closing quote",
		"\"a\tb\"":                            "not printable ASCII",
		`"ä"`:                                 "not printable ASCII",
		"\"\x7f\"":                            "not printable ASCII",
		"a b":                                 "not allowed without quotes",
		"a,b":                                 "not allowed without quotes",
		"a;b":                                 "not allowed without quotes",
		`a"`:                                  "not allowed without quotes",
		`a\`:                                  "not allowed without quotes",
		"ä":                                   "not allowed without quotes",
		"\xff":                                "not allowed without quotes",
		strings.Repeat("k", 256):              "has 256 characters",
		`"` + strings.Repeat("k", 1000) + `"`: "has 1000 characters",
	} {
		if key, err := parseKey([]string{value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error with %q, got %q, %v", value, want, key, err)
		}
	}
}

// TestKeyOf: no two pairs of a caller and a key have the same record, also if one is made to look like the other.
func TestKeyOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1000)
	parts := []string{
		"a", "b", `a" "b`, `b" "a`, `"`, `\"`, `" "`, " ", "", "a b", "\xff", "\\xff", "\ufffd", "ä", long, long + `" "a`, long + "b",
		KeyOf(long, "a"), KeyOf(long, long), KeyOf("a", "b"),
	}
	seen := map[string][2]int{}
	for i, caller := range parts {
		for j, key := range parts {
			name := KeyOf(caller, key)
			if other, found := seen[name]; found {
				t.Errorf("the parts %v and %d, %d have the record %.80q", other, i, j, name)
			}
			seen[name] = [2]int{i, j}
			if len(name) == 0 || len(name) > 1024 {
				t.Errorf("%.80q has %d bytes", name, len(name))
			}
		}
	}
	if name := KeyOf("ann", "order-17"); name != `"ann" "order-17"` {
		t.Errorf("a short name is %s", name)
	}
}

// TestFingerprint: a text that moves from one part of a request into the next makes another request.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, r := range []struct {
		Request
		body string
	}{
		{Request{Method: "PUT", Path: "/a", Query: "b"}, "c"},
		{Request{Method: "PUT/", Path: "a", Query: "b"}, "c"},
		{Request{Method: "PUT", Path: "/ab", Query: ""}, "c"},
		{Request{Method: "PUT", Path: "/", Query: "ab"}, "c"},
		{Request{Method: "PUT", Path: "/a", Query: ""}, "bc"},
		{Request{Method: "PUT", Path: "/a", Query: "bc"}, ""},
		{Request{Method: "", Path: "", Query: ""}, ""},
		{Request{Method: "", Path: "", Query: ""}, "\x00\x00\x00\x00\x00\x00\x00\x00"},
	} {
		hash := string(fingerprint(r.Request, []byte(r.body)))
		if other, found := seen[hash]; found {
			t.Errorf("%d and %d have one fingerprint", other, i)
		}
		seen[hash] = i
	}
}
