// Command release builds the files that a release publishes:
//
//	release VERSION FOLDER [PLATFORM...]    (make release)
//
// A platform is GOOS/GOARCH. With platforms, the command builds the archives for these only; a release has all.
//
// The files of a release are:
//
//   - the command line for Linux, macOS and Windows on amd64 and arm64, in one archive each;
//   - the Lambda functions for arm64 and amd64, in one zip each, as Lambda takes them;
//   - plain CloudFormation templates, which deploy these zips without the CDK;
//   - a CycloneDX SBOM of all of them;
//   - THIRD_PARTY_NOTICES.txt: the licences and notices of the modules that they contain, which
//     is in each archive too;
//   - SHA256SUMS.
//
// The same commit and the same Go give the same bytes. The command starts in tools/, and FOLDER is
// relative to the root of the repository. The templates need Node 22.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/tools/internal/archive"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: release VERSION FOLDER [PLATFORM...]")
		os.Exit(2)
	}
	r := release{version: os.Args[1], folder: os.Args[2], platforms: os.Args[3:]}
	if err := r.make(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one release on its way.
type release struct {
	version string // such as v1.2.3
	folder  string

	platforms []string     // GOOS/GOARCH; none: all
	sums      bytes.Buffer // of the files written so far
}

// make builds everything. The folder holds nothing else afterwards.
func (r *release) make(ctx context.Context) error {
	if err := os.Chdir(".."); err != nil {
		return err
	}
	if err := os.RemoveAll(r.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return err
	}
	contents, err := contentsOf(ctx, programs)
	if err != nil {
		return err
	}
	notices := contents.notices()
	if err := r.write("THIRD_PARTY_NOTICES.txt", notices); err != nil {
		return err
	}
	if err := r.writeArchives(ctx, notices); err != nil {
		return err
	}
	if err := r.writeTemplates(ctx); err != nil {
		return err
	}
	bom, err := contents.sbom(r.number())
	if err != nil {
		return err
	}
	if err := r.write(r.name("oncebox", "sbom.cdx.json"), bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.folder, "SHA256SUMS"), r.sums.Bytes(), 0o644)
}

// writeArchives builds each program for its platforms and packs it.
func (r *release) writeArchives(ctx context.Context, notices []byte) error {
	beside := []archive.File{{Name: "THIRD_PARTY_NOTICES.txt", Mode: archive.Plain, Content: notices}}
	for _, name := range []string{"LICENSE", "NOTICE", "README.md"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		beside = append(beside, archive.File{Name: name, Mode: archive.Plain, Content: content})
	}
	for _, p := range programs {
		for _, at := range p.platforms {
			if len(r.platforms) > 0 && !slices.Contains(r.platforms, at.String()) {
				continue
			}
			fmt.Printf("%s for %s\n", p.name, at)
			executable, err := p.build(ctx, at, r.version)
			if err != nil {
				return err
			}
			files := append([]archive.File{{Name: p.file(at), Mode: archive.Executable, Content: executable}}, beside...)
			var packed bytes.Buffer
			pack, extension := archive.TarGz, "tar.gz"
			if at.system == windows || p.function() {
				pack, extension = archive.Zip, "zip"
			}
			if err := pack(&packed, files); err != nil {
				return err
			}
			if err := r.write(r.name(p.name, p.label(at)+"."+extension), packed.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeTemplates writes the plain templates. A program of its own makes them, because the CDK runs in Node.
func (r *release) writeTemplates(ctx context.Context) error {
	fmt.Println("templates")
	folder, err := os.MkdirTemp("", "templates-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	templates := exec.CommandContext(ctx, "go", "run", "./infra/templates", r.number(), folder)
	if out, err := templates.CombinedOutput(); err != nil {
		return fmt.Errorf("make the templates: %w\n%s", err, out)
	}
	files, err := os.ReadDir(folder) // by name
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			return err
		}
		if err := r.write(file.Name(), content); err != nil {
			return err
		}
	}
	return nil
}

// number is the version without the v of its tag.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) name(program, rest string) string { return program + "_" + r.number() + "_" + rest }

// write writes a file of the release and notes its digest.
func (r *release) write(name string, content []byte) error {
	fmt.Fprintf(&r.sums, "%x  %s\n", sha256.Sum256(content), name)
	return os.WriteFile(filepath.Join(r.folder, name), content, 0o644)
}
