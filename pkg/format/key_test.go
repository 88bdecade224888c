package format_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/format"
)

func TestKeyOf(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d", "0F6DD1F5-7B3F-4A38-9C0E-5D6F1A2B3C4D",
		"0f6dd1f5-7B3F-4a38-9C0E-5d6F1a2b3c4D"} {
		if got, want := format.KeyOf(id), "0f6dd1f57b3f4a389c0e5d6f1a2b3c4d"; hex.EncodeToString(got[:]) != want {
			t.Errorf("%s: want %s, got %x", id, want, got)
		}
	}
	// All other forms compare as bytes.
	for _, id := range []string{
		"", "order-1", "ORDER-1", "0f6dd1f57b3f4a389c0e5d6f1a2b3c4d", "{0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d}",
		"urn:uuid:0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d",
		"0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4g", "0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4", "0f6dd1f57-b3f-4a38-9c0e-5d6f1a2b3c4d",
		" 0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d",
	} {
		want := sha256.Sum256([]byte(id))
		if got := format.KeyOf(id); !bytes.Equal(got[:], want[:16]) {
			t.Errorf("%q: want %x, got %x", id, want[:16], got)
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
