package offline

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrRefused says that a job cannot run as it is, and that nothing was changed. If the job has closed stopped runs
	// before, the text says so, and Report.Closed lists them.
	ErrRefused = errors.New("nothing was changed")

	// ErrStopped says that a run ended early: it was interrupted, or the store or a file failed. The error says why,
	// and what the same job does when it runs again.
	ErrStopped = errors.New("stopped")
)

// refuse returns an error of the kind ErrRefused.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w (%w)", fmt.Errorf(format, args...), ErrRefused)
}

// closingError is an error of a job that has closed stopped runs. Its text says that nothing else was changed.
type closingError struct{ error }

func (e closingError) Error() string {
	return strings.ReplaceAll(e.error.Error(), ErrRefused.Error(), "nothing was changed but the stopped runs, which are closed")
}

func (e closingError) Unwrap() error { return e.error }

// refusedAfterClosing corrects the text of a refusal that comes after stopped runs were closed.
func (r *run) refusedAfterClosing(err error) error {
	if len(r.closed) == 0 || !errors.Is(err, ErrRefused) {
		return err
	}
	return closingError{err}
}
