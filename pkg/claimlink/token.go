package claimlink

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // unlike encoding/json, it refuses a member that occurs twice

	"github.com/oncebox/oncebox/pkg/itembank"
)

const (
	// algorithm is the only allowed one. The header of a token cannot choose another.
	algorithm = jose.EdDSA

	// tokenType distinguishes a link from other tokens that the same key might sign (RFC 8725, section 3.11).
	tokenType = "oncebox-link+jwt"

	// maxToken is larger than any token: with the longest claimant, each byte of which JSON escapes to two, a token
	// has less than 1,100 bytes. A longer text is not decoded.
	maxToken = 2048
)

var (
	// ErrInvalid says that no key of the deployment has signed the token, or that the token does not have the content
	// of a link. Errors that wrap it have details for the log. Tell the client only this error.
	ErrInvalid = errors.New("claimlink: the link is not valid")

	// ErrExpired says that a token was valid and has expired.
	ErrExpired = errors.New("claimlink: the link has expired")
)

// The kinds of ErrInvalid. They contain no text of the token.
var (
	errForm      = fmt.Errorf("%w: its token is not a JWS signed with Ed25519", ErrInvalid)
	errType      = fmt.Errorf("%w: its token is of another type", ErrInvalid)
	errKey       = fmt.Errorf("%w: no key has the id that its token names", ErrInvalid)
	errSignature = fmt.Errorf("%w: its signature is wrong", ErrInvalid)
	errContent   = fmt.Errorf("%w: its content is not that of a link", ErrInvalid)
)

// Claims are the content of a link. Either Campaign or Scope is set.
type Claims struct {
	Claimant string
	Campaign string    // the link is for this campaign
	Scope    string    // the link is for all campaigns of this scope
	Expires  time.Time // in whole seconds; fractions are cut off
}

// payload is the content of a token.
type payload struct {
	Subject  string `json:"sub"`
	Campaign string `json:"campaign,omitempty"`
	Scope    string `json:"scope,omitempty"`
	Expires  int64  `json:"exp"`
}

// Sign makes the token of a link. The same claims and key always make the same token. If the claims are wrong, the
// error is an *itembank.InvalidError.
func (k *PrivateKey) Sign(c Claims) (string, error) {
	if err := c.validate(); err != nil {
		return "", err
	}
	var content bytes.Buffer
	encoder := stdjson.NewEncoder(&content)
	encoder.SetEscapeHTML(false) // shorter links
	if err := encoder.Encode(payload{c.Claimant, c.Campaign, c.Scope, c.Expires.Unix()}); err != nil {
		return "", err
	}
	signed, err := k.signer.Sign(bytes.TrimSpace(content.Bytes()))
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// Verify returns the content of a token if one of the keys has signed it. A token is valid until its expiry second
// begins. Errors: ErrInvalid, ErrExpired.
func (k Keys) Verify(token string, now time.Time) (Claims, error) {
	content, err := k.content(token)
	if err != nil {
		return Claims{}, err
	}
	c, ok := claimsOf(content)
	switch {
	case !ok || c.validate() != nil:
		return Claims{}, errContent
	case !now.Before(c.Expires):
		return Claims{}, ErrExpired
	}
	return c, nil
}

// content checks the signature and returns the payload. It does not read the payload before that.
func (k Keys) content(token string) ([]byte, error) {
	if len(token) > maxToken {
		return nil, errForm
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return nil, errForm
	}
	header := signed.Signatures[0].Protected
	if len(header.ExtraHeaders) != 1 || header.ExtraHeaders[jose.HeaderType] != tokenType {
		return nil, errType
	}
	key, ok := k.byID[header.KeyID]
	if !ok {
		return nil, errKey
	}
	content, err := signed.Verify(key)
	if err != nil {
		return nil, errSignature
	}
	return content, nil
}

// claimsOf reads a payload. It refuses unknown members, because one may narrow the permissions in a later version.
func claimsOf(content []byte) (c Claims, ok bool) {
	var members map[string]any
	if json.Unmarshal(content, &members) != nil {
		return c, false
	}
	for name, value := range members {
		switch name {
		case "sub":
			c.Claimant, ok = value.(string)
		case "campaign":
			c.Campaign, ok = value.(string)
		case "scope":
			c.Scope, ok = value.(string)
		case "exp":
			c.Expires, ok = wholeSeconds(value)
		default:
			ok = false
		}
		if !ok {
			return c, false
		}
	}
	return c, true
}

// latest is the last second of the year 9999. Later times cannot be written as RFC 3339.
const latest = 253402300799

func wholeSeconds(value any) (time.Time, bool) {
	seconds, ok := value.(float64)
	if !ok || seconds != math.Trunc(seconds) || seconds < 1 || seconds > latest {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0).UTC(), true
}

func (c Claims) validate() error {
	if err := itembank.ValidateClaimant(c.Claimant); err != nil {
		return err
	}
	if at := c.Expires.Unix(); at < 1 || at > latest {
		return &itembank.InvalidError{Field: "expires", Detail: "must be a time from 1970 to 9999"}
	}
	switch {
	case c.Campaign != "" && c.Scope != "":
		return &itembank.InvalidError{Field: "scope", Detail: "a link is for a campaign or for a scope, not for both"}
	case c.Scope != "":
		return itembank.ValidateName("scope", c.Scope)
	}
	return itembank.ValidateName("campaign", c.Campaign)
}
