package commandpairs

import (
	"errors"
	"slices"
	"testing"
)

// written returns a command that writes some words into a log, one with each call.
func written(log *[]string, words ...string) Command {
	return func(p *Process) error {
		for _, word := range words {
			if err := p.Before(); err != nil {
				return err
			}
			*log = append(*log, word)
			if err := p.After(); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestSchedules(t *testing.T) {
	for name, want := range map[string]struct {
		schedule Schedule
		logs     []string
	}{
		"kill":    {Kill, []string{"1 x y 1 2", "1 2 x y 1 2", "1 2 x y 1 2"}},
		"suspend": {Suspend, []string{"1 x y 2", "1 2 x y", "1 2 x y"}},
	} {
		var logs []string
		plays, err := AtEachCall(0, 1, func(n int) (bool, error) {
			var log []string
			stopped, err := want.schedule(n, written(&log, "1", "2"), written(&log, "x", "y"))
			text := ""
			for i, word := range log {
				if i > 0 {
					text += " "
				}
				text += word
			}
			logs = append(logs, text)
			return stopped, err
		})
		if err != nil || plays != 2 || !slices.Equal(logs, want.logs) {
			t.Errorf("%s: %d plays: want %q, got %q, %v", name, plays, want.logs, logs, err)
		}
	}
}

// TestWrong: what a command finds wrong ends the play. No call is made after a kill.
func TestWrong(t *testing.T) {
	errWrong := errors.New("wrong")
	var log []string
	wrong := func(*Process) error { return errWrong }
	for _, s := range []Schedule{Kill, Suspend} {
		if _, err := s(0, written(&log, "1", "2"), wrong); !errors.Is(err, errWrong) {
			t.Errorf("want %v, got %v", errWrong, err)
		}
		if _, err := s(0, wrong, written(&log, "3")); !errors.Is(err, errWrong) {
			t.Errorf("want %v, got %v", errWrong, err)
		}
	}
	if want := []string{"1", "1"}; !slices.Equal(log, want) {
		t.Errorf("want the calls %q, got %q", want, log)
	}
	p := &Process{stop: func() error { return ErrKilled }}
	if err := written(&log, "1")(p); !errors.Is(err, ErrKilled) || !errors.Is(p.Before(), ErrKilled) || !errors.Is(p.Over(), ErrKilled) {
		t.Errorf("not killed: %v", err)
	}
}
