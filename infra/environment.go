package infra

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// environment holds a function's variables. Empty ones are left out.
type environment map[string]string

func (e environment) pointers() *map[string]*string {
	variables := map[string]*string{}
	for name, value := range e {
		if value != "" {
			variables[name] = &value
		}
	}
	return &variables
}

// token is how the CDK writes a value that only the deployment knows, such as the
// name of a table, into a text.
var token = regexp.MustCompile(`\$\{Token\[[^\]]*?(\d+)\]\}`)

// known is the environment in the form of os.Environ, for a function's own parser,
// with stand-ins for what only the deployment knows.
func (e environment) known() (environ []string) {
	for name, value := range e {
		environ = append(environ, name+"="+token.ReplaceAllString(value, "stand-in-$1"))
	}
	return environ
}

// mostEnvironment is how many bytes all variables of a function may have (Lambda
// Developer Guide, "Lambda quotas"). Names that only the deployment knows are
// counted by their stand-ins, which are shorter.
const mostEnvironment = 4096

func (e environment) check() error {
	bytes := 0
	for _, v := range e.known() {
		bytes += len(v)
	}
	if bytes > mostEnvironment {
		return fmt.Errorf("the function's variables have %d bytes, and Lambda takes %d", bytes, mostEnvironment)
	}
	return nil
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func numberText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func switchText(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
