// Package arn reads Amazon Resource Names (IAM User Guide, "Identify AWS resources with Amazon Resource Names").
package arn

import "strings"

// ARN is an arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE.
type ARN struct{ Service, Region, Account, Resource string }

// Parse reads an ARN. It does not check whether the parts are names that exist.
func Parse(text string) (ARN, bool) {
	parts := strings.SplitN(text, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[2] == "" || parts[5] == "" {
		return ARN{}, false
	}
	return ARN{parts[2], parts[3], parts[4], parts[5]}, true
}

// Of reads the ARN of a resource of a service.
func Of(service, text string) (ARN, bool) {
	a, ok := Parse(text)
	return a, ok && a.Service == service
}

// SecretForm is the form of the ARN of a secret of AWS Secrets Manager. It ends in six characters that are not part of
// the name. A policy for an ARN without them allows nothing.
const SecretForm = "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-XXXXXX" //nolint:gosec // a form, and no secret

// Secret reads the complete ARN of a secret (Secrets Manager API reference, CreateSecret).
func Secret(text string) (ARN, bool) {
	const random = len("-XXXXXX")
	a, ok := Of("secretsmanager", text)
	name, isSecret := strings.CutPrefix(a.Resource, "secret:")
	complete := len(name) > random && name[len(name)-random] == '-' && only(name[len(name)-random+1:], letters+capitals+digits) &&
		only(name, letters+capitals+digits+"/_+=.@-")
	return a, ok && strings.HasPrefix(text, "arn:aws") && isSecret && complete && a.Region != "" && only(a.Region, letters+digits+"-") &&
		len(a.Account) == len("123456789012") && only(a.Account, digits)
}

const (
	letters  = "abcdefghijklmnopqrstuvwxyz"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits   = "0123456789"
)

// only reports whether a text has only these characters.
func only(text, characters string) bool { return strings.Trim(text, characters) == "" }
