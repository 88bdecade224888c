package claimlink_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
)

var now = time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)

var ann = claimlink.Claims{Claimant: "ann", Campaign: "spring", Expires: now.Add(time.Hour)}

func TestLinkIsReadAsSigned(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	keys := parse(t, public(t, key))
	for _, c := range []claimlink.Claims{
		ann,
		{Claimant: "ann", Scope: "spring", Expires: ann.Expires},
		{Claimant: `<a&b> "\"` + "\u2028 Zoë 日本", Campaign: "spring", Expires: ann.Expires},
		{Claimant: strings.Repeat(`"`, 256), Scope: strings.Repeat("s", 63), Expires: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
	} {
		token := sign(t, key, c)
		if again := sign(t, key, c); again != token {
			t.Error("a second token of the same claims differs")
		}
		got, err := keys.Verify(token, now)
		if err != nil || got != c {
			t.Errorf("got %+v, %v, want %+v", got, err, c)
		}
		if len(token) > 1100 {
			t.Errorf("the token has %d bytes", len(token))
		}
	}
}

func TestLinkExpiresAtItsSecond(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	keys, token := parse(t, public(t, key)), sign(t, key, ann)
	for at, want := range map[time.Time]error{
		ann.Expires.Add(-1): nil, ann.Expires: claimlink.ErrExpired, ann.Expires.Add(time.Hour): claimlink.ErrExpired,
	} {
		if _, err := keys.Verify(token, at); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("at %v: got %v, want %v", at, err, want)
		}
	}
}

// TestRotation: while both keys count, the links of both are valid. Later only the links of the new key are.
func TestRotation(t *testing.T) {
	t.Parallel()
	older, newer := newKey(t), newKey(t)
	before, after := sign(t, older, ann), sign(t, newer, ann)
	both := public(t, older) + ", " + public(t, newer) + "\n"
	for text, valid := range map[string][2]bool{
		public(t, older): {true, false}, both: {true, true}, public(t, newer): {false, true},
	} {
		keys := parse(t, text)
		for i, token := range []string{before, after} {
			if _, err := keys.Verify(token, now); (err == nil) != valid[i] {
				t.Errorf("token %d: %v", i, err)
			}
		}
	}
	if _, err := (claimlink.Keys{}).Verify(before, now); !errors.Is(err, claimlink.ErrInvalid) {
		t.Errorf("without keys: %v", err)
	}
}

const header = `{"alg":"EdDSA","kid":"KID","typ":"oncebox-link+jwt"}`

