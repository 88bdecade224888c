package testengine

import (
	"fmt"
	"os/exec"
)

// BuildOncebox builds the command line program into a file. `go run` keeps a program that it has linked, but `go build`
// does not. So only the first test after a change of the code links the program; the others copy it.
func BuildOncebox(file string) error {
	out, err := exec.Command("go", "run", "-exec=cp", "github.com/oncebox/oncebox/cmd/oncebox", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go run -exec=cp: %w\n%s", err, out)
	}
	return nil
}
