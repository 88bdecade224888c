package main

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// request is a command for a worker.
type request struct {
	Dir   string
	Env   []string
	Stdin string
	Args  []string
}

// reply holds the result of a request.
type reply struct {
	Stdout, Stderr string
	Code           int
}

// worker is a process of oncebox that runs commands one after the other. Each command has its own folder, variables,
// stdin, stdout and stderr, as in a process of its own. The tests run some thousand commands, and most commands take
// less time than the start of a process.
type worker struct {
	process  *exec.Cmd
	stdin    io.Closer
	requests *gob.Encoder
	answers  *gob.Decoder
}

// idle holds the workers that have no command.
var idle = make(chan *worker, 100)

func idleWorker() (*worker, error) {
	select {
	case w := <-idle:
		return w, nil
	default:
	}
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), asOncebox+"="+worksForTests, fewCollections), os.Stderr
	stdin, errIn := c.StdinPipe()
	stdout, errOut := c.StdoutPipe()
	return &worker{c, stdin, gob.NewEncoder(stdin), gob.NewDecoder(stdout)}, errors.Join(errIn, errOut, c.Start())
}

// endWorkers ends the idle workers.
func endWorkers() {
	for {
		select {
		case w := <-idle:
			_ = w.stdin.Close()
			_ = w.process.Wait()
		default:
			return
		}
	}
}

// needsProcess reports whether a command cannot share a process: kong ends the process after --help and --version, and
// /dev/stdin is the stdin of the process.
func needsProcess(args []string) bool {
	return slices.Contains(args, "--help") || slices.Contains(args, "--version") || slices.Contains(args, "/dev/stdin")
}

// send gives a request to a worker and waits for the answer. A worker that panics says so on the stderr of the tests.
func send(r request) (a reply, err error) {
	w, err := idleWorker()
	if err == nil {
		err = w.requests.Encode(r)
	}
	if err == nil {
		err = w.answers.Decode(&a)
	}
	if err == nil {
		idle <- w
	}
	return a, err
}

// work runs the commands of a worker, until the tests end.
func work() error {
	stdin, answers := os.Stdin, gob.NewEncoder(os.Stdout)
	requests := make(chan request)
	go func() {
		for decoder := gob.NewDecoder(stdin); ; {
			var r request
			if decoder.Decode(&r) != nil {
				os.Exit(exitDone) // although a command may be running
			}
			requests <- r
		}
	}()
	for r := range requests {
		a, err := r.run()
		if err == nil {
			err = answers.Encode(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run runs a command in this process.
func (r request) run() (a reply, err error) {
	os.Clearenv()
	for _, variable := range r.Env {
		name, value, _ := strings.Cut(variable, "=")
		err = errors.Join(err, os.Setenv(name, value))
	}
	err = errors.Join(err, os.Chdir(r.Dir))
	stdinOfCommand, stdin, errIn := os.Pipe()
	stdout, errOut := collect(&os.Stdout)
	stderr, errErr := collect(&os.Stderr)
	if err := errors.Join(err, errIn, errOut, errErr); err != nil {
		return a, err
	}
	os.Stdin = stdinOfCommand
	go func() {
		_, _ = io.WriteString(stdin, r.Stdin) // not every command reads all of it
		_ = stdin.Close()
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.Code = run(ctx, r.Args)
	_ = stdinOfCommand.Close()
	a.Stdout, a.Stderr = stdout(), stderr()
	return a, nil
}

// collect replaces a stream. The function that it returns closes the new stream and returns all that was written to it.
func collect(stream **os.File) (all func() string, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*stream = to
	text := make(chan string)
	go func() {
		read, _ := io.ReadAll(from)
		_ = from.Close()
		text <- string(read)
	}()
	return func() string {
		_ = to.Close()
		return <-text
	}, nil
}
