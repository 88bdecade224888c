package main

import "runtime/debug"

// version is set by the linker in releases.
var version string

type versionCommand struct{}

func (versionCommand) Help() string {
	return `Example:
  oncebox version`
}

func (versionCommand) Run(a *app) error {
	v := currentVersion()
	return a.print(map[string]string{"version": v}, "oncebox "+v)
}

func currentVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
