package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// errorJSON is an error on stderr with --output json, as the member "error" of an object.
type errorJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Exit    int    `json:"exit"`
}

// fail prints an error and returns the exit code.
func (a *App) fail(ctx context.Context, err error) int {
	slog.Debug("the command failed", "error", err)
	err = a.ExplainAWS(ctx, err)
	exit, code := outcome(ctx, err)
	message, hint := DescribeError(err, exit)
	message = a.asTyped(err, message)
	if a.Output == OutputJSON {
		PrintJSON(a.Stderr, map[string]errorJSON{"error": {code, message, hint, exit}})
		return exit
	}
	fmt.Fprintln(a.Stderr, "oncebox:", message)
	if hint != "" {
		fmt.Fprintln(a.Stderr, hint)
	}
	return exit
}

// settingName finds the name of a setting in the detail of an *itembank.InvalidError.
var settingName = regexp.MustCompile("`([a-z-]+)`")

// WithFlags writes the settings that the detail of an *itembank.InvalidError names as flags.
func WithFlags(detail string) string { return settingName.ReplaceAllString(detail, "--$1") }

// asTyped gives a wrong input the name that the user typed: the flag of the command, if it has one. The lines of a file
// keep the names of the file.
func (a *App) asTyped(err error, message string) string {
	invalid, ok := errors.AsType[*itembank.InvalidError](err)
	if !ok || errors.As(err, new(*itembank.LineError)) {
		return message
	}
	name := invalid.Field
	for _, flag := range []string{strings.ReplaceAll(name, "_", "-"), strings.TrimSuffix(name, "s")} {
		if slices.Contains(a.flags, flag) {
			name = "--" + flag
			break
		}
	}
	return strings.ReplaceAll(message, invalid.Error(), name+": "+WithFlags(invalid.Detail))
}

// Continues is the advice about a stopped command that goes on when it is repeated.
const Continues = "The same command goes on from there."

// DescribeError returns the text of an error, and advice.
func DescribeError(err error, exit int) (message, hint string) {
	message = err.Error()
	for _, family := range []error{itembank.ErrTryAgain, dedupe.ErrTryAgain, idempotency.ErrTryAgain} { // names of packages
		message = strings.ReplaceAll(message, family.Error()+": ", "")
	}
	for _, name := range []string{"claimapi: ", "recordhandler: ", "dedupe: "} {
		message = strings.TrimPrefix(message, name)
	}
	var usage *UsageError
	var hinted *hintError
	var cut *cutError
	switch {
	case errors.As(err, &usage):
		hint = usage.Hint
	case errors.As(err, &hinted):
		hint = hinted.hint
	case errors.As(err, &cut) && !errors.Is(err, itembank.ErrInconsistent):
		hint = Continues
	case exit == ExitFailed && isTemporary(err) && !errors.Is(err, offline.ErrStopped):
		hint = "Try again: it is safe to repeat the command."
	}
	if exit != ExitInterrupted {
		return message, hint
	}
	switch {
	case cut != nil || errors.As(err, &cut):
		return "interrupted " + cut.done, hint
	case errors.Is(err, offline.ErrStopped):
		return strings.ReplaceAll(message, context.Canceled.Error(), "interrupted"), hint
	}
	return "interrupted", hint
}

// isTemporary reports whether the error may pass by itself.
func isTemporary(err error) bool {
	return errors.Is(err, itembank.ErrTryAgain) || errors.Is(err, dedupe.ErrTryAgain) ||
		errors.Is(err, idempotency.ErrTryAgain)
}

// PrintJSON prints a value as one line. It ignores an error, because there is no other place to report it.
func PrintJSON(to io.Writer, value any) { _ = NewEncoder(to).Encode(value) }

// Remark prints a remark about the work, which is not part of the result.
func (a *App) Remark(format string, args ...any) {
	switch text := fmt.Sprintf(format, args...); {
	case a.Quiet:
	case a.Output == OutputJSON:
		PrintJSON(a.Stderr, map[string]string{"remark": text})
	default:
		fmt.Fprintln(a.Stderr, text)
	}
}
