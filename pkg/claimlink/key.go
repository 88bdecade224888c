package claimlink

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-jose/go-jose/v4"
)

// privateBlock is the type of the PEM block of a private key (RFC 7468, section 10).
const privateBlock = "PRIVATE KEY"

// PrivateKey signs links. It is safe for concurrent use.
type PrivateKey struct {
	key    ed25519.PrivateKey
	signer jose.Signer
}

// NewKey makes a key from the random numbers of the system.
func NewKey() (*PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return newPrivateKey(key)
}

// ParsePrivateKey reads the text of PrivateKey.PEM. OpenSSL writes the same form: openssl genpkey -algorithm ed25519.
// The error repeats no part of the text.
func ParsePrivateKey(text []byte) (*PrivateKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != privateBlock || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("claimlink: it is not one private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("claimlink: it is not an Ed25519 key")
	}
	return newPrivateKey(key)
}

func newPrivateKey(key ed25519.PrivateKey) (*PrivateKey, error) {
	public, _ := key.Public().(ed25519.PublicKey)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: idOf(public)}},
		(&jose.SignerOptions{}).WithType(tokenType))
	if err != nil {
		return nil, err
	}
	return &PrivateKey{key, signer}, nil
}

// PEM returns the key in PKCS #8, as PEM. It is a secret: a person who has it can make links for any customer.
func (k *PrivateKey) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: der}), nil
}

// Public returns the public key as one word for ParseKeys: the text between the first and the last line of its PEM.
func (k *PrivateKey) Public() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(k.key.Public())
	return base64.StdEncoding.EncodeToString(der), err
}

// ID returns the id by which a token names the key. It is not secret.
func (k *PrivateKey) ID() string {
	public, _ := k.key.Public().(ed25519.PublicKey)
	return idOf(public)
}

// String returns the key id, so that a log never has the key.
func (k *PrivateKey) String() string { return "link key " + k.ID() }

// idBytes is how many bytes of the hash name a key. They are enough to give the keys of a deployment different names.
const idBytes = 8

func idOf(key ed25519.PublicKey) string {
	hash := sha256.Sum256(key)
	return base64.RawURLEncoding.EncodeToString(hash[:idBytes])
}

// Keys are the public keys whose links are valid. With the zero value, no link is valid.
type Keys struct{ byID map[string]ed25519.PublicKey }

// ParseKeys reads public keys with commas or white space between them. Use several keys during a rotation. The error
// says which of the keys is wrong. It repeats no part of the text, which may be a private key by mistake.
func ParseKeys(text string) (Keys, error) {
	if strings.Contains(text, privateBlock) {
		return Keys{}, errors.New("claimlink: it is a private key, which must stay secret: take the public one, FILE.pub")
	}
	keys := Keys{map[string]ed25519.PublicKey{}}
	for i, word := range strings.FieldsFunc(text, separates) {
		key, err := parsePublicKey(word)
		if err != nil {
			return Keys{}, fmt.Errorf("claimlink: key %d is %w", i+1, err)
		}
		keys.byID[idOf(key)] = key
	}
	if len(keys.byID) == 0 {
		return Keys{}, errors.New("claimlink: it has no key")
	}
	return keys, nil
}

func separates(r rune) bool { return r == ',' || unicode.IsSpace(r) }

func parsePublicKey(word string) (ed25519.PublicKey, error) {
	der, err := base64.StdEncoding.Strict().DecodeString(word)
	if err != nil {
		return nil, errors.New("not base64")
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, errors.New("not an Ed25519 public key")
	}
	return key, nil
}
