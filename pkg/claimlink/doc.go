// Package claimlink makes and checks the tokens of personal links. A token lets one claimant claim in one campaign, or
// in the campaigns of one scope, until it expires.
//
// A back end or the command `oncebox links make` signs with a private key. The claim function has public keys only:
//
//	key, err := claimlink.NewKey()
//	token, err := key.Sign(claimlink.Claims{Claimant: "customer-17", Campaign: "spring", Expires: expires})
//	...
//	keys, err := claimlink.ParseKeys(key.Public())
//	claims, err := keys.Verify(token, time.Now())
//
// # Token
//
// A token is a JWS in the compact form (RFC 7515), signed with Ed25519 (RFC 8037). Any JOSE library can make one:
//
//	header   {"alg":"EdDSA","kid":KEY ID,"typ":"oncebox-link+jwt"}
//	payload  {"sub":CLAIMANT,"campaign":NAME,"exp":SECONDS SINCE 1970}
//	payload  {"sub":CLAIMANT,"scope":NAME,"exp":SECONDS SINCE 1970}
//
// Campaign and scope are separate members, because a campaign without a scope of its own has a scope of the same
// name. A token with another algorithm, type or member is not valid. There is no issuer and no audience, because a
// key belongs to one deployment and signs nothing else. The key id is the first 8 bytes of the SHA-256 of the public
// key, in base64url.
//
// A token is a secret of its claimant, and no error of this package repeats a part of one. A token can be used again:
// a repeated request gets the same item.
package claimlink
