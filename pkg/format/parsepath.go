package format

// ParsePath returns the names and array indexes of a path in the syntax of Options, for other packages that read
// values of a record. The error is an *OptionError that names the option.
func ParsePath(option, text string) ([]string, error) { return parsePath(option, text) }
