package tests

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const releaseVersion = "v1.2.3-test"

// archiveOf is the executable in an archive, and the platform that it is built for.
type archiveOf struct{ file, system, processor string }

var releaseArchives = map[string]archiveOf{
	"oncebox_1.2.3-test_linux_amd64.tar.gz":      {"oncebox", "linux", "amd64"},
	"oncebox_1.2.3-test_linux_arm64.tar.gz":      {"oncebox", "linux", "arm64"},
	"oncebox_1.2.3-test_darwin_amd64.tar.gz":     {"oncebox", "darwin", "amd64"},
	"oncebox_1.2.3-test_darwin_arm64.tar.gz":     {"oncebox", "darwin", "arm64"},
	"oncebox_1.2.3-test_windows_amd64.zip":       {"oncebox.exe", "windows", "amd64"},
	"oncebox_1.2.3-test_windows_arm64.zip":       {"oncebox.exe", "windows", "arm64"},
	"oncebox-claim_1.2.3-test_lambda_arm64.zip":  {"bootstrap", "linux", "arm64"},
	"oncebox-claim_1.2.3-test_lambda_amd64.zip":  {"bootstrap", "linux", "amd64"},
	"oncebox-sweep_1.2.3-test_lambda_arm64.zip":  {"bootstrap", "linux", "arm64"},
	"oncebox-sweep_1.2.3-test_lambda_amd64.zip":  {"bootstrap", "linux", "amd64"},
	"oncebox-dedupe_1.2.3-test_lambda_arm64.zip": {"bootstrap", "linux", "arm64"},
	"oncebox-dedupe_1.2.3-test_lambda_amd64.zip": {"bootstrap", "linux", "amd64"},

	"oncebox-dedupe-full_1.2.3-test_lambda_arm64.zip": {"bootstrap", "linux", "arm64"},
	"oncebox-dedupe-full_1.2.3-test_lambda_amd64.zip": {"bootstrap", "linux", "amd64"},
}

// releaseTemplates are the plain templates of a release, and the functions whose zips each deploys.
var releaseTemplates = map[string][]string{
	"oncebox-claims_1.2.3-test.template.json":  {"claim", "sweep"},
	"oncebox-records_1.2.3-test.template.json": {"dedupe"},
	"oncebox-both_1.2.3-test.template.json":    {"claim", "sweep", "dedupe"},

	"oncebox-records-of-queue_1.2.3-test.template.json":  {"dedupe"},
	"oncebox-records-of-stream_1.2.3-test.template.json": {"dedupe"},
}

var everyPlatform = flag.Bool("every-platform", false, "build for all platforms, and not only for Linux on this processor; and build each function twice")

// TestRelease makes a release, and another one from a copy of the source outside of git. Both
// must have the same digests.
func TestRelease(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	archives, platforms := maps.Clone(releaseArchives), []string(nil)
	if !*everyPlatform {
		platforms = []string{"linux/" + runtime.GOARCH}
		maps.DeleteFunc(archives, func(name string, want archiveOf) bool {
			return want.system != "linux" || want.processor != runtime.GOARCH
		})
	}
	folder := makeRelease(t, "..", platforms...)
	sums := read(t, filepath.Join(folder, "SHA256SUMS"))
	equal(t, "digests of the second release", read(t, filepath.Join(makeRelease(t, copySource(t), platforms...), "SHA256SUMS")), sums)

	names := []string{"SHA256SUMS"}
	for line := range strings.Lines(sums) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
		equal(t, "digest of "+name, digestOf(t, filepath.Join(folder, name)), digest)
	}
	files, err := os.ReadDir(folder)
	must(t, err)
	equal(t, "files with a digest", len(names), len(files))
	equal(t, "archives, templates, digests, notices and an SBOM", len(files), len(archives)+len(releaseTemplates)+3)
	for name, functions := range releaseTemplates {
		template := read(t, filepath.Join(folder, name))
		equal(t, "zips in "+name, strings.Count(template, "_lambda_"), len(functions))
		for _, function := range functions {
			if !strings.Contains(template, `"${CodePrefix}oncebox-`+function+`_1.2.3-test_lambda_${Zip}.zip"`) {
				t.Errorf("%s does not deploy the %s function", name, function)
			}
		}
	}

	components := readSBOM(t, filepath.Join(folder, "oncebox_1.2.3-test_sbom.cdx.json"))
	for name, want := range archives {
		content := unpack(t, filepath.Join(folder, name))
		checkArchive(t, folder, name, content, want.file)
		path := filepath.Join(t.TempDir(), want.file)
		must(t, os.WriteFile(path, content[want.file], 0o700))
		checkExecutable(t, name, path, want.system, want.processor, components)
		switch {
		case want.file == "bootstrap":
			function := strings.TrimPrefix(strings.Split(name, "_")[0], "oncebox-")
			built, err := buildFunction(function, want.processor)
			must(t, err)
			equal(t, "digest of the function in "+name, digestOf(t, path), digestOf(t, built))
		case want.system == "linux":
			t.Run(name, func(t *testing.T) { startCommand(t, path, want.processor) })
		}
	}
}

