package main

import "runtime/debug"

type versionCommand struct{}

func (versionCommand) Help() string {
	return `Example:
  oncebox version`
}

func (versionCommand) Run(a *app) error {
	v := a.currentVersion()
	return a.print(map[string]string{"version": v}, "oncebox "+v)
}

// currentVersion returns the version of this program.
func (p Process) currentVersion() string {
	if p.Version != "" {
		return p.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
