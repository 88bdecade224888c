package infra

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/settings"
)

// A naming returns the name of a prop that the user knows. Errors of [NewStack] name keys of the settings file. Errors
// of the constructs name props: their naming is nil.
type naming func(prop string) string

func (n naming) of(prop string) string {
	if n == nil {
		return prop
	}
	return n(prop)
}

// naming returns the names of keys. The prop IDPath is the key id-path of the reader's part, or beside the parts.
func (r reader) naming(function string) naming {
	return func(prop string) string {
		if prop == "Code" {
			return contextPrefix + function + "-code"
		}
		key, value, hasValue := strings.Cut(cmp.Or(otherKeys[prop], keyOf(prop)), "=")
		if hasValue {
			value = "=" + value
		}
		for _, path := range []string{r.path(key), key} {
			if r.asked[path] {
				return path + value
			}
		}
		return prop
	}
}

// otherKeys are the keys of props that have another name than the prop, and of the choices of an [Auth].
var otherKeys = map[string]string{
	"AuthIAM": "auth=iam", "AuthJWT": "auth=jwt", "AuthLink": "auth=link", "AuthOpen": "auth=open",
	"an issuer": "jwt-issuer", "an audience": "jwt-audience", "scopes": "jwt-scopes",
	"Challenge.Provider": "challenge", "Challenge.Secret": "challenge-secret-arn", "Domain.Certificate": "certificate-arn",
	"DisableExecuteAPIEndpoint": "execute-api-endpoint=off",
	"Sweep.Off":                 "sweep", "Sweep.NearlyEmpty": "nearly-empty",

	"IDs": "ids", "Source": "source-stream-arn", "NotifyQueue": "notify-queue-arn", "MemoryMiB": "memory",
	"RunbookURL": "runbook-base-url",
	"Subnets":    "subnet-ids", "SecurityGroups": "security-group-ids",
}

var wordEnds = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// keyOf returns the key of a prop or of a variable: domain-name of Domain.Name, id-path of IDPath and ONCEBOX_ID_PATH.
func keyOf(prop string) string {
	if name, ok := strings.CutPrefix(prop, "ONCEBOX_"); ok {
		return strings.ReplaceAll(strings.ToLower(name), "_", "-")
	}
	words := wordEnds.ReplaceAllString(strings.ReplaceAll(prop, ".", "-"), "$1$3-$2$4")
	return strings.ToLower(words)
}

// withFunction returns the naming for another function of the construct.
func (n naming) withFunction(name string) naming {
	return func(prop string) string {
		if prop == "Code" {
			return contextPrefix + name + "-code"
		}
		return n.of(prop)
	}
}

// memoryVariable holds the memory of a function in MiB. Lambda sets it.
const memoryVariable = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"

var variable = regexp.MustCompile(`\bONCEBOX_[A-Z_]+|` + memoryVariable)

// variableProps are the props of variables that have another name than the prop. A variable whose prop says the
// opposite has its own name.
var variableProps = map[string]string{
	"ONCEBOX_DEAD_LETTERS": "DeadLetterBucket",
	memoryVariable:         "MemoryMiB",
	"ONCEBOX_IDS":          "IDs",
	"ONCEBOX_ID_PATH":      "IDPath", "ONCEBOX_RAW_ID": "RawID",

	"ONCEBOX_CHALLENGE": "Challenge.Provider", "ONCEBOX_CHALLENGE_SITE_KEY": "Challenge.SiteKey",
	"ONCEBOX_CHALLENGE_SECRET_ARN": "Challenge.Secret", "ONCEBOX_CHALLENGE_URL": "Challenge.URL",
	"ONCEBOX_CHALLENGE_HOSTS": "Challenge.Hosts",

	"ONCEBOX_NATURAL": "ONCEBOX_NATURAL", "ONCEBOX_SYNTHETIC": "ONCEBOX_SYNTHETIC", "ONCEBOX_ACKS": "ONCEBOX_ACKS",
	"ONCEBOX_SOURCE_AGGREGATION": "ONCEBOX_SOURCE_AGGREGATION",
}

// propOf returns the prop of a variable: FingerprintPath of ONCEBOX_FINGERPRINT_PATH.
func propOf(variable string) string {
	if prop, ok := variableProps[variable]; ok {
		return prop
	}
	prop := ""
	for word := range strings.SplitSeq(keyOf(variable), "-") {
		prop += strings.ToUpper(word[:1]) + word[1:]
	}
	return prop
}

// functionError returns an error of a function's parser with the user's names for the variables.
func (n naming) functionError(err error) error {
	wrong, ok := errors.AsType[*settings.Error](err)
	if !ok {
		return err
	}
	named := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(v string) string { return n.of(propOf(v)) })
	}
	var all []error
	for _, problem := range wrong.Problems {
		problem.Name, problem.What, problem.Allowed = named(problem.Name), named(problem.What), named(problem.Allowed)
		all = append(all, errors.New(problem.String()))
	}
	return errors.Join(all...)
}

// problems collects the problems in props.
type problems struct {
	naming
	all []error
}

func (p *problems) add(format string, args ...any) {
	p.all = append(p.all, fmt.Errorf(format, args...))
}

// join adds the problems in a part of the props. Nil adds nothing.
func (p *problems) join(errs ...error) { p.all = append(p.all, errs...) }

func (p *problems) err() error { return errors.Join(p.all...) }

// text writes a duration as the user may write it.
func text(d time.Duration) string { return settings.FormatDuration(d) }
