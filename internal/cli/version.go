package cli

import "runtime/debug"

type versionCommand struct{}

func (versionCommand) Help() string {
	return `Example:
  oncebox version`
}

func (versionCommand) Run(a *App) error {
	v := a.CurrentVersion()
	return a.Print(map[string]string{"version": v}, "oncebox "+v)
}

// CurrentVersion returns the version of this program.
func (p Process) CurrentVersion() string {
	if p.Version != "" {
		return p.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
