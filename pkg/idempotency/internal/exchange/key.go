package exchange

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxKey is how many characters a key may have. Clients of Stripe send up to as many.
const maxKey = 255

// keyError says what is wrong with the header. It never has the key.
type keyError struct{ detail string }

func (e *keyError) Error() string { return "the header " + KeyHeader + " " + e.detail }

// parseKey returns the key in the values of the header. A key is a string of a structured field (RFC 9651, section
// 3.3.3), as the draft says, or the same text without quotes, as many clients send it.
func parseKey(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", errKeyMissing
	case 1:
	default:
		return "", &keyError{"occurs more than once"}
	}
	value := strings.Trim(values[0], " \t")
	key, err := value, error(nil)
	if strings.HasPrefix(value, `"`) {
		key, err = unquote(value)
	} else if strings.ContainsFunc(value, needsQuotes) {
		err = &keyError{"has a character that is not allowed without quotes"}
	}
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", &keyError{"is empty"}
	case len(key) > maxKey:
		return "", &keyError{fmt.Sprintf("has %d characters, and a key has at most %d", len(key), maxKey)}
	}
	return key, nil
}

// needsQuotes reports whether a key with this character cannot do without quotes. Commas stand between the values of two
// headers that a proxy has joined.
func needsQuotes(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`",;\`, r) }

// unquote returns the text of a string of a structured field.
func unquote(value string) (string, error) {
	var key strings.Builder
	for i := 1; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '"' && i == len(value)-1:
			return key.String(), nil
		case c == '"':
			return "", &keyError{"has text behind the closing quote"}
		case c == '\\':
			if i++; i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", &keyError{`has a \ before a character other than " and \`}
			}
			c = value[i]
		case c < ' ' || c > '~':
			return "", &keyError{"has a character that is not printable ASCII"}
		}
		key.WriteByte(c)
	}
	return "", &keyError{"has no closing quote"}
}

// maxRecordName is the largest key of package idempotency.
const maxRecordName = 1024

// KeyOf returns the key of package idempotency for a key of a caller. Two different pairs never have the same one:
// quotes inside of the names are escaped, and only a hash begins without a quote.
func KeyOf(caller, key string) string {
	name := strconv.Quote(caller) + " " + strconv.Quote(key)
	if len(name) <= maxRecordName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256 " + hex.EncodeToString(sum[:])
}

// fingerprint returns the payload of a request: the hash of its method, path, query and body. The lengths of the first
// three are part of it, so that no two requests have the same.
func fingerprint(r Request, body []byte) []byte {
	h := sha256.New()
	for _, part := range []string{r.Method, r.Path, r.Query} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	h.Write(body)
	return h.Sum(nil)
}
