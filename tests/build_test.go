package tests

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// TestBuildsAreReproducible builds and packs a function here and from a copy of the source. The copy is in another
// folder, outside of git, with other file times. If it builds for every platform, it does so with all functions, and
// compiles the copies with an empty build cache, which takes a minute of processor time.
func TestBuildsAreReproducible(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	copied, functions, cache := copySource(t), shipped[:1], []string(nil)
	if *everyPlatform {
		functions, cache = shipped, []string{"GOCACHE=" + t.TempDir()}
	}
	for _, f := range functions {
		here, there := digests(t, "..", f.name), digests(t, copied, f.name, cache...)
		t.Logf("%s: binary %s, zip %s", f.name, here[0], here[1])
		equal(t, f.name+": digest of the second binary", there[0], here[0])
		equal(t, f.name+": digest of the second zip", there[1], here[1])
	}
}

// digests builds and packs a function with the scripts of the source tree at root.
func digests(t *testing.T, root, function string, env ...string) (binaryAndZip [2]string) {
	t.Helper()
	bootstrap := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), root+"/scripts/build-function", "./functions/"+function, "arm64", bootstrap)
	build.Env = append(os.Environ(), env...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build.Path, err, out)
	}
	return [2]string{digestOf(t, bootstrap), digestOf(t, zipOf(t, root, bootstrap))}
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer func() { _ = file.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, file)
	must(t, err)
	return hex.EncodeToString(h.Sum(nil))
}

// copySource copies the files of the project, with changes that are not committed.
func copySource(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	for _, file := range sourceFiles(t) {
		info, err := os.Stat("../" + file)
		must(t, err)
		content, err := os.ReadFile("../" + file)
		must(t, err)
		copied := filepath.Join(target, file)
		must(t, os.MkdirAll(filepath.Dir(copied), 0o700))
		must(t, os.WriteFile(copied, content, info.Mode()))
	}
	return target
}

// sourceFiles returns the files of the project that git tracks or would add.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	list.Dir = ".."
	out, err := list.Output()
	must(t, err)
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(files, func(file string) bool {
		_, err := os.Stat("../" + file)
		return os.IsNotExist(err) // deleted but not committed
	})
}

// TestFunctionsAreBuiltInOnePlace checks that only scripts/build-function builds functions, so that tests and
// benchmarks run the same functions as deployments.
func TestFunctionsAreBuiltInOnePlace(t *testing.T) {
	t.Parallel()
	// The character classes keep these patterns from matching this file.
	flags := regexp.MustCompile(`lambda[.]norpc`)
	build := regexp.MustCompile(`(go[ ]build|"go",[ ]"build").*/functions/.*`)
	var withFlags []string
	for _, file := range sourceFiles(t) {
		if filepath.Ext(file) == ".md" {
			continue
		}
		content := read(t, "../"+file)
		if flags.MatchString(content) {
			withFlags = append(withFlags, file)
		}
		if line := build.FindString(content); line != "" {
			t.Errorf("%s builds a function without scripts/build-function: %s", file, line)
		}
	}
	equal(t, "files with the build flags of functions", strings.Join(withFlags, " "), "scripts/build-function")
}

// TestWorkflowsArePinned checks that the workflows of CI name every action by its commit and every image by its digest,
// and that each job has only the permissions that it declares, and leaves no credentials in the folder.
func TestWorkflowsArePinned(t *testing.T) {
	t.Parallel()
	workflows, err := filepath.Glob("../.github/workflows/*.yml")
	must(t, err)
	equal(t, "workflows", len(workflows), 3)
	uses := regexp.MustCompile(`(?m)^ +(?:- )?uses: (.*)$`)
	pinned := regexp.MustCompile(`^(\./.+|[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[0-9.]+)$`)
	for _, path := range workflows {
		text := read(t, path)
		for _, action := range uses.FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s does not pin %s", path, action[1])
			}
		}
		checkImages(t, path, regexp.MustCompile(`image=(\S+)`))
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
				Steps       []struct {
					Uses string
					With map[string]any
				}
			}
		}
		must(t, yaml.Unmarshal([]byte(text), &workflow))
		if workflow.Permissions == nil || len(workflow.Permissions) > 0 {
			t.Errorf("%s: permissions of all jobs: %v, want {}", path, workflow.Permissions)
		}
		for name, job := range workflow.Jobs {
			if job.Permissions == nil {
				t.Errorf("%s: the job %s declares no permissions", path, name)
			}
			for _, step := range job.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s: the job %s keeps the credentials of the checkout", path, name)
				}
			}
		}
	}
	checkImages(t, "../Dockerfile", regexp.MustCompile(`(?m)^FROM (\S+)`))
}

// checkImages checks that a file names its images by digest.
func checkImages(t *testing.T, path string, image *regexp.Regexp) {
	t.Helper()
	pinned := regexp.MustCompile(`^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$`)
	for _, found := range image.FindAllStringSubmatch(read(t, path), -1) {
		if !pinned.MatchString(found[1]) {
			t.Errorf("%s does not pin the image %s", path, found[1])
		}
	}
}

// TestDependabotKnowsEachFolder compares the folders of dependabot.yml with the folders that have requirements.
func TestDependabotKnowsEachFolder(t *testing.T) {
	t.Parallel()
	ecosystems := map[string]string{
		"go.mod": "gomod", "package-lock.json": "npm", "requirements.txt": "pip", "pom.xml": "maven", "Dockerfile": "docker",
	}
	want := map[string][]string{"github-actions": {"/"}}
	for _, file := range sourceFiles(t) {
		if ecosystem, ok := ecosystems[filepath.Base(file)]; ok {
			want[ecosystem] = append(want[ecosystem], filepath.Join("/", filepath.Dir(file)))
		}
	}
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	must(t, yaml.Unmarshal([]byte(read(t, "../.github/dependabot.yml")), &config))
	for _, update := range config.Updates {
		slices.Sort(want[update.Ecosystem])
		equal(t, "folders of "+update.Ecosystem, strings.Join(update.Directories, " "), strings.Join(want[update.Ecosystem], " "))
		delete(want, update.Ecosystem)
	}
	equal(t, "ecosystems that dependabot.yml does not have", len(want), 0)
}
