package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// module is a module that a release contains, or Go's standard library.
type module struct {
	path, version string
	dir           string
	folders       map[string]bool // of its packages that a program imports
	licences      []text
	notices       []text
}

// standardLibrary is the path that build information and SBOMs give to Go's own packages.
const standardLibrary = "std"

// contents are the modules of a release, and of each of its programs.
type contents struct {
	modules  []*module // by path
	programs map[string][]*module
}

// contentsOf finds the modules of programs on all their platforms, and their licences.
func contentsOf(ctx context.Context, programs []program) (contents, error) {
	c, known := contents{programs: map[string][]*module{}}, map[string]*module{}
	for _, p := range programs {
		own := map[string]*module{}
		for _, at := range p.platforms {
			packages, err := dependencies(ctx, p.source, at)
			if err != nil {
				return c, err
			}
			for _, d := range packages {
				m := d.module(known)
				if m != nil {
					own[m.path] = m
				}
			}
		}
		c.programs[p.name] = sorted(own)
	}
	c.modules = sorted(known)
	var errs []error
	for _, m := range c.modules {
		errs = append(errs, m.findLicences())
	}
	return c, errors.Join(errs...)
}

func sorted(modules map[string]*module) []*module {
	return slices.SortedFunc(maps.Values(modules), func(a, b *module) int { return cmp.Compare(a.path, b.path) })
}

// dependency is a package that a program imports, as `go list` describes it.
type dependency struct {
	Dir      string `json:"Dir"`
	Standard bool   `json:"Standard"`
	Root     string `json:"Root"` // GOROOT of a standard package
	Module   *struct {
		Path    string `json:"Path"`
		Version string `json:"Version"`
		Dir     string `json:"Dir"`
		Main    bool   `json:"Main"`
	} `json:"Module"`
}

// dependencies lists the packages that a package imports, directly and through others.
func dependencies(ctx context.Context, source string, at platform) (all []dependency, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Dir,Standard,Root,Module", source)
	list.Env = at.environ()
	out, err := list.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("list %s for %s/%s: %w", source, at.system, at.processor, err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var d dependency
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
}

// module returns the module of a package among the known ones, and adds it if it is new. A
// package of oncebox has none.
func (d dependency) module(known map[string]*module) *module {
	m := &module{folders: map[string]bool{}}
	switch {
	case d.Standard:
		m.path, m.version, m.dir = standardLibrary, runtime.Version(), d.Root
	case d.Module == nil || d.Module.Main:
		return nil
	default:
		m.path, m.version, m.dir = d.Module.Path, d.Module.Version, d.Module.Dir
	}
	if there, ok := known[m.path]; ok {
		m = there
	} else {
		known[m.path] = m
	}
	for folder := d.Dir; strings.HasPrefix(folder, m.dir); folder = filepath.Dir(folder) {
		m.folders[folder] = true
	}
	return m
}
