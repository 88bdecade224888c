// Command templates writes the plain CloudFormation templates of a release:
//
//	templates NUMBER FOLDER    (make templates)
//
// The files are FOLDER/oncebox-NAME_NUMBER.template.json, as in oncebox-claims_1.2.3.template.json.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: templates NUMBER FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "templates:", err)
		os.Exit(1)
	}
}

func run(release, folder string) error {
	defer jsii.Close()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, name := range infra.TemplateNames() {
		template, err := compactTemplate(name, release)
		if err != nil {
			return err
		}
		file := fmt.Sprintf("oncebox-%s_%s.template.json", name, release)
		if err := os.WriteFile(filepath.Join(folder, file), template, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compactTemplate returns a template on one line, because CloudFormation accepts 51,200 bytes in a request.
func compactTemplate(name, release string) ([]byte, error) {
	synth, err := os.MkdirTemp("", "oncebox-template-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(synth) }()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: &synth})
	stack, err := infra.NewTemplate(app, name, release)
	if err != nil {
		return nil, err
	}
	app.Synth(nil)
	content, err := os.ReadFile(filepath.Join(synth, *stack.TemplateFile()))
	if err != nil {
		return nil, err
	}
	var short bytes.Buffer
	if err := json.Compact(&short, content); err != nil {
		return nil, err
	}
	return append(short.Bytes(), '\n'), nil
}
