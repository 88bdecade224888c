package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/oncebox/oncebox/internal/cli"
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

// run runs a command in this process. The parser and the SDK read the variables of the process, and paths are relative
// to its folder.
func (r request) run() (a reply, err error) {
	os.Clearenv()
	for _, variable := range r.Env {
		name, value, _ := strings.Cut(variable, "=")
		err = errors.Join(err, os.Setenv(name, value))
	}
	if err = errors.Join(err, os.Chdir(r.Dir)); err != nil {
		return a, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var stdout, stderr stream
	a.Code = run(ctx, cli.Process{
		Stdin: strings.NewReader(r.Stdin), Stdout: &stdout, Stderr: &stderr, Environ: os.Environ(),
	}, r.Args)
	a.Stdout, a.Stderr = stdout.text(), stderr.text()
	return a, nil
}

// stream collects what a command writes, from several goroutines.
type stream struct {
	mu      sync.Mutex // guards written
	written bytes.Buffer
}

func (s *stream) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.Write(text)
}

func (s *stream) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}
