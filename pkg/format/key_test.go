package format_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/format"
)

// TestKeyOf pins the keys, because ledgers store them. The key of a UUID is the hash of the tag u and its 16 bytes.
// The key of another id is the hash of the tag b and its bytes.
func TestKeyOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ id, want string }{
		{"0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d", "3a21ce31de4131070fc4d9258a8e5614"},
		{"0F6DD1F5-7B3F-4A38-9C0E-5D6F1A2B3C4D", "3a21ce31de4131070fc4d9258a8e5614"},
		{"0f6dd1f5-7B3F-4a38-9C0E-5D6F1A2b3c4D", "3a21ce31de4131070fc4d9258a8e5614"},
		{"", "3e23e8160039594a33894f6564e1b134"},
		{"order-1", "7fb8f44874131a99d1b8e429779c13b3"},
		{"ORDER-1", "b28d464e7b4408d9996c3b9cdfe08d21"},
		{"0f6dd1f57b3f4a389c0e5d6f1a2b3c4d", "996b8e02f670959f8bbf14ebe2aa51c6"},
		{"{0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d}", "5bc662040e3636bfe7a5a34927bed91a"},
	} {
		if got := format.KeyOf(test.id); hex.EncodeToString(got[:]) != test.want {
			t.Errorf("%q: want %s, got %x", test.id, test.want, got)
		}
	}
	// Only the form 8-4-4-4-12 is a UUID.
	for _, id := range []string{
		"urn:uuid:0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d", "0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4g",
		"0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4", "0f6dd1f57-b3f-4a38-9c0e-5d6f1a2b3c4d",
		" 0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d", strings.Repeat("long", 1000),
	} {
		want := sha256.Sum256([]byte("b" + id))
		if got := format.KeyOf(id); !bytes.Equal(got[:], want[:16]) {
			t.Errorf("%.50q: want %x, got %x", id, want[:16], got)
		}
	}
}

// TestNoIDTakesAnothersKey: an id that is made from the key, or from the hashed bytes, of another id does not have
// the key of that id. The first UUID is the beginning of the SHA-256 of "order-1".
func TestNoIDTakesAnothersKey(t *testing.T) {
	t.Parallel()
	const id = "0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d"
	value := uuid.MustParse(id)
	key := format.KeyOf("order-1")
	for _, pair := range [][2]string{
		{"0bafe221-56d2-698c-143b-86040446d366", "order-1"},
		{uuid.UUID(key).String(), "order-1"},
		{string(value[:]), id},
		{"u" + string(value[:]), id},
		{"b" + string(value[:]), id},
		{"border-1", "order-1"},
	} {
		if format.KeyOf(pair[0]) == format.KeyOf(pair[1]) {
			t.Errorf("%q has the key of %q", pair[0], pair[1])
		}
	}
}

func TestKeyAllocations(t *testing.T) {
	for _, id := range []string{"order-1", "0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d", strings.Repeat("x", 255)} {
		if got := testing.AllocsPerRun(100, func() { format.KeyOf(id) }); got != 0 {
			t.Errorf("%.50q: %v allocations", id, got)
		}
	}
}

func TestDerivedID(t *testing.T) {
	t.Parallel()
	space := uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/oncebox/oncebox"))
	if space.String() != "f75bcdec-c9df-522e-9113-3b335390f077" {
		t.Fatalf("the contract's name space is not what it says: %s", space)
	}
	for _, test := range []struct{ id, fingerprint, want string }{
		{"order-1", "fp1", "a78d0945-7855-5071-b185-8466c665a24d"}, // the contract's
		{"ORDER-1", "fp1", uuid.NewSHA1(uuid.NewSHA1(space, []byte("ORDER-1")), []byte("fp1")).String()},
		{"0F6DD1F5-7B3F-4A38-9C0E-5D6F1A2B3C4D", "", uuid.NewSHA1(uuid.NewSHA1(space, []byte("0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d")), nil).String()},
		{"0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d", "", format.DerivedID("0F6DD1F5-7B3F-4A38-9C0E-5D6F1A2B3C4D", "")},
		{"{0F6DD1F5-7B3F-4A38-9C0E-5D6F1A2B3C4D}", "", uuid.NewSHA1(uuid.NewSHA1(space, []byte("{0F6DD1F5-7B3F-4A38-9C0E-5D6F1A2B3C4D}")), nil).String()},
	} {
		if got := format.DerivedID(test.id, test.fingerprint); got != test.want {
			t.Errorf("%s, %s: want %s, got %s", test.id, test.fingerprint, test.want, got)
		}
	}
	if format.DerivedID("ab", "c") == format.DerivedID("a", "bc") {
		t.Error("id and fingerprint run into each other")
	}
}
