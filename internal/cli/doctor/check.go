// Package doctor checks a deployment as `oncebox doctor` does. It checks the tables, the functions and their
// settings. With [PlayClaims] and [PlayRecords] it also checks the permissions of the functions' roles: they invoke
// the functions in steps, with scratch campaigns and scratch records, and report which permissions each step proves.
//
// Checks of tables and settings change nothing. The scratch data is deleted afterwards: docs/operations.md says which
// data stays.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is the result of a check.
type Status string

// These are the results.
const (
	OK        Status = "ok"
	Info      Status = "info"       // a fact that is neither good nor bad
	Warning   Status = "warning"    // it works, but something should be changed
	Failure   Status = "failure"    // it does not work, or not as oncebox needs it
	NotPlayed Status = "not played" // doctor could not look or try: it proves nothing, and Detail says why
)

// Check is a check and its result.
type Check struct {
	Area   string       `json:"area"` // tables, settings, claims ...
	Name   string       `json:"name"`
	Status Status       `json:"status"`
	Detail string       `json:"detail"`
	Do     string       `json:"do,omitempty"`     // the action that the operator should take
	Proves []Permission `json:"proves,omitempty"` // what a step proves if it succeeds, or needs if it fails
}

// Permission is a row of docs/iam.md: an action of a function's role on a resource.
type Permission struct {
	Function string `json:"function"`       // claim, sweep or dedupe
	Action   string `json:"action"`         // as in dynamodb:GetItem
	Resource string `json:"resource"`       // in the words of docs/iam.md
	Only     string `json:"only,omitempty"` // the leading keys, or keys of objects, as in docs/iam.md
}

func (p Permission) String() string {
	text := p.Function + ": " + p.Action + " on the " + p.Resource
	if p.Only != "" {
		text += ", " + p.Only
	}
	return text
}

// Report receives checks one by one, and counts them.
type Report struct {
	Checks []Check
	each   func(Check)
}

// NewReport returns a Report that calls each with every check. each may be nil.
func NewReport(each func(Check)) *Report { return &Report{each: each} }

// Add adds a check.
func (r *Report) Add(c Check) {
	r.Checks = append(r.Checks, c)
	if r.each != nil {
		r.each(c)
	}
}

// Count returns the number of checks with a status.
func (r *Report) Count(s Status) (n int) {
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// Area returns an Area that adds checks with that name.
func (r *Report) Area(name string) Area { return Area{r, name} }

// Area adds checks of one area to a Report.
type Area struct {
	report *Report
	name   string
}

// OK adds a check that found no fault.
func (a Area) OK(name, detail string) {
	a.report.Add(Check{Area: a.name, Name: name, Status: OK, Detail: detail})
}

// Info adds a fact.
func (a Area) Info(name, detail string) {
	a.report.Add(Check{Area: a.name, Name: name, Status: Info, Detail: detail})
}

// Warn adds a warning, and the action that the operator should take.
func (a Area) Warn(name, detail, do string) {
	a.report.Add(Check{Area: a.name, Name: name, Status: Warning, Detail: detail, Do: do})
}

// Fail adds a failure, and the action that the operator should take.
func (a Area) Fail(name, detail, do string) {
	a.report.Add(Check{Area: a.name, Name: name, Status: Failure, Detail: detail, Do: do})
}

// NotPlayed adds a check that doctor could not make, and the reason.
func (a Area) NotPlayed(name, why string) {
	a.report.Add(Check{Area: a.name, Name: name, Status: NotPlayed, Detail: why})
}

// NotRead adds a check whose facts doctor could not read, often because a permission is missing.
func (a Area) NotRead(name, why string) {
	a.report.Add(Check{
		Area: a.name, Name: name, Status: NotPlayed, Detail: "cannot be read: " + why,
		Do: "docs/iam.md, \"Try the permissions\", lists what doctor needs.",
	})
}

// script plays the steps of a job, one after the other.
type script struct {
	Area
	explain func(error) string // puts an error of the SDK into plain words
	failed  map[string]bool    // steps that failed or were not played, by name
}

// step is a step of a script.
type step struct {
	name   string
	after  []string // the steps without which this step proves nothing
	not    string   // the reason why the step cannot be played with these settings; "": it can be played
	proves []Permission
	run    func(context.Context) (detail string, err error)
}

// ownError is a failure of the operator's own request. It says nothing about the functions.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }
func (e *ownError) Unwrap() error { return e.err }

// operatorError marks an error of a request with the operator's credentials.
func operatorError(err error) error {
	if err == nil {
		return nil
	}
	return &ownError{err}
}

// notProvedError is the result of a step that proves nothing and is not a failure: there can be reasons for it other
// than a missing permission.
type notProvedError struct{ why string }

func (e *notProvedError) Error() string { return "not proved: " + e.why }

// play plays a step and reports it. It returns ctx.Err() if ctx ends first: the play was interrupted.
func (s *script) play(ctx context.Context, p step) error {
	check := Check{Area: s.name, Name: p.name, Proves: p.proves}
	if i := slices.IndexFunc(p.after, func(name string) bool { return s.failed[name] }); i >= 0 && p.not == "" {
		p.not = fmt.Sprintf("it needs the step %q", p.after[i])
	}
	if p.not != "" {
		check.Status, check.Detail = NotPlayed, p.not
		s.failed[p.name] = true
		s.report.Add(check)
		return nil
	}
	detail, err := p.run(ctx)
	switch {
	case err == nil:
		check.Status, check.Detail = OK, detail
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		s.failed[p.name] = true
		check.Status, check.Detail, check.Do = Failure, s.explain(err), doOf(err, p.proves)
		if _, notProved := errors.AsType[*notProvedError](err); notProved {
			check.Status = Warning
		}
	}
	s.report.Add(check)
	return nil
}

func doOf(err error, proves []Permission) string {
	if _, own := errors.AsType[*ownError](err); own {
		return "Doctor sent this request with your credentials. docs/iam.md, \"Try the permissions\", lists what it needs."
	}
	if len(proves) == 0 {
		return ""
	}
	needs := make([]string, len(proves))
	for i, p := range proves {
		needs[i] = p.String()
	}
	do := "Compare the policy of the function's role with docs/iam.md."
	if !strings.Contains(err.Error(), denied) {
		do = "If the log of the function has " + denied + ", compare the policy of its role with docs/iam.md."
	}
	return do + " The step needs " + strings.Join(needs, "; ") + "."
}

// tries and between limit the repetitions of checks of things that can be a moment late: an index, another container.
const (
	tries   = 10
	between = time.Second
)