// TestForgedLinks: a token that the key did not sign for a link is invalid. The first token is valid, which shows
// that the others fail only because of their faults.
func TestForgedLinks(t *testing.T) {
	t.Parallel()
	private, err := newSeed()
	must(t, err)
	publicKey, _ := private.Public().(ed25519.PublicKey)
	key := fromSeed(t, private)
	keys := parse(t, public(t, key))
	edward := func(key ed25519.PrivateKey) func(string) []byte {
		return func(input string) []byte { return ed25519.Sign(key, []byte(input)) }
	}
	signed, other := edward(private), edward(mustSeed(t))
	mac := func(secret []byte) func(string) []byte {
		return func(input string) []byte {
			h := hmac.New(sha256.New, secret)
			h.Write([]byte(input))
			return h.Sum(nil)
		}
	}
	none := func(string) []byte { return nil }
	const body = `{"sub":"ann","campaign":"spring","exp":1803895200}`
	good := compact(key, header, body, signed)
	if _, err := keys.Verify(good, now); err != nil {
		t.Fatalf("the token that the others are made of is refused: %v", err)
	}
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"nothing":              "",
		"one part":             parts[0],
		"two parts":            parts[0] + "." + parts[1],
		"four parts":           good + ".x",
		"no signature":         parts[0] + "." + parts[1] + ".",
		"cut off":              good[:len(good)-2],
		"padded":               good + "==",
		"oversize":             good + strings.Repeat("A", 4096),
		"oversize and signed":  compact(key, header, strings.Replace(body, "}", strings.Repeat(" ", 4096)+"}", 1), signed),
		"JSON form":            `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"none":                 compact(key, strings.Replace(header, "EdDSA", "none", 1), body, none),
		"None":                 compact(key, strings.Replace(header, "EdDSA", "None", 1), body, none),
		"no algorithm":         compact(key, strings.Replace(header, `"alg":"EdDSA",`, "", 1), body, signed),
		"HMAC with the key":    compact(key, strings.Replace(header, "EdDSA", "HS256", 1), body, mac(publicKey)),
		"HMAC as EdDSA":        compact(key, header, body, mac(publicKey)),
		"named Ed25519":        compact(key, strings.Replace(header, "EdDSA", "Ed25519", 1), body, signed),
		"ES256":                compact(key, strings.Replace(header, "EdDSA", "ES256", 1), body, signed),
		"another key":          compact(key, header, body, other),
		"another key's id":     compact(newKey(t), header, body, other),
		"id of another key":    compact(newKey(t), header, body, signed),
		"no key id":            compact(key, strings.Replace(header, `"kid":"KID",`, "", 1), body, signed),
		"its own key":          compact(key, withJWK(t), body, other),
		"no type":              compact(key, strings.Replace(header, `,"typ":"oncebox-link+jwt"`, "", 1), body, signed),
		"a plain JWT":          compact(key, strings.Replace(header, "oncebox-link+jwt", "JWT", 1), body, signed),
		"type of another kind": compact(key, strings.Replace(header, `"oncebox-link+jwt"`, "7", 1), body, signed),
		"extra header":         compact(key, strings.Replace(header, "}", `,"cty":"x"}`, 1), body, signed),
		"critical header":      compact(key, strings.Replace(header, "}", `,"crit":["exp"]}`, 1), body, signed),
		"algorithm twice":      compact(key, strings.Replace(header, "{", `{"alg":"none",`, 1), body, signed),
		"header is no object":  compact(key, "[]", body, signed),
		"other payload":        parts[0] + "." + encode(strings.Replace(body, "ann", "bob", 1)) + "." + parts[2],

		"payload is no object":     compact(key, header, `"ann"`, signed),
		"payload is not JSON":      compact(key, header, `{"sub":`, signed),
		"trailing data":            compact(key, header, body+"{}", signed),
		"member twice":             compact(key, header, strings.Replace(body, "{", `{"sub":"bob",`, 1), signed),
		"member in other case":     compact(key, header, strings.Replace(body, "sub", "Sub", 1), signed),
		"extra member":             compact(key, header, strings.Replace(body, "{", `{"slot":2,`, 1), signed),
		"no claimant":              compact(key, header, strings.Replace(body, `"sub":"ann",`, "", 1), signed),
		"empty claimant":           compact(key, header, strings.Replace(body, "ann", "", 1), signed),
		"claimant is a number":     compact(key, header, strings.Replace(body, `"ann"`, "7", 1), signed),
		"long claimant":            compact(key, header, strings.Replace(body, "ann", strings.Repeat("a", 257), 1), signed),
		"control character":        compact(key, header, strings.Replace(body, "ann", `a\u0000`, 1), signed),
		"no campaign":              compact(key, header, strings.Replace(body, `"campaign":"spring",`, "", 1), signed),
		"campaign with a bad name": compact(key, header, strings.Replace(body, "spring", "Spring", 1), signed),
		"scope with a bad name":    compact(key, header, strings.Replace(body, `campaign":"spring`, `scope":"-`, 1), signed),
		"campaign and scope":       compact(key, header, strings.Replace(body, "{", `{"scope":"spring",`, 1), signed),
		"campaign is a list":       compact(key, header, strings.Replace(body, `"spring"`, `["spring"]`, 1), signed),
		"no end":                   compact(key, header, strings.Replace(body, `,"exp":1803895200`, "", 1), signed),
		"end is a text":            compact(key, header, strings.Replace(body, "1803895200", `"1803895200"`, 1), signed),
		"end has a fraction":       compact(key, header, strings.Replace(body, "1803895200", "1803895200.5", 1), signed),
		"end is huge":              compact(key, header, strings.Replace(body, "1803895200", "1e300", 1), signed),
		"end is null":              compact(key, header, strings.Replace(body, "1803895200", "null", 1), signed),
		"end is negative":          compact(key, header, strings.Replace(body, "1803895200", "-1", 1), signed),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := keys.Verify(token, now)
			if !errors.Is(err, claimlink.ErrInvalid) || got != (claimlink.Claims{}) {
				t.Fatalf("got %+v, %v", got, err)
			}
			for part := range strings.SplitSeq(token, ".") {
				if len(part) > 3 && strings.Contains(err.Error(), part) {
					t.Errorf("the error repeats a part of the token: %v", err)
				}
			}
		})
	}
}

// withJWK returns a header with a key of the token's own, which must be ignored.
func withJWK(t *testing.T) string {
	t.Helper()
	key, _ := mustSeed(t).Public().(ed25519.PublicKey)
	jwk := `{"kty":"OKP","crv":"Ed25519","x":"` + base64.RawURLEncoding.EncodeToString(key) + `"}`
	return strings.Replace(header, "}", `,"jwk":`+jwk+"}", 1)
}

func TestWrongClaimsAreNotSigned(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	for field, c := range map[string]claimlink.Claims{
		"claimant": {Campaign: "spring", Expires: now},
		"campaign": {Claimant: "ann", Expires: now},
		"scope":    {Claimant: "ann", Campaign: "spring", Scope: "spring", Expires: now},
		"expires":  {Claimant: "ann", Campaign: "spring"},
	} {
		_, err := key.Sign(c)
		var invalid *itembank.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestPrivateKeyIsReadAsWritten(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	text, err := key.PEM()
	must(t, err)
	again, err := claimlink.ParsePrivateKey(text)
	must(t, err)
	if again.ID() != key.ID() || sign(t, again, ann) != sign(t, key, ann) {
		t.Error("the key is another one")
	}
	secret := strings.Split(string(text), "\n")[1]
	if shown := fmt.Sprintf("%v %s", key, key); strings.Contains(shown, secret) || !strings.Contains(shown, key.ID()) {
		t.Errorf("shown as %s", shown)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(curve)
	must(t, err)
	for name, text := range map[string]string{
		"nothing": "", "public key": public(t, key), "two keys": string(text) + string(text),
		"another kind of PEM": strings.ReplaceAll(string(text), "PRIVATE", "PUBLIC"),
		"damaged":             strings.Replace(string(text), secret[:8], "AAAAAAAA", 1),
		"ECDSA":               string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	} {
		if _, err := claimlink.ParsePrivateKey([]byte(text)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrongPublicKeys(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	private, err := key.PEM()
	must(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(curve.Public())
	must(t, err)
	word := public(t, key)
	for text, want := range map[string]string{
		"":                                      "no key",
		" ,\n":                                  "no key",
		string(private):                         "private key",
		strings.Split(string(private), "\n")[1]: "key 1 is not an Ed25519 public key",
		word + ",hunter2!":                      "key 2 is not base64",
		word[:len(word)-4]:                      "key 1 is not an Ed25519 public key",
		base64.StdEncoding.EncodeToString(der):  "key 1 is not an Ed25519 public key",
	} {
		_, err := claimlink.ParseKeys(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// FuzzVerify: only the signed token is valid, and the parser never panics. A text that differs only in bits that
// base64 ignores is the same token.
func FuzzVerify(f *testing.F) {
	key, err := claimlink.NewKey()
	must(f, err)
	keys := parse(f, public(f, key))
	good := sign(f, key, ann)
	parts := strings.Split(good, ".")
	for _, seed := range []string{"", ".", "..", "...", good, parts[0] + "..", good + "\n", strings.ToUpper(good)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		got, err := keys.Verify(token, now)
		switch {
		case err == nil && got != ann:
			t.Errorf("%q is valid and says %+v", token, got)
		case err != nil && !errors.Is(err, claimlink.ErrInvalid):
			t.Errorf("%q: %v", token, err)
		}
	})
}

// compact makes a token from any header and payload. KID is replaced by the id of the key.
func compact(key *claimlink.PrivateKey, header, payload string, sign func(input string) []byte) string {
	input := encode(strings.ReplaceAll(header, "KID", key.ID())) + "." + encode(payload)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func newSeed() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(nil)
	return key, err
}

func mustSeed(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	key, err := newSeed()
	must(t, err)
	return key
}

func fromSeed(t testing.TB, key ed25519.PrivateKey) *claimlink.PrivateKey {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	private, err := claimlink.ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	must(t, err)
	return private
}

func newKey(t testing.TB) *claimlink.PrivateKey {
	t.Helper()
	key, err := claimlink.NewKey()
	must(t, err)
	return key
}

func public(t testing.TB, key *claimlink.PrivateKey) string {
	t.Helper()
	text, err := key.Public()
	must(t, err)
	return text
}

func parse(t testing.TB, text string) claimlink.Keys {
	t.Helper()
	keys, err := claimlink.ParseKeys(text)
	must(t, err)
	return keys
}

func sign(t testing.TB, key *claimlink.PrivateKey, c claimlink.Claims) string {
	t.Helper()
	token, err := key.Sign(c)
	must(t, err)
	return token
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
