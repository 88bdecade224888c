package infra

import (
	"fmt"
	"regexp"
	"strings"
)

// environment holds the variables of a function.
type environment map[string]string

// environmentOf returns variables in the form of os.Environ, as the settings of a function give them.
func environmentOf(environ []string) environment {
	e := environment{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		e[name] = value
	}
	return e
}

func (e environment) pointers() *map[string]*string {
	variables := map[string]*string{}
	for name, value := range e {
		variables[name] = &value
	}
	return &variables
}

// token matches a value in a text that only the deployment knows, such as the name of a table, as the CDK writes it.
var token = regexp.MustCompile(`\$\{Token\[[^\]]*?(\d+)\]\}`)

// known returns the environment in the form of os.Environ, for a function's own parser, with stand-ins for values that
// only the deployment knows.
func (e environment) known() (environ []string) {
	for name, value := range e {
		environ = append(environ, name+"="+token.ReplaceAllString(value, "stand-in-$1"))
	}
	return environ
}

// longestEnvironment is the largest size in bytes of all variables of a function (Lambda Developer Guide, "Lambda
// quotas").
const longestEnvironment = 4096

// check counts the stand-ins of values that only the deployment knows. They are shorter than the values.
func (e environment) check() error {
	bytes := 0
	for _, v := range e.known() {
		bytes += len(v)
	}
	if bytes > longestEnvironment {
		return fmt.Errorf("the variables of the function have %d bytes, and Lambda takes at most %d",
			bytes, longestEnvironment)
	}
	return nil
}

// switchText returns the word of a switch in settings.
func switchText(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