func makeRelease(t *testing.T, root string, platforms ...string) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "release")
	release := exec.CommandContext(t.Context(), "go", append([]string{"run", "-C", "tools", "./release", releaseVersion, folder}, platforms...)...)
	release.Dir = root
	if out, err := release.CombinedOutput(); err != nil {
		t.Fatalf("tools/release: %v\n%s", err, out)
	}
	return folder
}

// checkArchive compares the texts in an archive with the texts in the repository and the release.
func checkArchive(t *testing.T, folder, name string, content map[string][]byte, executable string) {
	t.Helper()
	equal(t, "files in "+name, len(content), 5)
	if len(content[executable]) == 0 {
		t.Fatalf("%s lacks %s", name, executable)
	}
	for _, text := range []string{"../LICENSE", "../NOTICE", "../README.md", folder + "/THIRD_PARTY_NOTICES.txt"} {
		equal(t, filepath.Base(text)+" in "+name, string(content[filepath.Base(text)]), read(t, text))
	}
}

// checkExecutable reads the build information of an executable. Each of its modules must be in
// the SBOM.
func checkExecutable(t *testing.T, name, path, system, processor string, components []string) {
	t.Helper()
	info, err := buildinfo.ReadFile(path)
	must(t, err)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	wanted := map[string]string{"GOOS": system, "GOARCH": processor, "CGO_ENABLED": "0", "-trimpath": "true"}
	for key, want := range wanted {
		equal(t, key+" of "+name, settings[key], want)
	}
	if len(info.Deps) == 0 {
		t.Errorf("%s has no modules", name)
	}
	for _, m := range info.Deps {
		if !slices.Contains(components, "pkg:golang/"+m.Path+"@"+m.Version) {
			t.Errorf("the SBOM lacks %s %s of %s", m.Path, m.Version, name)
		}
	}
}

// startCommand runs the demo and prints the version, if this machine can run the executable.
func startCommand(t *testing.T, path, processor string) {
	command := []string{path}
	if processor != runtime.GOARCH || runtime.GOOS != "linux" {
		names := map[string]string{"arm64": "qemu-aarch64-static", "amd64": "qemu-x86_64-static"}
		emulator, err := exec.LookPath(names[processor])
		if err != nil {
			t.Skipf("no emulator for linux/%s on this machine: %v", processor, err)
		}
		command = []string{emulator, path}
	}
	for argument, want := range map[string]string{"version": "oncebox " + releaseVersion, "demo": "Every check passed"} {
		run := exec.CommandContext(t.Context(), command[0], append(command[1:], argument)...)
		run.Dir = t.TempDir()
		out, err := run.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("oncebox %s: %v\n%s", argument, err, out)
		}
	}
}

// readSBOM returns the package URLs of the components.
func readSBOM(t *testing.T, path string) (components []string) {
	t.Helper()
	var bom struct {
		Components []struct {
			PURL string `json:"purl"`
		} `json:"components"`
	}
	must(t, json.Unmarshal([]byte(read(t, path)), &bom))
	for _, c := range bom.Components {
		components = append(components, c.PURL)
	}
	return components
}

// unpack returns the files of an archive by name.
func unpack(t *testing.T, path string) map[string][]byte {
	t.Helper()
	packed, err := os.ReadFile(path)
	must(t, err)
	if filepath.Ext(path) == ".zip" {
		return unzip(t, packed)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	files := map[string][]byte{}
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		files[header.Name], err = io.ReadAll(archive)
		must(t, err)
	}
}

func unzip(t *testing.T, packed []byte) map[string][]byte {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	must(t, err)
	files := map[string][]byte{}
	for _, f := range archive.File {
		file, err := f.Open()
		must(t, err)
		files[f.Name], err = io.ReadAll(file)
		must(t, errors.Join(err, file.Close()))
	}
	return files
}
