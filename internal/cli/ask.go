package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// CanAsk reports whether a person can answer: stdin must be a terminal, and so must stderr, which shows the questions.
func (a *App) CanAsk() bool { return IsTerminal(a.Stdin) && IsTerminal(a.Stderr) }

// Ask asks a question. Only a line of y or yes is a yes.
func (a *App) Ask(ctx context.Context, question string) (yes bool, err error) {
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(Interruptible(ctx, a.Stdin)).ReadString('\n')
	switch {
	case errors.Is(err, io.EOF):
		fmt.Fprintln(a.Stderr)
		return false, nil
	case err != nil:
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}
