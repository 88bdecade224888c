package infra

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

// A naming returns the name of a prop that the user knows. Errors of the constructs name props: their naming is nil.
// Errors of [NewStack] name keys of the settings file. By one rule the prop XY is the key x-y, and the variable
// ONCEBOX_X_Y of a function.
type naming func(prop string) string

func (n naming) of(prop string) string {
	if n == nil {
		return prop
	}
	return n(prop)
}

// naming returns the names of keys, of the reader's part or beside the parts. The code of a function is in no file.
func (r reader) naming(function string) naming {
	return func(prop string) string {
		if prop == "Code" {
			return contextPrefix + function + "-code"
		}
		word := settings.Word(prop)
		for _, path := range []string{r.path(word), word} {
			if r.asked[path] {
				return path
			}
		}
		return prop
	}
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

// propOfDeadLetters is the prop of the bucket in ONCEBOX_DEAD_LETTERS, which has the URL of a queue, too.
const propOfDeadLetters = "DeadLetterBucket"

var variable = regexp.MustCompile(`\bONCEBOX_[A-Z_]+`)

// functionError returns an error of a function's parser with the user's names for the variables. of is the struct of its
// settings.
func (n naming) functionError(of any, err error) error {
	wrong, ok := errors.AsType[*settings.Error](err)
	if !ok {
		return err
	}
	props := map[string]string{}
	for _, f := range settings.Fields(of) {
		props[f.Name] = f.Go
	}
	props["ONCEBOX_DEAD_LETTERS"] = propOfDeadLetters
	named := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(name string) string { return n.of(cmp.Or(props[name], name)) })
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

// checkSwitch refuses a prop that is neither on nor off.
func (p *problems) checkSwitch(prop, word string) {
	if word != switchText(true) && word != switchText(false) {
		p.add("%s is %q; choose on or off", p.of(prop), word)
	}
}

// checkOwn refuses a setting of a function that the construct makes of other props.
func (p *problems) checkOwn(field, value, instead string) {
	if value != "" {
		p.add("Settings.%s is set; set %s", field, instead)
	}
}

// join adds the problems in a part of the props. Nil adds nothing.
func (p *problems) join(errs ...error) { p.all = append(p.all, errs...) }

func (p *problems) err() error { return errors.Join(p.all...) }

// text writes a duration as the user may write it.
func text(d time.Duration) string { return settings.FormatDuration(d) }
