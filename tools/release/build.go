package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const windows = "windows"

// platform is what a program is built for, in the words of Go: GOOS and GOARCH.
type platform struct{ system, processor string }

func (at platform) String() string { return at.system + "/" + at.processor }

// program is one that a release publishes.
type program struct {
	name      string
	source    string // package
	platforms []platform
}

var programs = []program{
	{"oncebox", "./cmd/oncebox", []platform{
		{"linux", "amd64"}, {"linux", "arm64"},
		{"darwin", "amd64"}, {"darwin", "arm64"},
		{windows, "amd64"}, {windows, "arm64"},
	}},
	{"oncebox-claim", "./functions/claim", lambdas},
	{"oncebox-sweep", "./functions/sweep", lambdas},
	{"oncebox-dedupe", "./functions/dedupe", lambdas},
	{"oncebox-dedupe-full", "./functions/dedupe-full", lambdas},
}

var lambdas = []platform{{"linux", "arm64"}, {"linux", "amd64"}}

// function reports whether the program is a Lambda function.
func (p program) function() bool { return filepath.Dir(p.source) == "functions" }

// label is the platform in the name of an archive.
func (p program) label(at platform) string {
	if p.function() {
		return "lambda_" + at.processor
	}
	return at.system + "_" + at.processor
}

// file is the name of the executable in an archive.
func (p program) file(at platform) string {
	switch {
	case p.function():
		return "bootstrap"
	case at.system == windows:
		return p.name + ".exe"
	}
	return p.name
}

// build returns the executable. It holds no path and no time, and of git only the version. The
// functions have no version, so that a commit that changes nothing in them changes no byte.
func (p program) build(ctx context.Context, at platform, version string) (executable []byte, err error) {
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, p.file(at))
	command := exec.CommandContext(ctx, "scripts/build-function", p.source, at.processor, file)
	if !p.function() {
		command = exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", file, p.source)
		command.Env = append(at.environ(), "GOFLAGS=-trimpath -buildvcs=false")
	}
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s for %s: %w\n%s", p.name, at, err, out)
	}
	return os.ReadFile(file)
}

// environ is the environment in which Go builds for the platform.
func (at platform) environ() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOOS="+at.system, "GOARCH="+at.processor)
}
