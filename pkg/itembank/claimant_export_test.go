package itembank

// NormalEmail applies the rules of Email. ok = false: the text is not a valid claimant.
func NormalEmail(text string) (normal string, ok bool) {
	return normalEmail(text), ValidateClaimant(text) == nil
}
