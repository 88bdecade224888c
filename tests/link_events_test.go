package tests

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/claimlink"
)

// linkTokens are the claims in the tokens of the events with links.
var linkTokens = map[string]claimlink.Claims{
	"claim-link":               {Claimant: "2d8f0a61-7f3e-4b1c-a7d5-90c4be1f6a23", Campaign: "spring"},
	"claim-link-scope":         {Claimant: "2d8f0a61-7f3e-4b1c-a7d5-90c4be1f6a23", Scope: "workshops"},
	"get-me-link":              {Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Campaign: "spring"},
	"confirm-by-link":          {Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Campaign: "seats"},
	"other-claimant-with-link": {Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Campaign: "spring"},
	"link-of-another-campaign": {Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Campaign: "summer"},
	"link-of-another-scope":    {Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Scope: "workshops"},
	"expired-link": {
		Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Campaign: "spring", Expires: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	},
	"forged-link":   {Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Campaign: "spring"}, // as "customer-17"
	"unsigned-link": {Claimant: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44", Campaign: "spring"}, // with the algorithm "none"
}

// farFuture is when the links of the events expire.
var farFuture = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)

// eventLinkKey has signed the links of the events.
func eventLinkKey(t testing.TB) *claimlink.PrivateKey {
	t.Helper()
	seed := sha256.Sum256([]byte("oncebox: links of events/claim"))
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed[:]))
	must(t, err)
	key, err := claimlink.ParsePrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	must(t, err)
	return key
}

// eventLinkKeys is ONCEBOX_LINK_KEYS for the events.
func eventLinkKeys(t testing.TB) string {
	t.Helper()
	public, err := eventLinkKey(t).Public()
	must(t, err)
	return public
}

// TestLinksOfEvents checks that the events have the tokens of the table.
func TestLinksOfEvents(t *testing.T) {
	t.Parallel()
	key := eventLinkKey(t)
	for name, claims := range linkTokens {
		if claims.Expires.IsZero() {
			claims.Expires = farFuture
		}
		want, err := key.Sign(claims)
		must(t, err)
		parts := strings.Split(want, ".")
		encode := base64.RawURLEncoding.EncodeToString
		switch name {
		case "forged-link":
			content, err := base64.RawURLEncoding.DecodeString(parts[1])
			must(t, err)
			parts[1] = encode([]byte(strings.Replace(string(content), claims.Claimant, "customer-17", 1)))
		case "unsigned-link":
			parts[0], parts[2] = encode([]byte(`{"alg":"none","kid":"`+key.ID()+`","typ":"oncebox-link+jwt"}`)), ""
		}
		var event events.APIGatewayV2HTTPRequest
		must(t, json.Unmarshal(readEvent(t, name), &event))
		equal(t, "Authorization of "+name, event.Headers["authorization"], "Bearer "+strings.Join(parts, "."))
	}
}
